"""A debug log of NCCL or RCCL, explained on the graph of the node; dumps and RAS as of jobs."""

from __future__ import annotations

import gzip
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, ClassVar, TypedDict

from gputop.answers.jobs import JobsAnswer, answer_of, of_material
from gputop.answers.jobs import page as jobs_page
from gputop.answers.question import Answer, NodeRequest, Option, Question
from gputop.exits import CANNOT_TELL, USAGE, Exit
from gputop.pages.log import log_page
from gputop.reading import below, check_sources, read_snapshot
from gputop.terminal.lines import warn
from gputop.terminal.size import text_width
from gputop.topology.diagnosis.symptoms.explain import explain, known_signs
from gputop.topology.diagnosis.symptoms.log import ReadLog, examine, fits
from gputop.topology.diagnosis.symptoms.pasted_figures import PastedFigure
from gputop.topology.diagnosis.symptoms.subjects import spoken_of
from gputop.topology.diagnosis.symptoms.unproven import is_extract
from gputop.topology.jobs.flight.dump import is_pickle
from gputop.topology.jobs.flight.files import FoundDumps
from gputop.topology.jobs.from_files import material_in, of_files
from gputop.topology.jobs.saved import in_sections
from gputop.topology.logs.comparing.agreement import Agreement, ComparedItem, PairAgreement
from gputop.topology.logs.reading.lines import LogUnreadable, Readable
from gputop.topology.logs.reading.read import read_log
from gputop.topology.logs.report.communicator import Communicator
from gputop.topology.logs.report.outcome import RunOutcome
from gputop.topology.logs.report.own_diagnostics import (
    DiagnosticsReport,
    OwnCheck,
    OwnDiagnostics,
)
from gputop.topology.logs.report.places import gpus_from
from gputop.topology.logs.report.report import LoggedVersions, LogNote, LogReport, Variable
from gputop.topology.model.errors import GputopError
from gputop.topology.model.finding import Candidate, Finding
from gputop.topology.model.page import Fix, Page
from gputop.topology.model.severity import Severity, Sureness, Word
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.nccl.versions import UnknownVersionError, version_for
from gputop.topology.recorded.formats.ncclras import TOOL
from gputop.topology.recorded.kept import not_looked_through
from gputop.topology.recorded.plain_file import HEAD_BYTES, open_plain, packed_by


class LogSeverity(Word):
    """How harmful a finding of a log is, in the document's words."""

    ERROR = "error"
    WARNING = "warning"
    CANNOT_TELL = "cannot-tell"
    NOTICE = "notice"
    BY_DESIGN = "by-design"


WORDS: dict[Severity, LogSeverity] = dict(zip(Severity, LogSeverity, strict=True))
"""The document's word of each severity."""

NO_LINES = "no line of NCCL or RCCL in it"
FETCH = (
    "a job writes them with NCCL_DEBUG=INFO; outputs of nvidia-smi, lspci -vvv, ibstat, nccl-tests "
    "and the like are read too"
)
NO_LOG = "a pickle, not a log; `gputop log FILE` explains a dump of PyTorch's flight recorder"
MOST_QUOTED = 3
OF_JOBS = "dumps of a flight recorder, answers of NCCL's RAS or records of its Inspector"


class LogRequest(NodeRequest, frozen=True, kw_only=True):
    """Explain a debug log (NCCL_DEBUG=INFO) and compare it with the prediction.

    FILE may be compressed with gzip; - reads stdin. The node is --from or --demo, else this
    machine where its GPUs are those of the log, else it is rebuilt from the log itself.

    FILE may also be a dump of PyTorch's flight recorder, or a folder with the dumps of all ranks,
    or what `ncclras` printed: they are explained as by `gputop jobs`.
    """

    file: Annotated[str, Option("FILE", "", "FILE|-", "files")]
    library: Annotated[
        str | None,
        Option(
            "--nccl",
            "Version whose rules predict: 2.28.9, nccl-2.28.9 or rccl-2.21.5; default is the "
            "log's.",
            "VERSION",
            "versions",
        ),
    ] = None


class LogRead(TypedDict):
    """How much of a log was read and understood."""

    lines: int
    bytes: int
    library_lines: int
    kinds: dict[str, int]
    cut: int
    more: dict[str, int]
    outputs_until: int | None
    outputs_note: str | None
    unread: tuple[LogNote, ...]
    unknown: tuple[LogNote, ...]


class DiagnosticsEntry(TypedDict):
    """A report of NCCL's own diagnostics, and what it comes to."""

    report: DiagnosticsReport
    host: str
    pid: int
    line: int
    begun: int
    ended: int
    checks: tuple[OwnCheck, ...]
    milliseconds: float | None
    across: str
    passed: bool | None
    sentence: str


class ToolOutput(TypedDict):
    """Where an output of another tool stands."""

    tool: str
    line: int
    lines: int


class ProofLine(TypedDict):
    """A line of a log that proves something."""

    line: int | None
    text: str


class LogFinding(TypedDict):
    """What a log says went wrong."""

    id: str
    severity: LogSeverity
    title: str
    cause: str
    sureness: Sureness
    proof: list[ProofLine]
    count: int
    candidates: tuple[Candidate, ...]
    look: tuple[str, ...]
    fix: tuple[Fix, ...]
    sources: tuple[str, ...]


class AgreementEntry(TypedDict):
    """Whether a log agrees with the prediction."""

    sentence: str
    agree: int
    differ: int
    comparable: bool
    why_not: str | None
    library: str
    ranks: dict[str, int]
    outside: tuple[int, ...]
    pairs: tuple[PairAgreement, ...]
    items: tuple[ComparedItem, ...]
    skipped: tuple[str, ...]
    reasons: tuple[str, ...]


class LogAnswer(Answer, frozen=True, kw_only=True, tag="gputop.log/1"):
    """Everything that is kept of a log, and what it means."""

    hidden: ClassVar[tuple[str, ...]] = ("read",)
    remarks = ()
    log: LogRead
    library: LoggedVersions
    hosts: tuple[str, ...]
    bootstrap: tuple[str, ...]
    environment: tuple[Variable, ...]
    communicators: tuple[Communicator, ...]
    diagnostics: tuple[DiagnosticsEntry, ...]
    """Reports of NCCL's own diagnostics, each with what it comes to."""
    notes: tuple[LogNote, ...]
    outputs: tuple[ToolOutput, ...]
    """Where outputs of other tools stand in it."""
    measured: tuple[PastedFigure, ...]
    outcome: RunOutcome
    findings: tuple[LogFinding, ...]
    next: str | None
    unexplained: tuple[LogNote, ...]
    node: str | None
    agreement: AgreementEntry
    read: ReadLog


def answer(request: LogRequest) -> LogAnswer | JobsAnswer:
    """Read a log, dumps or what RAS answered, and explain it."""
    file, sources, demo = request.file, request.sources, request.demo
    check_sources(sources, demo)
    _check_version(request.library)
    folder = os.path.isdir(file)
    found = material_in([] if file == "-" else [file], texts=folder)
    if found.told:
        return of_material(found, [file])
    if file != "-" and not found.others:
        refused = [f"{path}: {why}" for path, why in found.refused] or [file]
        more = f"; {len(refused) - 1} more files like it" if len(refused) > 1 else ""
        raise Exit(f"{refused[0]}{more}", CANNOT_TELL)
    if folder:
        raise Exit(
            f"{file}: not a regular file, nor a folder with {OF_JOBS}{below([file])}", CANNOT_TELL
        )
    return _told(_read(file), request, lambda log: _node(log, request))


def answer_to_text(
    text: bytes, given: NodeSnapshot | None = None, library: str | None = None
) -> LogAnswer | JobsAnswer:
    """The answer about a text in hand; without a node the text says what it can. Raises Exit."""
    _check_version(library)
    try:
        log = read_stream(io.BufferedReader(io.BytesIO(text)), "text")
    except ReadError as error:
        raise Exit(str(error), CANNOT_TELL) from error
    request = LogRequest(file="text", given=given, library=library)
    return _told(log, request, lambda log: given)


def _check_version(library: str | None) -> None:
    try:
        if library is not None:
            version_for(library)
    except UnknownVersionError as error:
        raise Exit(str(error), USAGE) from error


def _told(
    log: LogReport, request: LogRequest, node_of: Callable[[LogReport], NodeSnapshot | None]
) -> LogAnswer | JobsAnswer:
    saved = in_sections(log.name or "text", log.pasted.sections if log.pasted is not None else ())
    broken = [f"{where}: {why}" for where, why in saved.refused]
    alone = _nothing_else(log)
    if alone and broken and not saved.answers:
        raise Exit(broken[0], CANNOT_TELL)
    for why in broken:
        warn(why)
    if saved.answers and alone and not (request.sources or request.demo):
        return answer_of(of_files(None, FoundDumps(), saved))
    return answer_about(examine(log, node_of(log), library=request.library))


def _nothing_else(log: LogReport) -> bool:
    """Whether a text holds answers of RAS and nothing of a log or of another tool."""
    tools = {section.tool for section in log.pasted.sections} if log.pasted is not None else set()
    return tools == {TOOL} and not (log.notes or log.communicators or log.diagnostics)


def _read(file: str) -> LogReport:
    try:
        if file == "-":
            return read_stream(sys.stdin.buffer, "stdin")
        return read_path(Path(file))
    except ReadError as error:
        raise Exit(str(error), USAGE if error.unreadable else CANNOT_TELL) from error


def _node(log: LogReport, request: LogRequest) -> NodeSnapshot | None:
    """The node of the options, or this machine if the log names its GPUs."""
    if request.sources or request.demo or request.given is not None:
        return request.snapshot()
    if not gpus_from(log):
        return None
    here = read_snapshot((), None)
    if not fits(log, here):
        return None
    warn("the node is this machine: its GPUs are those of the log")
    return here


def answer_about(read: ReadLog) -> LogAnswer:
    """The answer about a log that was read and examined."""
    log, agreement = read.log, read.overlay.agreement
    sections = log.pasted.sections if log.pasted is not None else ()
    until = log.outputs_until
    return LogAnswer(
        source=(log.name,),
        assumptions=tuple(read.overlay.assumptions),
        log={
            "lines": log.lines,
            "bytes": log.bytes,
            "library_lines": log.library_lines,
            "kinds": log.kinds,
            "cut": log.cut,
            "more": log.more,
            "outputs_until": until,
            "outputs_note": not_looked_through(until) if until else None,
            "unread": log.unread,
            "unknown": log.unknown,
        },
        library=log.versions,
        hosts=log.hosts,
        bootstrap=log.bootstrap,
        environment=log.environment,
        communicators=log.communicators,
        diagnostics=tuple(map(_diagnostics, log.diagnostics)),
        notes=log.notes,
        outputs=tuple(
            {"tool": section.tool, "line": section.first, "lines": len(section.lines)}
            for section in sections
        ),
        measured=read.measured,
        outcome=read.outcome,
        findings=tuple(_finding(finding) for finding in read.findings),
        next=read.next or None,
        unexplained=read.unexplained,
        node=read.overlay.node or None,
        agreement=_agreement(agreement),
        read=read,
    )


def _diagnostics(report: OwnDiagnostics) -> DiagnosticsEntry:
    return {
        "report": report.report,
        "host": report.host,
        "pid": report.pid,
        "line": report.line,
        "begun": report.begun,
        "ended": report.ended,
        "checks": report.checks,
        "milliseconds": report.milliseconds,
        "across": report.across,
        "passed": report.passed,
        "sentence": report.sentence,
    }


def _agreement(found: Agreement) -> AgreementEntry:
    return {
        "sentence": found.sentence,
        "agree": found.agree,
        "differ": len(found.differing),
        "comparable": found.comparable,
        "why_not": found.why_not,
        "library": found.library,
        "ranks": found.ranks,
        "outside": found.outside,
        "pairs": found.pairs,
        "items": found.items,
        "skipped": found.skipped,
        "reasons": found.reasons,
    }


def _finding(finding: Finding) -> LogFinding:
    proofs = (proof for proof in finding.evidence if proof.line is not None)
    return {
        "id": finding.id,
        "severity": WORDS[finding.severity],
        "title": finding.title,
        "cause": finding.cause,
        "sureness": finding.sureness,
        "proof": [{"line": proof.line, "text": proof.value} for proof in proofs],
        "count": finding.count,
        "candidates": finding.candidates,
        "look": finding.look,
        "fix": finding.fix,
        "sources": finding.sources,
    }


def page(answer: LogAnswer | JobsAnswer) -> Page:
    """The whole log: the answer, what it is, all findings, then the rest."""
    return jobs_page(answer) if isinstance(answer, JobsAnswer) else log_page(answer.read)


class ReadError(GputopError):
    """A log that cannot be used; one line. `unreadable`: the path could not be opened.

    `quoted`: what of the text stands word by word in the log.
    """

    def __init__(self, text: str, *, unreadable: bool = False, quoted: str = "") -> None:
        super().__init__(text)
        self.unreadable, self.quoted = unreadable, quoted


def read_path(path: Path, heard: Callable[[int], None] | None = None) -> LogReport:
    """Read a file; raises ReadError, and OSError where a file of the package cannot be read."""
    try:
        with open_plain(path) as file:
            # Files of the kernel have no size; some yield their lines only once, and some block.
            if not os.fstat(file.fileno()).st_size:
                raise ReadError(f"{path}: its size is 0 bytes, so there is nothing to read")
            return read_stream(file, path.name, heard)
    except (OSError, ValueError) as error:
        if getattr(error, "filename", None) not in (None, path, str(path)):
            raise  # not the log is missing, but a table of the package
        why = "no such file" if isinstance(error, FileNotFoundError) else None
        raise ReadError(
            f"{path}: {why or getattr(error, 'strerror', None) or error}", unreadable=True
        ) from error


def read_stream(
    stream: Readable, name: str, heard: Callable[[int], None] | None = None
) -> LogReport:
    """Read an open file or stdin; raises ReadError when nothing in it is the library's."""
    head = stream.peek(HEAD_BYTES) if isinstance(stream, io.BufferedReader) else b""
    if packed := packed_by(head, name, "log -"):
        raise ReadError(f"{name}: {packed}")
    if is_pickle(head[:2]):
        raise ReadError(f"{name}: {NO_LOG}")
    try:
        log = read_log(stream, name=name, heard=heard, signs=known_signs(), outputs=True)
    except (LogUnreadable, gzip.BadGzipFile) as error:
        raise ReadError(f"{name}: {error}") from error
    understood = bool(not log.empty or log.suspects)
    if not (understood or spoken_of(log.context) or explain(log) or is_extract(log.context)):
        quoted = _quoted(log)
        raise ReadError(f"{name}: {_nothing(log, quoted)}", quoted=quoted)
    return log


def _quoted(log: LogReport) -> str:
    """Some lines of a text that nobody understands."""
    lines = (log.suspects or log.openings)[:MOST_QUOTED]
    said = "; ".join(f"line {note.line}: {note.text[:80]}" for note in lines)
    return f" ({said})" if said else ""


def _nothing(log: LogReport, quoted: str) -> str:
    """Say that nothing was understood: where the reading ended, some lines, what to fetch."""
    unread = [what for what in log.more if what.startswith("rest of the log")]
    if unread:
        return f"no line of NCCL or RCCL in its first {log.bytes >> 20} MiB; not read: {unread[0]}"
    if log.pasted is not None and log.pasted.broken:
        where, why = log.pasted.broken[0]
        return f"{where}: {why}"
    far = "" if log.outputs_until is None else f"; {not_looked_through(log.outputs_until)}"
    about = spoken_of(log.openings)
    more = "; ".join(f"about {subject.name}: {subject.fetch}" for subject in about)
    return f"{NO_LINES}{quoted}{far}; {more or FETCH}"


QUESTION = Question(name="log", request=LogRequest, answer=answer, page=page, width=text_width)
