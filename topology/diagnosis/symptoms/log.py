"""A log with its symptoms, and how far it agrees with the prediction."""

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from ...jobs.saved import SavedAnswer, in_sections, states_with_answers
from ...jobs.standing import JobState
from ...logs.comparing.overlay import Overlay, lay
from ...logs.report.places import gpus_from, normal
from ...logs.report.report import LogNote, LogReport
from ...model.finding import Finding
from ...model.machine import Machine
from ...model.page import Fact, Fix
from ...model.severity import BROKEN, CANNOT_TELL, NOTICE, SLOW, JobVerdict
from ...model.snapshot import NodeSnapshot
from ...model.units import figure as three
from ...node import Node
from ...recorded.pasted import PastedSection, PastedText
from ..case import Case
from ..engine import diagnose
from .explain import ECHOES, explain, unexplained
from .next_step import next_step
from .pasted_figures import PastedFigure, pasted_figures

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
            if proof.source.startswith(_PASTED):
                tool = proof.source.removeprefix(_PASTED).partition(";")[0]
                for line in self._figures(tool, proof, words):
                    found.setdefault(line.line or 0, line)
                continue
            for line in self._about(_names(proof.what, self._machine), words):
                found.setdefault(line.line or 0, line)
        if not found and words is not None and not finding.devices:
            for section in self._sections:
                for place, text in enumerate(section.lines):
                    if re.search(words, text) and len(found) < QUOTING_MOST_QUOTED:
                        found.setdefault(section.first + place, _line(section, place))
        for lines in (self._about, self._numbered):
            if not found:
                for device in finding.devices[:QUOTING_MOST_QUOTED]:
                    for line in lines(_names(device, self._machine), words):
                        found.setdefault(line.line or 0, line)
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
