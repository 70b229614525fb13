"""The two lines above the jobs: what is wrong, who runs where, and which GPUs are free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gputop.screens.jobs.list import age, ranks_here
from gputop.terminal.clean import clean
from gputop.topology.jobs.binding import FAR, NEAR, ONE_NODE, PARTLY, binding, crowded, together
from gputop.topology.wiring.gpu_names import gpu_names
from gputop.widgets.spans import Line, Span, cut, text_of, width_of, wrapped

if TYPE_CHECKING:
    from gputop.topology.jobs.grouping import GpuUser, Job
    from gputop.topology.model.finding import Finding
    from gputop.topology.model.snapshot import NodeSnapshot

PLACES = {
    NEAR: "near their GPU",
    PARTLY: "partly far from it",
    FAR: "far from it",
    None: "not known",
}
"""Where the CPUs of a rank are; on a host with one NUMA node the question does not arise."""


def head_lines(
    found: Sequence[Job],
    snapshot: NodeSnapshot,
    findings: Sequence[Finding],
    width: int,
    sentence: Line | None = None,
) -> tuple[Line, Line]:
    """The worst finding about a job, else who runs; then the jobs, or how their ranks are bound.

    `sentence`: what a job says that hangs; it comes before all others, on both lines if need be.
    """
    if sentence is not None:
        (text, ink), *tail = sentence
        first, *rest = wrapped(((text, ink),), width, 2)
        if not rest and width_of(sentence) <= width:
            return sentence, head_lines(found, snapshot, findings, width)[0]
        more = " ".join(text_of(line).strip() for line in rest)
        return first, (*cut(((f"  {more}", ink),), width - width_of(tail)), *tail)
    jobs, free = _jobs(found, snapshot), _free(snapshot)
    crowd = crowded(user.reading for job in found for user in job.processes)
    if crowd:
        ranks = f"{len(crowd)} processes are bound to fewer CPUs than they are"
        return cut((("▼ ", "warn bold"), (ranks, "warn bold")), width), cut((*jobs, *free), width)
    if findings:
        worst = findings[0]
        sign, ink, _ = worst.severity.shown
        more = f" · {len(findings) - 1} more" if len(findings) > 1 else ""
        title = (f"{sign} {clean(worst.title, 200)}", f"{ink} bold".strip())
        return cut((title, (more, "muted")), width), cut((*jobs, *free), width)
    return cut((*jobs, *free), width), cut(_bound(found, snapshot), width)


def _jobs(found: Sequence[Job], snapshot: NodeSnapshot) -> tuple[Span, ...]:
    if not found:
        return (("No process is seen on the GPUs", "strong"),)
    first = found[0]
    started = "" if first.started_at is None else f", {age(first.started_at, snapshot)}"
    gpus = gpu_names(first.gpus, snapshot.machine)
    if len(found) == 1:
        text = f"{clean(first.name, 40)}: {ranks_here(first)} on {gpus}{started}"
        return ((text, "strong"),)
    held = {address for job in found for address in job.gpus}
    named = ", ".join(clean(job.name, 30) for job in found[:3]) + ", …" * (len(found) > 3)
    return (
        (f"{len(found)} jobs on {gpu_names(sorted(held), snapshot.machine)}: ", "strong"),
        (named, ""),
    )


def _free(snapshot: NodeSnapshot) -> tuple[Span, ...]:
    """The GPUs whose list of processes is known to be empty."""
    free = [gpu.address for gpu in snapshot.readings.gpus if gpu.processes == ()]
    hidden = sum(gpu.processes is None for gpu in snapshot.readings.gpus)
    spans: list[Span] = []
    if free:
        spans.append((f" · {gpu_names(free, snapshot.machine)} free", "good"))
    if hidden:
        spans.append((f" · processes of {hidden} GPUs not read", "muted"))
    return tuple(spans)


def _bound(found: Sequence[Job], snapshot: NodeSnapshot) -> tuple[Span, ...]:
    """How many processes run near their GPUs."""
    counts = Counter(_place(user, snapshot) for job in found for user in job.processes)
    counts.pop(ONE_NODE, None)
    if not counts:
        return ()
    spans: list[Span] = [("CPUs of the processes:", "muted")]
    for place, words in PLACES.items():
        if counts[place]:
            comma = "," * (len(spans) > 1)
            ink = "warn" if place in (PARTLY, FAR) else "muted"
            spans += [(f"{comma} ", "muted"), (f"{counts[place]} {words}", ink)]
    return tuple(spans)


def _place(user: GpuUser, snapshot: NodeSnapshot) -> str | None:
    gpus = [gpu for address in user.gpus if (gpu := snapshot.machine.gpu(address)) is not None]
    return together(tuple(binding(snapshot.machine, user.reading, gpu) for gpu in gpus))
