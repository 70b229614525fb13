"""A log with its symptoms, and how far it agrees with the prediction."""

import re
from collections.abc import Iterable, Sequence
from textwrap import shorten

import msgspec

from ...jobs.saved import SavedAnswer, in_sections, states_with_answers
from ...jobs.standing import SEVERITIES, JobState
from ...logs.comparing.overlay import Overlay, lay
from ...logs.report.outcome import RunOutcome, outcome_of
from ...logs.report.places import gpus_from, normal
from ...logs.report.report import WARN, LogNote, LogReport
from ...model.finding import RAS_ANSWER, UNSEEN, Finding
from ...model.one_reason import without_told
from ...model.page import Fact, Fix
from ...model.severity import BROKEN, CANNOT_TELL, NOTICE, SLOW, RunState
from ...model.snapshot import NodeSnapshot
from ...node import Node
from ...recorded.pasted import PastedText
from ..case import Case
from ..defects.words import ID as KNOWN
from ..engine import diagnose
from ..mechanism.decode import ID as OPERATION
from ..mechanism.decode import PROGRAM, FailingLine, decode, decoded_findings
from ..mechanism.weighing import weighed
from .explain import ECHOES, SILENT, UNCERTAIN, around, explain, unexplained
from .known_defects import is_defect, with_defects
from .pasted_figures import PastedFigure, pasted_figures
from .quoting import KERNEL, Quoter
from .refuted import fitting
from .subjects import printed_by, spoken_of
from .unproven import as_told, is_document

# What to fetch next, where a log does not name the cause of a failure.
DEBUG = "the same run with NCCL_DEBUG=INFO, the output of all ranks in one file"
OF_UNIT = "journalctl -b -u UNIT: what the service itself printed before it ended"
_OF_ROW = {
    "watchdog-timeout": "the flight recorder's dumps of all ranks (TORCH_FR_BUFFER_SIZE=2000, in "
    "older PyTorch TORCH_NCCL_TRACE_BUFFER_SIZE, and TORCH_NCCL_DUMP_ON_TIMEOUT=1), and py-spy "
    "dump of the rank that prints no such line",
    "peer-gone": "the output of the other ranks and hosts: the earliest error of all is the cause",
    "taken-down": "the output of all ranks from their start: the first error or timeout of all is "
    "the cause",
    "proxy-echo": "the output of the other ranks and hosts: the earliest warning is the cause",
    "cuda-other": "the lines above it, the same run with CUDA_LAUNCH_BLOCKING=1 and NCCL_DEBUG="
    "INFO, and dmesg | grep -i nvrm",
    "store-gone": "the output of rank 0 and of the launcher on its host",
    "engine-failed": "the whole output from the start, above all the first trace of any worker",
    "task-gone": "the output of the task that is named",
    "nvshmem-failed": "the same run with NVSHMEM_DEBUG=INFO: its first error names the cause",
    "invalid-usage-unsaid": f"{DEBUG}: its first WARN line names the cause",
    "remote-error-unsaid": f"{DEBUG}: Bootstrap lines name each host's interface, and the earliest "
    "failure of all is the cause",
    "system-error-unsaid": f"{DEBUG}: its first WARN line names the cause",
    "reported-by-framework": f"{DEBUG}: its first WARN line names the cause",
    "returned-error": f"{DEBUG}: its first WARN line names the cause",
    **dict.fromkeys(
        ("service-status", "service-again", "service-killed", "service-protocol"), OF_UNIT
    ),
    "mpi-peer-closed": "the output of the other ranks: the earliest failure of all is the cause",
    "service-dependency": "systemctl --failed, and journalctl -b -u UNIT of the unit that it needs",
}


RETURNED = "returned-error"


def next_step(log: LogReport, found: Sequence[Finding], left: Sequence[LogNote]) -> str:
    """One sentence on what would show more; empty where a cause is named or nothing is wrong."""
    if describes(log):
        return ""
    broken = [finding.id for finding in found if finding.severity == BROKEN]
    if broken:
        return _OF_ROW[broken[0]] if {*broken} <= {*ECHOES} else ""
    if any(note.level is WARN for note in left):
        return f"{DEBUG}, from its start to the failure"
    names, wanted = _subjects_of(left)
    if names:
        return f"the quoted lines speak of {names}. Fetch {wanted}"
    return "" if log.library_lines or found else _step_beside(log.context, failing=bool(left))


def _step_beside(context: Sequence[LogNote], *, failing: bool) -> str:
    """What to fetch where a text says nothing but this, or beside it that something fails."""
    names, wanted = _subjects_of(context)
    for note in context:
        if _WARNS.search(note.text):
            text = shorten(note.text, MOST_WARNING, placeholder=" …").rstrip(" .")
            return f"line {note.line} warns: {text}. Fetch {wanted}"
    known = (
        "and a line of a failure in words unknown here" if failing else "of no failure known here"
    )
    return f"the text speaks of {names}, {known}. Fetch {wanted}" if names else wanted


def _subjects_of(lines: Sequence[LogNote]) -> tuple[str, str]:
    """What lines speak of, and what to fetch for it."""
    about = spoken_of(lines)
    fetch = "; ".join(subject.fetch for subject in about)
    return " and of ".join(subject.name for subject in about), fetch or printed_by(lines)


MOST_WARNING = 240
_WARNS = re.compile(
    r"(?i)warn(?:ing)?\b.*(?:\bharm|degrad|\bslow|instead of|fall(?:s|ing)? ?back|not enough"
    r"|insufficient|too (?:small|few|low|many)|\bonly \d|\bhas only|you (?:can|may|should|need)"
    r"|please|consider|increase|recommend|is not (?:set|available|supported))"
)
"""A warning of what it costs, or of what to set against it."""


_OF_SYSTEMD = re.compile(r"systemd(?:\[\d+\])?: \S+\.(?:service|scope|socket|mount|slice): ")
SAID = (BROKEN, SLOW, NOTICE, CANNOT_TELL)
"""Severities that are told."""

MOST_QUOTED = 6
LONGEST = 300
SOURCES = ("NCCL user guide, RAS", "NCCL src/ras/client_support.cc")
QUOTED = re.compile(r"#\d|Process \d|Rank \d|Communicator ranks|\d+ ranks ")
"""How lines begin that say what a rank does."""


class ReadLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log, its symptoms, and the prediction for it."""

    log: LogReport
    findings: tuple[Finding, ...]
    unexplained: tuple[LogNote, ...]
    next: str
    """What to fetch where no finding names a cause; may be empty."""
    overlay: Overlay
    outcome: RunOutcome = RunOutcome(RunState.UNKNOWN)
    """What became of the run."""
    measured: tuple[PastedFigure, ...] = ()
    """Figures of other programs in the same text."""


def fits(log: LogReport, snapshot: NodeSnapshot) -> bool:
    """Whether all GPUs that the log names are on this node."""
    here = {normal(gpu.address) for gpu in snapshot.machine.gpus}
    named = gpus_from(log)
    return bool(named) and set(named) <= here


def examine(
    log: LogReport, snapshot: NodeSnapshot | None, *, library: str | None = None
) -> ReadLog:
    """Explain a log and compare it with a node; without one, with that of its own System block.

    What outputs of other tools in the same text show is among the findings.
    """
    said, left = symptoms(log)
    ras = ras_findings(log.pasted, log.name or "text")
    gpus = () if log.pasted is None else log.pasted.snapshot.machine.gpus
    pasted = without_told(pasted_findings(log.pasted), said)
    here = weighed((*said, *pasted, *ras), gpus)
    found = tuple(sorted((*here, *findings_of_others(log.pasted)), key=_harm))
    overlay = lay(log, snapshot, library=library)
    beside = None if log.pasted is None else log.pasted.snapshot
    if snapshot is None and not overlay.node and beside is not None and fits(log, beside):
        overlay = lay(log, beside, library=library)
    return ReadLog(
        log=log,
        findings=found,
        unexplained=left,
        next=next_step(log, found, left),
        overlay=overlay,
        outcome=RunOutcome(RunState.UNKNOWN) if describes(log) else outcome_of(log),
        measured=pasted_figures(log.pasted),
    )


def describes(log: LogReport) -> bool:
    """Whether the text describes programs, and no run printed any of it."""
    return is_document(log.context, printed=bool(log.library_lines))


def symptoms(log: LogReport) -> tuple[tuple[Finding, ...], tuple[LogNote, ...]]:
    """What the lines of a log say went wrong, and those that nobody understands."""
    said, left = explain(log), unexplained(log)
    decoded = decoded_findings(_unknown(left), _echoed(log, said), around(log), log.name)
    told = {fact.line for finding in decoded for fact in finding.evidence}
    found = with_defects(fitting((*said, *decoded), around(log)), log)
    origin = any(finding.candidates and _is_origin(finding) for finding in decoded)
    if any(map(_echoes, found)) and (of := list(filter(_fails, found))):
        found = [_as_origin(one) if one in of else one for one in found]
        origin = True
    if origin:
        found = [*map(_behind, found)]
    if describes(log):
        # It names failures to describe them, and accuses nobody.
        return tuple(as_told(one) for one in found if one.id != OPERATION), ()
    return tuple(found), tuple(note for note in left if note.line not in told)


def _echoes(finding: Finding) -> bool:
    return finding.id in ECHOES and finding.severity is BROKEN


def _fails(finding: Finding) -> bool:
    """Whether a line of a known defect that ends jobs shows it, and no more than a slow job."""
    return finding.severity is SLOW and any(map(is_defect, finding.candidates[:1]))


def _as_origin(finding: Finding) -> Finding:
    return msgspec.structs.replace(finding, severity=BROKEN)


def _is_origin(finding: Finding) -> bool:
    """Whether an operation may be why others fail: programs and frameworks pass failures on."""
    what = decode(finding.evidence[0].value)
    if what is None or what.operation is None:
        return True
    return what.operation.layer != PROGRAM and not what.by_name


def _behind(finding: Finding) -> Finding:
    """An echo beside its origin: worth knowing, and no more."""
    if finding.id not in ECHOES:
        return finding
    title = finding.title.removesuffix(UNCERTAIN).removesuffix(SILENT)
    return msgspec.structs.replace(finding, severity=NOTICE, title=title)


def _unknown(left: Iterable[LogNote]) -> list[FailingLine]:
    # A line of systemd's about a unit names the unit, and no operation that failed.
    said = (note for note in left if not _OF_SYSTEMD.search(note.text))
    return [FailingLine(note.line, note.text) for note in said]


def _echoed(log: LogReport, said: Iterable[Finding]) -> list[FailingLine]:
    """The lines of echoes: they may name an operation whose failure is the origin."""
    # The files that an error passed through name no operation of their own.
    echoes = [one for one in said if one.id in ECHOES and one.severity.counts]
    echoes = [one for one in echoes if one.id != RETURNED]
    lines = {fact.line for one in echoes for fact in one.evidence}
    return _unknown(note for note in log.notes if note.line in lines)


UNANSWERED = "gpu-unanswered"


def _harm(finding: Finding) -> tuple[int, bool]:
    """The most harmful first; among equals those that say more than that something failed."""
    return finding.severity.order, finding.id in (*ECHOES, KNOWN, UNANSWERED)


# What the rules find in outputs of tools that stand in a log or in any other text.
def pasted_findings(pasted: PastedText | None) -> tuple[Finding, ...]:
    """Findings of the rules, each with the lines of the text first, then what was read off them."""
    if pasted is None or not _has_devices(pasted):
        return ()
    case = Case(Node(pasted.snapshot).decide())
    quoter = Quoter(pasted)
    found = []
    for finding in diagnose(case).findings:
        if finding.severity not in SAID or finding.id in UNSEEN:
            continue  # that a text cannot show a thing is no finding of this report
        lines = quoter.quoted(finding)
        harmful = finding.severity in (BROKEN, SLOW)
        if not (lines or harmful):
            continue  # nothing in the text shows it: it follows from what is not there
        beside = [proof for proof in finding.evidence if proof.source != KERNEL]
        found.append(
            msgspec.structs.replace(
                finding,
                evidence=(*lines, *beside),
                cause=finding.impact,
                count=max(finding.count, len(lines)),
                sureness=finding.sureness or "certain",
            )
        )
    return tuple(found)


SEVERAL = "several-machines"
APART = (
    "What each machine shows is told apart: this node is {}; findings of others name them first."
)
ONE_EACH = "Give each machine's text, or each moment's, in a file of its own."


def findings_of_others(pasted: PastedText | None) -> tuple[Finding, ...]:
    """That a text is of several machines, and what the others than the first one show."""
    if pasted is None or not pasted.others:
        return ()
    every = (pasted, *pasted.others)
    names = [one.host or f"machine {at}" for at, one in enumerate(every, 1)]
    places = [", ".join(part.where for part in one.sections[:MOST_QUOTED]) for one in every]
    listed = "; ".join(f"{name} ({place})" for name, place in zip(names, places, strict=True))
    head = Finding.of(
        id=SEVERAL,
        severity=NOTICE,
        title=f"This text is of {len(every)} machines, or of one at several moments: {listed}",
        cause=APART.format(names[0]),
        fix=(Fix(text=ONE_EACH),),
        sources=("the outputs themselves",),
        sureness="likely",
    )
    told = (
        msgspec.structs.replace(one, title=f"{name}: {one.title}", devices=())
        for name, other in zip(names[1:], pasted.others, strict=True)
        for one in pasted_findings(other)
    )
    return (head, *told)


def _has_devices(pasted: PastedText) -> bool:
    machine, told = pasted.snapshot.machine, pasted.snapshot
    shown = told.measurements or told.kernel_events
    return bool(machine.gpus or machine.rdma or machine.unnamed_acs or shown)


# What answers of RAS in a log or another text say of the ranks, as findings.
def ras_findings(pasted: PastedText | None, name: str) -> tuple[Finding, ...]:
    """One finding a job, with the sentence of `gputop jobs` as its title."""
    if pasted is None:
        return ()
    saved = in_sections(name, pasted.sections)
    return tuple(_finding(job, last) for job, last in states_with_answers(saved))


def _finding(job: JobState, last: SavedAnswer) -> Finding:
    severity = SEVERITIES.get(job.verdict, NOTICE)
    facts = [finding.title for finding in job.findings if not finding.severity.counts]
    return Finding.of(
        id=RAS_ANSWER,
        severity=severity,
        title=f"RAS{job.sentence.removeprefix(job.name)}",
        evidence=_quoted(last),
        cause="; ".join([*facts, *(f"not known: {text}" for text in job.unknown)]),
        fix=tuple(Fix(text="", command=step) for step in job.steps),
        look=("Ask again on a node of the job: gputop jobs",),
        sureness="certain",
        count=len(last.lines),
        sources=SOURCES,
    )


def _quoted(last: SavedAnswer) -> tuple[Fact, ...]:
    lines = [(at, line.strip()) for at, line in enumerate(last.lines, last.first) if line.strip()]
    told = [(at, line) for at, line in lines if QUOTED.match(line)] or [
        (at, line) for at, line in lines if line[:1].isdigit()
    ]
    return tuple(
        Fact(what=f"line {at}", value=line[:LONGEST], source=last.where, line=at)
        for at, line in told[:MOST_QUOTED]
    )
