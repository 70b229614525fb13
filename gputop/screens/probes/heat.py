"""Heat maps of a probe: its figures of ordered pairs as measures for the pair matrix."""

from __future__ import annotations

from collections.abc import Iterable

from gputop.screens.probes.groups import Group
from gputop.widgets.measure import Measure
from gputop.widgets.measures import measured_cells

LEAST_PAIRS = 2
"""One direction alone is no matrix."""


def heat_maps(groups: Iterable[Group]) -> tuple[Measure, ...]:
    """A measure for each group that holds figures of pairs, those with numbers first."""
    found = [
        group
        for group in groups
        if sum(1 for one in group.members if one.figure.src and one.figure.dst) >= LEAST_PAIRS
    ]
    found.sort(key=lambda group: not group.numbers)
    return tuple(
        Measure(
            f"{group.quantity.key} {group.variant or ''}",
            group.title,
            group.unit,
            measured_cells(group.quantity.key, group.variant, signs=True),
            less_is_better=not group.quantity.more_is_better,
        )
        for group in found
    )
