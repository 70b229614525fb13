"""What the lines of a log mean: the table of symptoms applied to a report.

A symptom is reported only with the lines that prove it.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from ...hardware.faults.catalogue import fault_of
from ...logs.reading.signs import Signs
from ...logs.report.communicator import Proof
from ...logs.report.outcome import outcome_of
from ...logs.report.report import INFO, OTHER, WARN, LogNote, LogReport, NoteLevel, Variable
from ...model.english import plural
from ...model.finding import Candidate, Finding
from ...model.gathered import gathered
from ...model.literals import PatternIndex
from ...model.page import Fact, Fix
from ...model.severity import BROKEN, NOTICE, RunState, Severity, Sureness
from ...sources.linux.kernel_lines import said_in
from ...toml import tomllib
from ..defects.table import defects as known
from ..mechanism.causes import PossibleCause, ranked
from . import checks_node as checks_node  # offers its checks
from .checks import CHECKS, once
from .quoting import KERNEL
from .survived import OF_RAS, WATCHES, of_ras, survived
from .titles import TITLES
from .unproven import as_proven, printed, told
from .vendor_words import in_vendor_words

MAX_PROOFS = 6
PASSED = "warnings-survived"
"""Of warnings that no row knows."""
REPORTED = "reported-by-framework"
SILENT = ", and this log does not say why"
UNCERTAIN = "; no line that is known here names the cause"
ECHOES = (
    REPORTED, "peer-gone", "proxy-echo", "watchdog-timeout", "taken-down", "nvshmem-failed",
    "system-error-unsaid", "store-gone", "cuda-other", "engine-failed", "task-gone",
    "invalid-usage-unsaid", "remote-error-unsaid", "returned-error", "service-status",
    "service-again", "service-killed", "service-dependency", "service-protocol",
    "mpi-peer-closed",
)  # fmt: skip
"""Rows that say that something failed, but not what."""
WENT_ON = "The run went on behind this line, so it is not why a run failed."
NO_FIX = "none is needed for this run"
UNKNOWN_WORDS = "; a warning beside it, in words unknown here, may say why"
TABLES = (
    "machine", "outside", "rocm", "kernel", "frameworks", "python", "system", "clusters",
    "services", "units", "packages", "modules", "peers", "launch", "cuda", "table",
)  # fmt: skip
SAYS_CUDA = (
    r"(?:(?:[Cc]uda|HIP) failure (?:\S+:\d+ )?(?:\d+ )?'"
    r"|\b(?:CUDA|HIP) (?:driver |runtime )?error(?: \d+)?(?: at \S+)?:? '?"
    r"|\b[Cc]uda error \S+:\d+ '"
    r"|Test (?:CUDA|HIP) failure \S+ '|\bError \d+: |\bCUDA_ERROR_\w+: "
    r"|[Ff]ailed to initialize CUDA: "
    r"|[Cc]uda runtime error ?\(\d+\) ?: |Runtime API error(?: \d+)? ?: "
    r"|cudaSuccess \(\d+ vs\. 0\) +)"
)
"""How programs begin a line with CUDA's own words; patterns call it {cuda}."""
SAYS_CODE = (
    r"(?:\b(?:CUDA|Cuda|cuda) (?:[Dd]river |DRIVER |[Rr]untime |API )*(?:[Ee]rror|ERROR)"
    r"(?: code)?[ :=(#]{1,3}|Return value (?=\d+ from 'cu)"
    r"|(?:init failure|device context|lookup failure(?: \d+)?|cu(?:da)?[A-Z]\w+ err):? )"
)
"""How programs that know no words begin a line with CUDA's number."""


class Symptom(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of table.toml."""

    id: str
    severity: Severity
    title: str
    cause: str
    look: tuple[str, ...]
    fix: tuple[str, ...]
    sources: tuple[str, ...]
    shown: tuple[str, ...] = ()
    """Lines that show it, as users posted them or the source prints them. A test reads them."""
    any: tuple[str, ...] = ()
    """Patterns, one of which a kept line must match."""
    codes: tuple[int, ...] = ()
    """CUDA's numbers for it, which programs print that print no words."""
    levels: tuple[NoteLevel, ...] = tuple(NoteLevel)
    general: bool = False
    """Other programs say the same: without the library's head a line must name the library."""
    plain: bool = False
    """Its words are enough: a line has to name neither a library nor a GPU."""
    check: str | None = None
    """Name of the check that gives the proof."""
    titled: str | None = None
    """Name of a function that words the title by what the log says; where it has nothing to
    add, `title` stands."""
    sureness: Sureness = Sureness.CERTAIN
    """How sure the cause is where the row's lines are seen."""
    forced_by: tuple[str, ...] = ()
    """Variables, "NAME=VALUE" or "NAME" for any value, that lead to the way which fails."""
    candidate: tuple[PossibleCause, ...] = ()
    """Possible causes, where its lines prove none of them to be the one."""
    after: tuple[str, ...] = ()
    """Rows of which this one is an echo: it is dropped when one of them is found. "broken" or
    "slow": all rows of that severity that have no "broken" in `after` themselves."""
    needs_head: bool = False
    """It follows from what the first lines of a log do not say, so these must be there."""


@cache
def table() -> tuple[Symptom, ...]:
    """The symptoms in the order of the files."""
    texts = [Path(__file__).with_name(f"{name}.toml").read_bytes().decode() for name in TABLES]
    rows = [row for text in texts for row in tomllib.loads(text)["symptom"]]
    return tuple(_expanded(msgspec.convert(row, Symptom)) for row in rows)


def _expanded(row: Symptom) -> Symptom:
    unknown = ({row.check} - {None, *CHECKS}) | ({row.titled} - {None, *TITLES})
    if unknown:
        raise ValueError(f"{row.id}: no function is called {unknown.pop()}")
    patterns = [pattern.replace("{cuda}", SAYS_CUDA) for pattern in row.any]
    if row.codes:
        patterns.append(_says_one_of(row.codes))
    return msgspec.structs.replace(row, any=tuple(patterns))


def _says_one_of(codes: Iterable[int]) -> str:
    return f"{SAYS_CODE}(?:{'|'.join(map(str, codes))})\\b"


@cache
def known_signs() -> Signs:
    """All patterns that may match a line which the library did not mark as its own.

    Codes of CUDA are looked for all at once: a pattern for each row that has some is slow.
    """
    rows = [row for row in table() if OTHER in row.levels]
    defects = (pattern for defect in known() for pattern in defect.says)
    coded = [row.codes for row in rows if row.codes and not (row.general or row.plain)]
    apart = {_says_one_of(codes) for codes in coded}
    said = (pattern for row in rows if not row.general for pattern in row.any)
    return Signs(
        (
            *(pattern for pattern in said if pattern not in apart),
            _says_one_of(code for codes in coded for code in codes),
            *defects,
        ),
        (pattern for row in rows if row.general for pattern in row.any),
        (pattern for row in rows if row.plain for pattern in row.any),
    )


@cache
def _pattern(symptom: Symptom) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in symptom.any))


def explain(log: LogReport) -> tuple[Finding, ...]:
    """Find the symptoms that the log proves, worst first."""
    said = gathered((row.id, note) for note in log.notes for row in _possible(note.words))
    looked = ((row.id, _look(row, log, said.get(row.id, ()))) for row in table())
    seen = {ident: finding for ident, finding in looked if finding is not None}
    past = {row.id for row in table() if row.id in seen and seen[row.id].severity != row.severity}
    kept = without_echoes(set(seen) - past, _of_kernel(log)) | without_echoes(past)
    shown = [seen[row.id] for row in table() if row.id in kept]
    reported = seen.get(REPORTED)
    if reported in shown:
        # Only where nothing else was found and no line is left over, the log is silent.
        silent = len(shown) == 1 and not _left_over(shown, log)
        title = reported.title + (SILENT if silent else UNCERTAIN)
        shown[shown.index(reported)] = msgspec.structs.replace(reported, title=title)
    left = _left_over(shown, log)
    if any(note.level is WARN for note in left):
        shown = [*map(_with_words, shown)]
    if passed := [note for note in left if note.level is WARN and _went_on(log, note)]:
        shown.append(_unknown_and_survived(passed, log))
    return tuple(sorted(shown, key=lambda finding: finding.severity.order))


def _unknown_and_survived(notes: Sequence[LogNote], log: LogReport) -> Finding:
    """Warnings in unknown words behind which the run went on."""
    warnings = plural(sum(note.count for note in notes), "warning")
    return Finding.of(
        id=PASSED,
        severity=NOTICE,
        title=f"{warnings} in words unknown here; the run went on all the same",
        evidence=tuple(
            _quoted(line, log.name) for line in _few(Proof(n.line, n.words) for n in notes)
        ),
        cause=WENT_ON,
        count=sum(note.count for note in notes),
        look=("the same lines in a run that fails",),
        fix=(Fix(text=NO_FIX),),
        sources=("the lines themselves",),
        sureness=Sureness.CERTAIN,
    )


def _with_words(finding: Finding) -> Finding:
    """A finding that says that no line names the cause, where a warning in unknown words may."""
    head, said, _ = finding.title.partition(", and no line says ")
    return msgspec.structs.replace(finding, title=head + UNKNOWN_WORDS) if said else finding


def _of_kernel(log: LogReport) -> frozenset[str]:
    """Rules that find broken hardware in the kernel's lines of the same text."""
    events = () if log.pasted is None else log.pasted.snapshot.kernel_events or ()
    faults = map(fault_of, events)
    return frozenset(fault.rule for fault in faults if fault.severity is BROKEN)


def without_echoes(found: Iterable[str], also: Collection[str] = ()) -> set[str]:
    """Those of the rows that are no echo of another one of them, or of what else was found."""
    seen = set(found)
    rows = [row for row in table() if row.id in seen and row.id not in also]
    named = [row for row in rows if not set(row.after) & {*seen, *also}]
    causes = {str(row.severity) for row in named if BROKEN not in row.after}
    causes |= {str(BROKEN)} if also else set()
    return {row.id for row in named if not causes & {*row.after}}


def unexplained(log: LogReport) -> tuple[LogNote, ...]:
    """List the warnings and last words that no row of the table knows and that may matter.

    Where neither a row nor the kernel names a cause, lines that speak of a failure in unknown words
    are added.
    """
    found = explain(log)
    left = tuple(note for note in _left_over(found, log) if not _went_on(log, note))
    sure = [one for one in found if one.severity == BROKEN and one.sureness != Sureness.POSSIBLE]
    broken = [*_of_kernel(log), *(one.id for one in sure)]
    if (broken or _may_have_failed(log)) and all(ident in ECHOES for ident in broken):
        left += tuple(_suspects(found, left, log))
    return left


def _may_have_failed(log: LogReport) -> bool:
    """Whether the run failed, did not begin or is not known.

    A job whose ranks come to be ready prints much that only sounds like a failure.
    """
    state = outcome_of(log).state
    started = bool(log.communicators) or state.order >= RunState.RUNS.order
    return not started or state in (RunState.FAILED, RunState.UNKNOWN)


def _suspects(
    found: Iterable[Finding], left: Iterable[LogNote], log: LogReport
) -> Iterator[LogNote]:
    """Lines in unknown words that nothing shows; behind a failure that is known are its echoes."""
    known = [one for one in found if one.severity == BROKEN and one.id not in ECHOES]
    ends = min((proof.line or 0 for one in known for proof in one.evidence), default=None)
    shown = {proof.line for finding in found for proof in finding.evidence}
    shown |= {note.line for note in left} | _of_outputs(log, {note.line for note in log.suspects})
    # Of a row only so many lines are proofs; those behind them say the same.
    ids = {finding.id for finding in found}
    rows = [_pattern(row) for row in table() if row.id in ids and row.any]
    for note in log.suspects:
        if note.line in shown or not (ends is None or note.line < ends):
            continue
        if not any(row.search(note.text) for row in rows):
            yield note


def _went_on(log: LogReport, note: LogNote) -> bool:
    return of_ras(note) or survived(log, note)


def _of_outputs(log: LogReport, lines: Collection[int]) -> set[int]:
    """Those of other tools' outputs, which the rules read; of the kernel's those about faults."""
    sections = () if log.pasted is None else log.pasted.sections
    return {
        line
        for section in sections
        for line in lines
        if 0 <= (at := line - section.first) < len(section.lines)
        and (section.tool != KERNEL or said_in(section.lines[at]) is not None)
    }


def _left_over(found: Iterable[Finding], log: LogReport) -> tuple[LogNote, ...]:
    shown = {proof.line for finding in found for proof in finding.evidence}
    return tuple(
        note
        for note in log.notes
        if note.level is not INFO
        and note.line not in shown
        and not told(note)
        and not any(_says(row, note) for row in _possible(note.words))
    )


def _says(symptom: Symptom, note: LogNote) -> bool:
    return note.level in symptom.levels and _pattern(symptom).search(note.words) is not None


@lru_cache(1024)  # more than one asks of each note
def _possible(words: str) -> tuple[Symptom, ...]:
    """The rows whose texts stand in these words, in the order of the tables."""
    rows = _with_patterns()
    return tuple(rows[at] for at in _index().possible(words))


@cache
def _with_patterns() -> tuple[Symptom, ...]:
    return tuple(row for row in table() if row.any)


@cache
def _index() -> PatternIndex:
    return PatternIndex(_pattern(symptom).pattern for symptom in _with_patterns())


class _Shown(NamedTuple):
    """What shows a row."""

    proof: list[Proof]
    times: int
    notes: list[LogNote]
    """The complaints among it, where it is nothing but complaints of a program."""


def _shown(symptom: Symptom, log: LogReport, possible: Iterable[LogNote]) -> _Shown:
    notes = printed(note for note in possible if _says(symptom, note))
    proof = [Proof(note.line, note.words) for note in notes]
    count = sum(note.count for note in notes)
    if symptom.check is None:
        return _Shown(proof, count, notes)
    checked = once(CHECKS[symptom.check](log))
    lines = {line.line for line in checked}
    said = [note for note in log.notes if note.line in lines and note.level is not INFO]
    if not notes and {note.line for note in said} == lines:
        notes = said
    return _Shown(proof + checked, count + len(checked), notes)


def _look(
    symptom: Symptom, log: LogReport, possible: Iterable[LogNote] | None = None
) -> Finding | None:
    """The finding of a row; `possible`: the notes that hold texts of its patterns, where known."""
    if possible is None:
        possible = [note for note in log.notes if symptom in _possible(note.words)]
    shown = _shown(symptom, log, possible)
    if not shown.proof:
        return None
    if shown.notes and all(_went_on(log, note) for note in shown.notes):
        return _survived(symptom, shown, log)
    forcing = _forcing(symptom, log)
    title = (TITLES[symptom.titled](log) if symptom.titled else "") or symptom.title
    cause = symptom.cause
    if forcing:
        settings = dict.fromkeys(f"{variable.name}={variable.value}" for variable in forcing)
        named, verb = " and ".join(settings), "leads" if len(settings) == 1 else "lead"
        title, cause = f"{title}; {named} {verb} there", f"This text sets {named}. {cause}"
    proof = [*shown.proof, *(Proof(variable.line, variable.said) for variable in forcing)]
    found = Finding.of(
        id=symptom.id,
        severity=symptom.severity,
        title=title,
        evidence=tuple(_quoted(line, log.name) for line in _few(proof)),
        cause=cause,
        count=shown.times,
        look=symptom.look,
        fix=tuple(Fix(text=text) for text in symptom.fix),
        sources=symptom.sources,
        sureness=symptom.sureness,
    )
    if candidates := ranked(symptom.candidate, around(log)) if symptom.candidate else ():
        found = _open(found, candidates)
    return as_proven(in_vendor_words(found), log, shown.notes, needs_head=symptom.needs_head)


def _open(found: Finding, candidates: tuple[Candidate, ...]) -> Finding:
    """The finding with possible causes, of which the first one says what to do first."""
    return msgspec.structs.replace(
        found,
        look=(candidates[0].needs, *found.look),
        fix=candidates[0].fix,
        candidates=candidates,
        sureness=Sureness.POSSIBLE,
    )


def around(log: LogReport) -> list[str]:
    """What a text says besides: its remarks, settings and first lines."""
    notes = (*log.notes, *log.unknown)
    said = (note.words for note in notes)
    settings = (variable.said for variable in log.environment)
    return [*said, *log.bootstrap, *(note.text for note in log.context), *settings]


def _survived(symptom: Symptom, shown: _Shown, log: LogReport) -> Finding:
    """A complaint that stopped nothing: worth knowing at most, whatever it says."""
    ras = all(map(of_ras, shown.notes))
    return Finding.of(
        id=symptom.id,
        severity=NOTICE,
        title=OF_RAS if ras else f"{symptom.title}; the run went on all the same",
        evidence=tuple(_quoted(line, log.name) for line in _few(shown.proof)),
        cause=WATCHES if ras else WENT_ON,
        count=shown.times,
        look=symptom.look,
        fix=(Fix(text=NO_FIX),),
        sources=symptom.sources,
        sureness=Sureness.CERTAIN,
    )


def _forcing(symptom: Symptom, log: LogReport) -> list[Variable]:
    """The variables of this text that lead to the way which fails."""
    return [
        variable
        for variable in log.environment
        if {variable.name, f"{variable.name}={variable.value}"} & set(symptom.forced_by)
    ]


def _quoted(line: Proof, source: str) -> Fact:
    return Fact(what=f"line {line.line}", value=line.text, source=source, line=line.line)


def _few(proof: Iterable[Proof]) -> list[Proof]:
    return sorted(once(proof), key=lambda proof: proof.line)[:MAX_PROOFS]
