"""A node as it is set up, compared with the same node after some variables change."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ...nccl.prediction import Prediction
from ..catalogue.catalogue import Catalogue, catalogue
from ..values.reading import Reading, skipped
from ..values.values import may_be_read, overridden, read_value, unknown
from .changes import Changes, export_line
from .effects import Effect, effect_of


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One variable of a what-if."""

    name: str
    before: str | None
    """The value that is set now; None when it is not set."""
    after: str | None
    reading: Reading | None
    """How the library reads the new value; None when the variable is removed."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The predictions before and after, and their differences."""

    changes: tuple[Change, ...]
    baseline: Prediction
    changed: Prediction
    effect: Effect
    export: str
    """A line for a shell that makes these changes."""
    without_nvls: Effect | None = None
    """The differences if NVLS does not come up, where the changed prediction rests on it alone."""


def compare(
    baseline: Prediction,
    changed: Prediction,
    changes: Changes,
    without_nvls: Prediction | None = None,
) -> Comparison:
    """Compare two predictions; `changes` led from the first to the second.

    `without_nvls`: the second without NVLS, for one that is by NVLS alone.
    """
    void = overridden(changed.environment)
    known = catalogue()
    return Comparison(
        changes=tuple(
            Change(
                name=name,
                before=baseline.environment.get(name),
                after=value,
                reading=_reading(name, value, changed, known, void),
            )
            for name, value in sorted(changes.items())
        ),
        baseline=baseline,
        changed=changed,
        effect=effect_of(baseline, changed),
        export=export_line(changes),
        without_nvls=None if without_nvls is None else effect_of(baseline, without_nvls),
    )


def _reading(
    name: str,
    value: str | None,
    changed: Prediction,
    known: Catalogue,
    void: Mapping[str, str],
) -> Reading | None:
    if value is None:
        return None
    flag = known.flag(name)
    if flag is None:
        why = unknown(name, known)
        return Reading(effective=value, why=why) if may_be_read(name, known) else skipped(why)
    if name in void:
        return skipped(void[name])
    return read_value(flag, value, changed.library)
