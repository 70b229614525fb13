"""The lines above the list of probes: the level and its cost, or the progress of a suite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gputop.measuring.judged import low_probes, nothing_low
from gputop.probes.protocol.status import ProbeLevel, Status
from gputop.screens.probes.entries import ProbeEntry
from gputop.screens.probes.list import about
from gputop.simulating.probes import NAMES
from gputop.simulating.suite import simulated_seconds
from gputop.terminal.clean import clean
from gputop.topology.model.severity import Verdict
from gputop.topology.model.units import seconds
from gputop.topology.wiring.gpu_names import gpu_names
from gputop.widgets.meters import progress
from gputop.widgets.spans import Line, Span, cut, width_of, wrapped

if TYPE_CHECKING:
    from gputop.measuring.state import SuiteState
    from gputop.topology.model.machine import Machine

_DOT = (" · ", "rule")


def head_lines(
    entries: Sequence[ProbeEntry],
    gpus: int,
    level: str,
    suite: SuiteState | None,
    width: int,
    busy: str = "",
    *,
    simulated: bool = False,
) -> tuple[Line, ...]:
    """What is low and why, the cost of a run, and what did not end well; or the running suite.

    `gpus`: how many the probes run on; `busy`: which others they leave out, in words;
    `simulated`: whether a run here would be; then some probes are left out, the others fast.
    """
    if suite is not None and suite.running:
        return (_running(suite, width),)
    verdict = _verdict(entries, width)
    lines = (*verdict, _levels(entries, gpus, level, width, busy, simulated))
    if suite is None or not suite.text:
        return lines
    good = all(step.status in (Status.FINISHED, Status.SKIPPED) for step in suite.steps)
    if good and verdict:
        return lines  # the line at the foot says how many there were
    mark: Span = (" ✓ ", "good") if good else (" ! ", "warn")
    force: tuple[Span, ...] = ()
    if suite.forcible:
        run = "@screen.run(True)"
        force = (("  P", f"key bold {run}"), (" forces it", f"muted {run}"))
    return (*lines, *wrapped((mark, (clean(suite.text, 300), ""), *force), width, 3)[:2])


def _verdict(entries: Sequence[ProbeEntry], width: int) -> tuple[Line, ...]:
    """How many probes are broken or low, and why; () where no figure has a reference."""
    made = [entry for entry in entries if entry.groups]
    broken = [entry for entry in made if entry.broken]
    sick = broken or [entry for entry in made if entry.low]
    compared = [entry.name for entry in made if entry.compared]
    if not sick and not compared:
        return ()
    simulated = any(entry.simulated for entry in made)
    if sick:
        judgements = [judgement for entry in sick for judgement in entry.judgements]
        names = [entry.name for entry in sick]
        said = low_probes(names, len(made), judgements, broken=bool(broken), simulated=simulated)
    else:
        said = nothing_low(compared[0], len(compared), simulated=simulated)
    mark = Verdict.BROKEN if broken else Verdict.SLOW if sick else Verdict.HEALTHY
    return wrapped(((f" {mark.sign} ", mark.ink), (said, "strong")), width, 3)[:2]


def left_out(measured: tuple[str, ...], taken: tuple[str, ...], machine: Machine) -> str:
    """Which GPUs a run leaves out, and where it runs; "" where none is busy."""
    if not taken:
        return ""
    beside = set(taken) <= set(measured)
    how = "P runs beside it" if beside else f"runs on {gpu_names(measured, machine)}"
    return f"{gpu_names(taken, machine)} busy: {how}"


def _levels(
    entries: Sequence[ProbeEntry], gpus: int, level: str, width: int, busy: str, simulated: bool
) -> Line:
    spans: list[Span] = [(" Level ", "muted")]
    for name in ProbeLevel:
        ink = "strong underline" if name == level else "muted"
        spans += [(name, f"{ink} @screen.show_level('{name}')"), (" ", "")]
    able = [
        entry for entry in entries if entry.seconds is not None and gpus >= entry.minimum_gpus > 0
    ]
    if not gpus:
        return (*spans, _DOT, ("no GPU to measure", "muted"))
    # The rows are rounded: their sum is what a reader gets.
    total = sum(round(entry.seconds or 0.0) for entry in able)
    count = f"{len(able)} probe{'s' * (len(able) != 1)}"
    where = "" if busy else f" on {gpus} GPU{'s' * (gpus != 1)}"
    if simulated:
        some = [entry.name for entry in able if entry.name in NAMES]
        total = round(sum(simulated_seconds(name, gpus, level) for name in some))
        count = f"{len(some)} of {len(entries)} probes simulated"
    spans += [_DOT, (f"{count}{where}, about {about(total)}", "")]
    spans += [_DOT, (busy, "warn")] if busy else []
    run = "@screen.run_all(False)"
    end: Line = (_DOT, ("a", f"key bold {run}"), (" runs all", f"muted {run}"))
    return (*spans, *end) if width_of((*spans, *end)) < width else cut(tuple(spans), width - 1)


def _running(suite: SuiteState, width: int) -> Line:
    current = suite.current
    over = sum(1 for step in suite.steps if step.over)
    left = suite.left_seconds
    total = max(suite.estimate_seconds, sum(step.estimate_seconds for step in suite.steps))
    place = f"{min(over + 1, len(suite.steps))} of {len(suite.steps)}"
    name = clean(current.name, 20) if current is not None else "starting"
    wide = width >= 110
    bar = progress(max(total - left, 0.0), total, 40 if wide else 14)
    level: tuple[Span, ...] = (_DOT, (f"level {suite.level}", "muted")) if wide else ()
    return (
        (" ▶ ", "good"),
        (f"{place} {name} ", "strong"),
        *bar,
        (f" about {seconds(left)} left", ""),
        *level,
        _DOT,
        ("Esc", "key bold @step_back"),
        (" cancels", "muted @step_back"),
    )


def view_line(views: Sequence[str], shown: str) -> Line:
    """The views of the selected probe; the shown one is highlighted."""
    spans: list[Span] = [(" ", "")]
    for view in views:
        ink = "strong underline" if view == shown else "muted"
        spans += [(view, f"{ink} @screen.show_view('{view}')"), ("  ", "")]
    following = "@screen.next_view(1)"
    keys: Line = (("Tab", f"key bold {following}"), (" next", f"muted {following}"))
    return (*spans, *keys) if len(views) > 1 else tuple(spans)
