"""A log with its symptoms, and how far it agrees with the prediction."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import msgspec

from ...expectation.judge import judge
from ...expectation.judgement import NO_REFERENCE, Judgement
from ...jobs.saved import SavedAnswer, in_sections, states_with_answers
from ...jobs.standing import JobState
from ...logs.comparing.overlay import Overlay, lay
from ...logs.report.places import gpus_from, normal
from ...logs.report.report import WARN, LogNote, LogReport
from ...model.finding import Finding
from ...model.machine import Machine
from ...model.page import Fact, Fix
from ...model.quantities import CAN_ACCESS
from ...model.severity import BROKEN, CANNOT_TELL, NOTICE, SLOW, FigureVerdict, JobVerdict
from ...model.snapshot import Measurement, NodeSnapshot
from ...model.units import figure as three
from ...model.units import size
from ...node import Node
from ...recorded.pasted import PastedSection, PastedText
from ...toml import tomllib
from ..case import Case
from ..engine import diagnose
from .explain import ECHOES, explain, unexplained

# Figures of other programs in a pasted text, held against what this hardware should give.
MOST = 40


class PastedFigure(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one kind in one output."""

    tool: str
    what: str
    """What was measured, in words: "all reduce busbw, 8 ranks"."""
    value: str
    """The figure, or the lowest and the highest."""
    verdict: FigureVerdict
    against: str
    """What is expected and by whom, or why nothing can be said."""


def pasted_figures(pasted: PastedText | None) -> tuple[PastedFigure, ...]:
    """One line for each quantity of each run; of a sweep over sizes the largest one."""
    if pasted is None:
        return ()
    groups: dict[tuple[str, str, str], list[Measurement]] = {}
    for figure in pasted.snapshot.measurements:
        if figure.value is not None and figure.quantity != CAN_ACCESS:
            tool = str(figure.details.get("pasted") or figure.probe)
            groups.setdefault((tool, figure.quantity, figure.variant or ""), []).append(figure)
    kept = {key: _largest(figures) for key, figures in list(groups.items())[:MOST]}
    flat = [figure for figures in kept.values() for figure in figures]
    judged = dict(zip(map(id, flat), judge(pasted.snapshot, flat), strict=True))
    return tuple(
        _figure_line(key, figures, [judged[id(figure)] for figure in figures])
        for key, figures in kept.items()
    )


def _largest(figures: Sequence[Measurement]) -> list[Measurement]:
    most = max(figure.bytes_per_copy or 0 for figure in figures)
    return [figure for figure in figures if (figure.bytes_per_copy or 0) == most]


def _figure_line(
    key: tuple[str, str, str], figures: Sequence[Measurement], judged: Sequence[Judgement]
) -> PastedFigure:
    tool, quantity, variant = key
    first = figures[0]
    values = [figure.value for figure in figures if figure.value is not None]
    worst = min(judged, key=lambda one: (one.verdict == NO_REFERENCE, one.share or 0.0))
    unit = first.unit or ""
    low, high = three(min(values)), three(max(values))
    text = f"{low} {unit}" if low == high else f"{low} to {high} {unit}"
    at = f" at {size(first.bytes_per_copy)}" if first.bytes_per_copy else ""
    return PastedFigure(
        tool=tool,
        what=", ".join(_words(quantity, variant, figures)),
        value=f"{text.strip()}{at}",
        verdict=FigureVerdict(worst.verdict),
        against=_against(worst),
    )


def _words(quantity: str, variant: str, figures: Sequence[Measurement]) -> Iterable[str]:
    yield quantity.replace("_", " ")
    if variant:
        yield variant
    ranks, hosts = (figures[0].details.get(name) for name in ("ranks", "hosts"))
    if isinstance(ranks, int):
        of = f" on {hosts} hosts" if isinstance(hosts, int) and hosts > 1 else ""
        yield f"{ranks} ranks{of}"
    elif len(figures) > 1:
        yield f"{len(figures)} {'pairs' if figures[0].dst else 'GPUs'}"


def _against(judgement: Judgement) -> str:
    made = judgement.band
    if made is None:
        return judgement.note
    expected = f"about {three(made.healthy)} {made.unit} expected by {made.source}"
    return "; ".join(filter(None, (expected, judgement.cause or judgement.note)))


# What to fetch next, where a log does not name the cause of a failure.
DEBUG = "the same run with NCCL_DEBUG=INFO, the output of all ranks in one file"
_OF_ROW = {
    "watchdog-timeout": "the flight recorder's dumps of all ranks (TORCH_FR_BUFFER_SIZE=2000, in "
    "older PyTorch TORCH_NCCL_TRACE_BUFFER_SIZE, and TORCH_NCCL_DUMP_ON_TIMEOUT=1), and py-spy "
    "dump of the rank that prints no such line",
    "peer-gone": "the output of the other ranks and hosts: the earliest error of all is the cause",
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
}


MOST_SUBJECTS = 2


class Topic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of subjects.toml."""

    name: str
    any: tuple[str, ...]
    fetch: str


@cache
def subjects() -> tuple[Topic, ...]:
    """What lines in unknown words may be about."""
    text = Path(__file__).with_name("subjects.toml").read_bytes().decode()
    return tuple(msgspec.convert(entry, Topic) for entry in tomllib.loads(text)["subject"])


def spoken_of(left: Sequence[LogNote]) -> tuple[Topic, ...]:
    """The subjects of these lines, in the order of the table."""
    found = (
        subject
        for subject in subjects()
        if any(re.search(pattern, note.text) for pattern in subject.any for note in left)
    )
    return tuple(found)[:MOST_SUBJECTS]


def next_step(log: LogReport, found: Sequence[Finding], left: Sequence[LogNote]) -> str:
    """One sentence on what would show more; empty where a cause is named or nothing is wrong."""
    broken = [finding.id for finding in found if finding.severity == BROKEN]
    if any(ident not in ECHOES for ident in broken):
        return ""
    if broken:
        return _OF_ROW[broken[0]]
    if any(note.level is WARN for note in left):
        return f"{DEBUG}, from its start to the failure"
    if left and (about := spoken_of(left)):
        names = " and of ".join(subject.name for subject in about)
        wanted = "; ".join(subject.fetch for subject in about)
        return f"the quoted lines speak of {names}. Fetch {wanted}"
    if not log.library_lines and not found:
        return DEBUG
    return ""


SAID = (BROKEN, SLOW, NOTICE, CANNOT_TELL)
"""Severities that are told."""
EMPTY = ("evidence-missing", "nothing-to-examine")
"""That a text cannot show a thing is no finding of this report."""

ID = "ras-answer"
SEVERITIES = {
    JobVerdict.HANGS: BROKEN, JobVerdict.FAULTY: BROKEN, JobVerdict.WAITS: SLOW,
}  # fmt: skip
"""Of a verdict; any other one is a notice."""
MOST_QUOTED = 6
LONGEST = 300
SOURCES = ("NCCL user guide, RAS", "NCCL src/ras/client_support.cc")
QUOTED = re.compile(r"#\d|Process \d|Rank \d|Communicator ranks|\d+ ranks ")
"""How lines begin that say what a rank does."""

# Which lines of a pasted text prove a finding of a rule.
#
# A rule speaks of devices and values, not of lines. The lines are found again: in the outputs that
# name the device, below its name, those with the words that the rule reads.
QUOTING_MOST_QUOTED = 6
QUOTING_LONGEST = 300
WORDS = {
    "acs-redirect": r"ACSCtl:.*(?:ReqRedir|CmpltRedir|UpstreamFwd)\+",
    "pcie-width": r"Lnk(?:Sta|Cap):|\bWidth\b",
    "pcie-generation": r"Lnk(?:Sta|Cap):|Link Gen|\bGen\b",
    "nic-port-down": r"[Ss]tate:|state |\((?:Up|Down)\)",
    "nic-port-slow": r"Rate:|rate:",
    "nvlink-down": r"inactive",
    "nvlink-inactive": r"inactive",
    "ecc-uncorrected": r"(?i)(?:uncorr|double bit).*: [1-9]",
    "gpu-lost": r"lost|Unable to determine|ERR!",
    "collective-fails": r"FAILED|\s[1-9]\d*\s*$",
    "test-launch": r"Rank\s+\d",
}
"""Rule -> the words in the lines that it reads; for other rules the line with the name."""
_BEFORE = ("", "CA", "link", "Infiniband device")
"""What tools print before the name of the device that a block is about."""
_ROW = re.compile(r"\s*\||(?:[^,]*,){3}")
"""How the row of a table begins, drawn or of values with commas: names stand anywhere in it."""
_PASTED = "pasted output of "
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,6})?")
_LEADING = re.compile(r"(\d[\d,.]*)(?: k?B| [KMG]i?B|\s)")


class Quoter:
    """Finds lines of one text."""

    def __init__(self, pasted: PastedText) -> None:
        self._sections = pasted.sections
        self._machine = pasted.snapshot.machine

    def quoted(self, finding: Finding) -> tuple[Fact, ...]:
        """Lines that show what the rule found, in the order of the text; () where none is found."""
        found: dict[int, Fact] = {}
        words = WORDS.get(finding.id)
        for proof in finding.evidence:
            lines = self._about(_names(proof.what, self._machine), words)
            if proof.source.startswith(_PASTED):
                tool = proof.source.removeprefix(_PASTED).partition(";")[0]
                lines = self._figures(tool, proof, words)
            found = {line.line or 0: line for line in lines} | found
        if not found and words is not None and not finding.devices:
            for section in self._sections:
                for place, text in enumerate(section.lines):
                    if re.search(words, text) and len(found) < QUOTING_MOST_QUOTED:
                        found.setdefault(section.first + place, _line(section, place))
        named = [_names(device, self._machine) for device in finding.devices[:QUOTING_MOST_QUOTED]]
        for lines_of in (self._about, self._numbered):
            for names in () if found else named:
                found = {line.line or 0: line for line in lines_of(names, words)} | found
        return tuple(found[number] for number in sorted(found)[:QUOTING_MOST_QUOTED])

    def _about(self, names: Sequence[str], words: str | None) -> Iterator[Fact]:
        """Lines below one of the names with the words; else the lines of the name."""
        if not names:
            return
        any_name = "|".join(map(re.escape, names))
        name = re.compile(rf"(?<![\w.:-])(?:{any_name})(?![\w-]|:(?!\s|$)|\.\d)")
        plain: list[Fact] = []
        told: list[Fact] = []
        for section in self._sections:
            for start, end in _blocks(section, name):
                plain.append(_line(section, start))
                if words is not None:
                    told += [
                        _line(section, place)
                        for place in range(start, end)
                        if re.search(words, section.lines[place])
                    ]
        yield from (told or plain)[:QUOTING_MOST_QUOTED]

    def _numbered(self, names: Sequence[str], words: str | None) -> Iterator[Fact]:
        """Rows of a table that begin with the number of a GPU alone."""
        numbers = "|".join(name[3:] for name in names if name[:3] == "GPU" and name[3:].isdecimal())
        row = re.compile(rf"\s*(?:{numbers})\s{{2,}}\S") if numbers else None
        for section in self._sections:
            for place, text in enumerate(section.lines):
                if row is not None and row.match(text):
                    yield _line(section, place)

    def _figures(self, tool: str, proof: Fact, words: str | None) -> Iterator[Fact]:
        """Rows of a table with the figure."""
        size = re.search(r"at (\d{1,15}) bytes", proof.value)
        leading = _LEADING.match(proof.value)
        for section in self._sections:
            if section.tool != tool:
                continue
            for place, text in enumerate(section.lines):
                if size is not None:
                    hit = text.split()[:1] == [size[1]]
                elif leading is not None and _is_row(text):
                    hit = any(three(float(n)) == leading[1] for n in _NUMBER.findall(text)[1:])
                else:
                    hit = words is not None and re.search(words, text) is not None
                if hit:
                    yield _line(section, place)


def _blocks(section: PastedSection, name: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Where a name stands at the beginning of a line, and the end of what is indented below it."""
    lines = section.lines
    for start, text in enumerate(lines):
        row = _ROW.match(text) is not None
        found = name.search(text if row else text[:80])
        before = "" if found is None else text[: found.start()].strip(" \t'\"|-+\\")
        if found is None or not (row or before in _BEFORE or ":" in text[:40]):
            continue
        depth = len(text) - len(text.lstrip())
        end = start + 1
        while end < len(lines) and (
            not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > depth
        ):
            end += 1
        yield start, end


def _names(text: str, machine: Machine) -> list[str]:
    """How tools may write the devices that a text names."""
    names: dict[str, None] = {}
    for device in machine.pci:
        if device.address in text:
            names |= dict.fromkeys(_spelled(device.address))
    for gpu in machine.gpus:
        labels = [gpu.address] if gpu.number is None else [gpu.address, f"GPU{gpu.number}"]
        if any(re.search(rf"(?<![\w:]){re.escape(label)}(?![\w])", text) for label in labels):
            names |= dict.fromkeys(_spelled(gpu.address))
            if gpu.index is not None:
                names |= dict.fromkeys((f"GPU{gpu.index}", f"GPU {gpu.index}", f"GPU[{gpu.index}]"))
    for nic in machine.rdma:
        known = (nic.name, *(() if nic.address is None else (nic.address,)))
        if any(re.search(rf"(?<![\w:]){re.escape(label)}(?![\w])", text) for label in known):
            names[nic.name] = None
    return list(names)


def _spelled(address: str) -> Iterable[str]:
    yield address
    yield address.removeprefix("0000:")
    yield f"0000{address}"
    yield f"0000{address.upper()}"


def _is_row(text: str) -> bool:
    return len(_NUMBER.findall(text)) > 1


def _line(section: PastedSection, place: int) -> Fact:
    number = section.first + place
    text = " ".join(section.lines[place].split())[:QUOTING_LONGEST]
    return Fact(what=f"line {number}", value=text, source=section.tool, line=number)


class ReadLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log, its symptoms, and the prediction for it."""

    log: LogReport
    findings: tuple[Finding, ...]
    unexplained: tuple[LogNote, ...]
    next: str
    """What to fetch where no finding names a cause; may be empty."""
    overlay: Overlay
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
    ras = ras_findings(log.pasted, log.name or "text")
    said, left = (*explain(log), *pasted_findings(log.pasted), *ras), unexplained(log)
    found = tuple(sorted(said, key=_harm))
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
        measured=pasted_figures(log.pasted),
    )


def _harm(finding: Finding) -> tuple[int, bool]:
    """The most harmful first; among equals those that say more than that something failed."""
    return finding.severity.order, finding.id in ECHOES


# What the rules find in outputs of tools that stand in a log or in any other text.
def pasted_findings(pasted: PastedText | None) -> tuple[Finding, ...]:
    """Findings of the rules, each with the lines of the text first, then what was read off them."""
    if pasted is None or not _has_devices(pasted):
        return ()
    case = Case(Node(pasted.snapshot).decide())
    quoter = Quoter(pasted)
    found = []
    for finding in diagnose(case).findings:
        if finding.severity not in SAID or finding.id in EMPTY:
            continue
        lines = quoter.quoted(finding)
        if not lines:
            continue  # nothing in the text shows it: it follows from what is not there
        found.append(
            msgspec.structs.replace(
                finding,
                evidence=(*lines, *finding.evidence),
                cause=finding.impact,
                count=len(lines),
                sureness="certain",
            )
        )
    return tuple(found)


def _has_devices(pasted: PastedText) -> bool:
    machine = pasted.snapshot.machine
    return bool(machine.gpus or machine.rdma or machine.unnamed_acs or pasted.snapshot.measurements)


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
        id=ID,
        severity=severity,
        title=f"RAS{job.sentence.removeprefix(job.name)}",
        evidence=_quoted(last),
        cause="; ".join([*facts, *(f"not known: {text}" for text in job.unknown)]),
        fix=tuple(Fix(text="", command=step) for step in job.steps),
        look=("Ask again on a node of the job: gputop jobs --ras",),
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
