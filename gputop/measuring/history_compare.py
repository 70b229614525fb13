"""Compares a run with the earlier runs on the same node."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec

from gputop.measuring.history import SavedFigure, SavedRun
from gputop.probes.protocol.status import ProbeLevel

MARKED_PERCENT = 5.0
"""Larger changes are marked; repeated runs on a quiet node differ far less."""


class FigureChange(msgspec.Struct, frozen=True, kw_only=True):
    """One figure and the median of the earlier ones, all by the same method."""

    quantity: str
    src: str | None = None
    dst: str | None = None
    variant: str | None = None
    bytes_per_copy: int | None = None
    unit: str | None = None
    now: float
    earlier: float | None = None
    """The median; None where no earlier run used this method."""
    runs: int = 0
    """How many earlier runs have it."""
    percent: float | None = None
    marked: bool = False


class RunComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The last run of a probe compared with the earlier ones."""

    probe: str
    taken_at: float
    level: ProbeLevel
    earlier_runs: int
    since: float | None = None
    """When the oldest earlier run was taken."""
    stack: tuple[tuple[str, tuple[str, ...], str], ...] = ()
    """(name, earlier versions, version now) of everything that has another version now."""
    environment: tuple[tuple[str, tuple[str, ...], str], ...] = ()
    """The same for environment variables; "" is not set."""
    changes: tuple[FigureChange, ...] = ()

    @property
    def marked(self) -> tuple[FigureChange, ...]:
        """The changes above the limit, the largest first."""
        found = [change for change in self.changes if change.marked]
        return tuple(sorted(found, key=lambda change: -abs(change.percent or 0.0)))


def compare(now: SavedRun, earlier: Sequence[SavedRun]) -> RunComparison:
    """Compare a run with the earlier runs of the same probe at any level."""
    before = [run for run in earlier if run.probe == now.probe and run is not now]
    known: dict[tuple[object, ...], list[float]] = {}
    for run in before:
        for figure in run.figures:
            if figure.value is not None:
                known.setdefault(_key(figure), []).append(figure.value)
    return RunComparison(
        probe=now.probe,
        taken_at=now.taken_at,
        level=now.level,
        earlier_runs=len(before),
        since=min((run.taken_at for run in before), default=None),
        stack=_differing(now.versions, [run.versions for run in before]),
        environment=_differing(now.environment, [run.environment for run in before]),
        changes=tuple(
            _change(figure, known.get(_key(figure), []))
            for figure in now.figures
            if figure.value is not None
        ),
    )


def compare_last(runs: Sequence[SavedRun], names: Sequence[str] = ()) -> tuple[RunComparison, ...]:
    """Compare the last run of each probe with those before it; `runs`: oldest first."""
    last = {run.probe: run for run in runs}
    return tuple(
        compare(run, [other for other in runs if other is not run])
        for probe, run in last.items()
        if not names or probe in names
    )


def _key(figure: SavedFigure) -> tuple[object, ...]:
    return (
        figure.quantity,
        figure.src,
        figure.dst,
        figure.variant,
        figure.bytes_per_copy,
        figure.method,
        figure.unit,
    )


def _change(figure: SavedFigure, earlier: Sequence[float]) -> FigureChange:
    assert figure.value is not None
    median = statistics.median(earlier) if earlier else None
    percent = 100 * (figure.value - median) / abs(median) if median else None
    return FigureChange(
        quantity=figure.quantity,
        src=figure.src,
        dst=figure.dst,
        variant=figure.variant,
        bytes_per_copy=figure.bytes_per_copy,
        unit=figure.unit,
        now=figure.value,
        earlier=median,
        runs=len(earlier),
        percent=percent,
        marked=percent is not None and abs(percent) > MARKED_PERCENT,
    )


def _differing(
    now: dict[str, str], earlier: Sequence[dict[str, str]]
) -> tuple[tuple[str, tuple[str, ...], str], ...]:
    """Names whose value was different in an earlier run."""
    names = sorted({name for values in (now, *earlier) for name in values}) if earlier else []
    found = []
    for name in names:
        was = dict.fromkeys(values.get(name, "") for values in earlier)
        others = tuple(value for value in was if value != now.get(name, ""))
        if others:
            found.append((name, others, now.get(name, "")))
    return tuple(found)
