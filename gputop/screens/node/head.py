"""The first lines of the Node screen: the verdict, who runs here, what communication costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gputop.live.worst_jobs import wrong
from gputop.printing.verdicts import OF_NODE, checks_done, counted, notices
from gputop.screens import NAMES
from gputop.screens.job_sentence import headline
from gputop.screens.node.cells import BUSY_PERCENT
from gputop.terminal.clean import clean
from gputop.topology.expectation.kept import Kept
from gputop.topology.hardware.terms import terms_of
from gputop.topology.jobs.grouping import Job, jobs
from gputop.topology.model.readings import GpuProcess
from gputop.topology.model.units import seconds
from gputop.topology.wiring.gpu_names import gpu_label, gpu_names
from gputop.widgets.spans import Line, Span, cut, width_of

if TYPE_CHECKING:
    from gputop.live.findings import Shown
    from gputop.topology.jobs.asking import JobsReport
    from gputop.topology.model.finding import Finding
    from gputop.topology.model.machine import Machine
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.nccl.prediction import Prediction
    from gputop.topology.report import Report

_DOT: Span = (" · ", "muted")
_JOBS = 3
"""Jobs that are named before the rest is counted."""


class Use(NamedTuple):
    """Which GPUs work for whom."""

    jobs: tuple[Job, ...]
    busy: tuple[str, ...]
    """PCI addresses of GPUs with a process, or with load that nobody is seen to cause."""
    free: tuple[str, ...]
    unknown: tuple[str, ...]
    """GPUs whose processes were not read."""


Loads = tuple[tuple[str, tuple[GpuProcess, ...] | None, bool], ...]
"""PCI address of each GPU, its processes, and whether it works."""


def loads_of(snapshot: NodeSnapshot) -> Loads:
    """What decides who uses a GPU."""
    return tuple(
        (
            reading.address,
            reading.processes,
            (reading.utilization_percent or 0.0) >= BUSY_PERCENT,
        )
        for reading in snapshot.readings.gpus
    )


def use_of(snapshot: NodeSnapshot, loads: Loads) -> Use:
    """Who uses which GPU; one that works without a process that is seen is busy too."""
    held: list[str] = []
    free: list[str] = []
    unknown: list[str] = []
    for address, found, loaded in loads:
        where = held if found or (loaded and found == ()) else unknown if found is None else free
        where.append(address)
    return Use(tuple(jobs(snapshot)), tuple(held), tuple(free), tuple(unknown))


def verdict_line(
    shown: Shown | None, machine: Machine, width: int, answer: JobsReport | None = None
) -> tuple[Line, Line]:
    """The verdict in a word, and what is wrong; at the right the key that shows more.

    It names the node where the line below says that something is wrong with a job (`answer`).
    """
    end = _details("findings")
    if shown is None:
        return ((" ", ""), ("…", "muted"), (" checking", "muted bold")), ()

    sign, ink, word = shown.verdict.shown
    word = f"{OF_NODE} {word}" if wrong(answer) else word
    loud = [finding for finding in shown.findings if finding.severity.counts]
    asked = checks_done(shown.diagnosis)
    if loud:
        said: list[Span] = [("  " + causes(loud, machine), "strong")]
        more: Line = ((f" · {asked}", "muted"),)
        if width_of((*said, *more, *end)) + len(word) + 5 < width:
            said += more
    else:
        said = [(f": nothing wrong, {asked}", "strong")]
        # What is by design waits on the next screen where it does not fit.
        for found in (shown.findings, notices(shown.findings)):
            many: Line = ((f" · {counted(found)}", "muted"),) if found else ()
            if width_of((*said, *many, *end)) + len(word) + 5 < width:
                said += many
                break
    if shown.silenced:
        said.append((f" · {len(shown.silenced)} silenced", "warn"))
    line: Line = ((f" {sign} {word}", f"{ink} bold"), *said)
    return cut(line, width - width_of(end) - 1), end


def _details(screen: str) -> Line:
    return (
        (f"{NAMES.index(screen) + 1}", f"key bold @screen('{screen}')"),
        (" details ", f"muted @screen('{screen}')"),
    )


JOBS_END = _details("jobs")


def job_line(
    answer: JobsReport | None, width: int, end: Line = JOBS_END
) -> tuple[Line, Line] | None:
    """In place of who runs: the job that something is wrong with; at the right where more is."""
    sentence = headline(answer, width=width - width_of(end) - 2)
    if sentence is None:
        return None
    (text, ink), *tail = sentence
    first = cut(((f" {text}", ink),), width - width_of(tail) - width_of(end) - 1)
    return (*first, *tail), end


def causes(findings: Sequence[Finding], machine: Machine) -> str:
    """What is wrong, device by device: "GPU3: 16 of 18 NVLinks, PCIe x8 of x16"."""
    parts: dict[str, list[str]] = {}
    for finding in findings:
        gpu = machine.gpu(finding.devices[0]) if len(finding.devices) == 1 else None
        if gpu is not None and finding.brief:
            parts.setdefault(f"{gpu_label(gpu)}: ", []).append(clean(finding.brief, 80))
        else:
            parts[clean(finding.title, 200)] = []
    return "; ".join(name + ", ".join(briefs) for name, briefs in parts.items())


def use_line(use: Use, snapshot: NodeSnapshot, width: int) -> Line:
    """Who runs on which GPUs, and which are free."""
    machine = snapshot.machine
    spans: list[Span] = [("   ", "")]
    jobs = [job for job in use.jobs if any(user.reading.command for user in job.processes)]
    named: set[str] = set()
    for job in jobs[:_JOBS]:
        spans += [_DOT] if len(spans) > 1 else []
        spans += [
            ("BUSY ", "bar bold"),
            (f"{gpu_names(job.gpus, machine)} ", "strong"),
            (clean(job.name, 40), ""),
            (_age(job, snapshot), "muted"),
        ]
        named.update(job.gpus)
    if len(jobs) > _JOBS:
        rest = sorted({gpu for job in jobs[_JOBS:] for gpu in job.gpus} - named)
        named.update(rest)
        more = f" · {len(jobs) - _JOBS} more jobs"
        spans.append((f"{more} on {gpu_names(rest, machine)}" if rest else more, ""))
    held = {gpu for job in use.jobs for gpu in job.gpus}
    free = ("no process seen on", "muted") if _contained(machine) else ("FREE", "good bold")
    for (what, ink), gpus, after in (
        (("BUSY", "bar bold"), [g for g in use.busy if g in held - named], ""),
        (("BUSY", "bar bold"), [g for g in use.busy if g not in held], " by something not seen"),
        (free, use.free, ""),
        (("processes not read:", "muted"), use.unknown, ""),
    ):
        if gpus:
            spans += [_DOT] if len(spans) > 1 else []
            spans += [(f"{what} ", ink), (gpu_names(gpus, machine), "strong"), (after, "muted")]
    return cut(spans, width)


def _contained(machine: Machine) -> bool:
    """Whether processes outside a container may stay unseen."""
    host = machine.host
    return host is not None and host.container is not None and host.container.kind is not None


def _age(job: Job, snapshot: NodeSnapshot) -> str:
    """How long it runs, in its largest unit: nothing that ticks."""
    if job.started_at is None or job.started_at > snapshot.taken_at:
        return ""
    whole = snapshot.taken_at - job.started_at
    return " <1 min" if whole < 60 else f" {' '.join(seconds(whole).split()[:2])}"


def undecided_line(machine: Machine, why: str = "") -> Line:
    """Before there is a prediction, or why there is none."""
    library = terms_of(machine.gpus).library
    return ((f"   {library}: {clean(why, 200) if why else 'working it out…'}", "muted"),)


class _Clauses(NamedTuple):
    """What there is to say of a prediction: of 128 GPUs it counts 16 thousand pairs."""

    prediction: Prediction
    whose: str
    texts: tuple[str, ...]

    def fits(self, question: tuple[Prediction, str]) -> bool:
        """Whether it is about this very prediction."""
        return question[0] is self.prediction and question[1] == self.whose


def _clauses(question: tuple[Prediction, str]) -> _Clauses:
    from gputop.topology.nccl.decide.summary import clauses

    return _Clauses(*question, clauses(*question))


_CLAUSES: Kept[tuple[Prediction, str], _Clauses] = Kept(_clauses, 1)


def cost_line(report: Report, width: int) -> Line:
    """What an all-reduce costs here, and by which way the library goes."""
    machine, prediction = report.snapshot.machine, report.prediction
    if prediction is None:
        return undecided_line(machine, report.node.why_no_prediction)
    from gputop.topology.nccl.decide.summary import library_name

    if prediction.failure:
        name = library_name(prediction)
        return ((" ✗ ", "bad"), (f"{name} does not start: {clean(prediction.failure, 400)}", "bad"))
    from gputop.topology.expectation.cost.costs import costs_of

    spans: list[Span] = [("   ", "")]
    cost = costs_of(report.node).all_reduce
    if cost is not None and cost.pair:
        figures, _, basis = cost.pair.partition(" (")
        spans += [
            (f"{cost.what}: ", "muted"),
            (figures, "warn bold" if cost.lost else "strong"),
            (f" ({basis}" if basis else "", "muted"),
        ]
    if spans[1:] and any(gpu.name is None for gpu in machine.gpus):
        spans += [_DOT, ("model of the GPUs assumed", "warn")]
    # No communicator spans both vendors: say whose GPUs these are.
    mixed = len({gpu.vendor for gpu in machine.gpus}) > 1
    whose = {"rccl": "AMD", "nccl": "NVIDIA"}.get(prediction.library.name, "") if mixed else ""
    for text in _CLAUSES.of((prediction, whose)).texts:
        more = (*([_DOT] if len(spans) > 1 else []), (clean(text, 200), "muted"))
        if width_of((*spans, *more)) > width - 1:
            break
        spans += more
    return tuple(spans)
