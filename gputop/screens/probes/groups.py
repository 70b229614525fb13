"""Groups the figures of one probe: the same quantity on several devices is one group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from gputop.measuring.quantities import place_of, quantity_of, unit_text
from gputop.terminal.clean import clean
from gputop.topology.model.gathered import gathered_by
from gputop.topology.model.severity import FigureVerdict
from gputop.topology.model.units import figure as in_figures

if TYPE_CHECKING:
    from gputop.measuring.judged import Judged
    from gputop.probes.protocol.quantity import Quantity
    from gputop.topology.expectation.judgement import Judgement
    from gputop.topology.model.snapshot import Measurement

LEAST_POINTS = 3
"""A sweep has at least this many sizes."""
_LOOKED_AT = (
    FigureVerdict.LOW,
    FigureVerdict.HIGH,
    FigureVerdict.NO_REFERENCE,
    FigureVerdict.HEALTHY,
)


class GroupMember(msgspec.Struct, frozen=True):
    """One figure of a device, of a pair, or of all devices together."""

    who: str
    """"GPU0 → GPU1", "GPU0", "" for all together."""
    figure: Measurement
    judgement: Judgement | None

    @property
    def verdict(self) -> FigureVerdict:
        """Its verdict; NO_REFERENCE where none was made."""
        judgement = self.judgement
        return FigureVerdict.NO_REFERENCE if judgement is None else FigureVerdict(judgement.verdict)


class Group(msgspec.Struct, frozen=True):
    """One quantity and variant, measured on one or more devices."""

    title: str
    quantity: Quantity
    variant: str | None
    members: tuple[GroupMember, ...]

    @property
    def numbers(self) -> tuple[float, ...]:
        """Values of the members that have one."""
        values = (member.figure.value for member in self.members)
        return tuple(value for value in values if value is not None)

    @property
    def unit(self) -> str:
        """The unit of the figures as it is shown."""
        units = (member.figure.unit for member in self.members)
        return unit_text(next((unit for unit in units if unit), ""))

    @property
    def worst(self) -> GroupMember:
        """The member to look at first: the lowest if one is low, else the median."""
        known = [member for member in self.members if member.figure.value is not None]
        if not known:
            return self.members[0]
        first = min(known, key=lambda member: _LOOKED_AT.index(member.verdict))
        alike = sorted(
            (member for member in known if member.verdict == first.verdict),
            key=lambda member: member.figure.value or 0.0,
        )
        return alike[0] if first.verdict == FigureVerdict.LOW else alike[len(alike) // 2]

    @property
    def bad(self) -> tuple[GroupMember, ...]:
        """Members that are low, lowest first."""
        low = [member for member in self.members if member.verdict == FigureVerdict.LOW]
        return tuple(sorted(low, key=lambda member: member.figure.value or 0.0))

    @property
    def range_text(self) -> str:
        """The figures without their unit: "396", "395–397"; a dash where there is none."""
        values = self.numbers
        if not values:
            return "–"
        ends = in_figures(min(values)), in_figures(max(values))
        return ends[0] if ends[0] == ends[1] else "–".join(ends)


def title_of(quantity: Quantity, variant: str | None) -> str:
    """The title of a figure within its probe."""
    return ", ".join(part for part in (quantity.title, clean(variant or "", 60)) if part)


def _staged(title: str, figures: Sequence[Measurement]) -> str:
    """The title, with a remark where the driver copies through the host for lack of P2P."""
    staged = sum("staged through" in (figure.engine or "") for figure in figures)
    if not staged:
        return title
    return f"staged {title}" if staged == len(figures) else f"{title}, {staged} staged"


def who_of(figure: Measurement, names: Mapping[str, str]) -> str:
    """The device or pair of a figure, by label."""
    ends = [names.get(end, clean(end, 20)) for end in (figure.src, figure.dst) if end]
    return " → ".join(ends)


def groups(figures: Iterable[Measurement], judged: Judged, names: Mapping[str, str]) -> list[Group]:
    """Group figures in the order of their declaration; a sweep is represented by its largest size.

    Two sizes are not a sweep but two runs; the later one counts.
    """
    alike = gathered_by(
        figures, lambda figure: (figure.quantity, figure.variant, figure.src, figure.dst)
    )
    found: dict[tuple[Quantity, str | None], list[Measurement]] = {}
    for members in alike.values():
        figure = members[-1]
        if len(members) >= LEAST_POINTS:
            figure = max(members, key=lambda member: member.bytes_per_copy or 0)
        found.setdefault((quantity_of(figure), figure.variant), []).append(figure)
    order = sorted(found, key=lambda key: place_of(key[0].key, found[key][0].probe))
    return [
        Group(
            title=_staged(title_of(*key), found[key]),
            quantity=key[0],
            variant=key[1],
            members=tuple(
                GroupMember(who_of(figure, names), figure, judged.of(figure))
                for figure in found[key]
            ),
        )
        for key in order
    ]
