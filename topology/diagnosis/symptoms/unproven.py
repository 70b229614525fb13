"""What a text does not prove: what only a sentence tells of, and what cut lines may say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from ...logs.report.report import WARN, LogNote, LogReport
from ...model.documents import is_described
from ...model.finding import Finding
from ...model.page import Fact, Fix
from ...model.severity import CANNOT_TELL, NOTICE, Sureness
from ...model.told import is_told

TOLD = "a sentence tells of it; no program printed it in this text"
OPEN = "Whether it happened here, and when, the text does not say."

HEADLESS = "The text begins behind the lines in which the library says what it starts with"
LOST = "a variable or a missing device may be named there, which would be the reason"
FROM_START = "the log from its start, with NCCL_DEBUG=INFO"


UNKNOWN = "failure-unknown"
UNSAID = "failure-unsaid"
LEAST_HEADINGS = 2
LEAST_MARKS = 5
_HEADING = re.compile(r"#{1,5} \S")
_MARKED = re.compile(r"\]\((?:[\w./#-]+|https?://\S+)\)|(?<!`)`[^`]{1,80}`(?!`)")
"""A link, or words set as code within a sentence."""
_RAN = re.compile(
    r"Traceback|\d\d:\d\d:\d\d|\[ *\d+\.\d{3,}\]|\+-{6,}|[NR]CCL (?:INFO|WARN)|\[rank\d+\]:"
)
"""What running programs print, which no description of one holds."""
_EXTRACT = re.compile(
    r"\[ *\d+\.\d{6}\] \S|(?:(?:[\w.-]+@[\w.-]+\S*|\([\w.-]+\)) ?[$#]|\$) +[a-z./~]\S*"
    r"|[bcd][rwxsStT-]{9}[+.@]? +\d"
    r"|.*\b(?:GeForce|Quadro|Tesla|Radeon|Instinct|GTX|RTX) \w"
    r"|(?:slurm\w*|srun|sbatch|salloc|munged?|enroot-\w+|pyxis)(?:\[\d+\])?: "
    r"|(?:mpirun|mpiexec|prterun)(?:\[\d+\])?: "
    r"|[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ \w+\.go:\d+\] "
    r"|(?:NAMESPACE +)?NAME +READY +STATUS\b|PARTITION +AVAIL\b"
    r"|NodeName=\S+ Arch=|JobId=\d+ JobName="
    r"|/(?:sys|proc)/[\w./:-]+:\S|(?:Lnk(?:Cap|Sta|Ctl)2?|DevSta|ACSCtl|UESta|CESta|BusCtl):\s"
    r"|(?:GPU|Card|Device|Node)\s.*\b(?:Temp|AvgPwr|SCLK|MCLK|Fan|Perf|GPU%|VRAM%|Util|Pwr)\b"
    r"|(?:[a-z_]+ ?)?GPU(?: ?\[\d+\]|\d+)\s*:\s"
    r"|.*\btype=\w+ (?:msg=)?audit\(\d"
)
"""Lines of a kernel's log, commands behind a prompt, lists of device files, products by name, what
launchers and pods print, tables of clusters and of cards, files of sysfs, and links of lspci."""
MOST_QUOTED = 6
_FAILED = re.compile(r"(?i)\w*error\b|fail|fatal|exception|abort")


def unknown_failure(left: Sequence[LogNote], step: str, source: str) -> Finding:
    """That lines speak of a failure in words that nothing here knows, and what to fetch."""
    first = next((note for note in left if _FAILED.search(note.text)), left[0])
    many = "a line speaks" if len(left) == 1 else f"{len(left)} lines speak"
    return Finding.of(
        id=UNKNOWN,
        severity=CANNOT_TELL,
        title=f"{many} of a failure, and no rule knows the cause: {first.text}",
        evidence=tuple(
            Fact(what=f"line {note.line}", value=note.text, source=source, line=note.line)
            for note in left[:MOST_QUOTED]
        ),
        fix=(Fix(text=step),) if step else (),
        sources=("the lines themselves",),
        sureness=Sureness.POSSIBLE,
        count=len(left),
    )


def is_document(lines: Sequence[LogNote], *, printed: bool) -> bool:
    """Whether a text describes programs (headings, links, words as code) and none printed it.

    `printed`: it holds lines that a library prints.
    """
    texts = [note.text for note in lines]
    if printed or is_described(texts):
        return is_described(texts)
    headings = sum(_HEADING.match(text) is not None for text in texts)
    marked = sum(_MARKED.search(text) is not None for text in texts)
    described = headings >= LEAST_HEADINGS and marked >= LEAST_MARKS
    return described and not any(_RAN.search(text) for text in texts)


def is_extract(lines: Sequence[LogNote]) -> bool:
    """Whether somebody copied it off a machine: commands, the kernel's lines, device files."""
    return any(_EXTRACT.match(note.text.strip()) for note in lines)


def no_failure(lines: Sequence[LogNote], step: str, source: str) -> Finding:
    """That a text of a machine shows no failure that is known here, and what to fetch."""
    return Finding.of(
        id=UNSAID,
        severity=NOTICE,
        title="no line of this text speaks of a failure that is known here",
        evidence=tuple(
            Fact(what=f"line {note.line}", value=note.text, source=source, line=note.line)
            for note in [note for note in lines if note.text.strip()][:3]
        ),
        fix=(Fix(text=step),) if step else (),
        sources=("the lines themselves",),
        sureness=Sureness.POSSIBLE,
    )


def told(note: LogNote) -> bool:
    """Whether somebody tells of what a line says; what has the library's head was printed."""
    return note.level is not WARN and is_told(note.text)


def printed(notes: Iterable[LogNote]) -> list[LogNote]:
    """Those that a program printed; all, where none did."""
    every = list(notes)
    return [note for note in every if not told(note)] or every


def as_proven(
    found: Finding, log: LogReport, notes: Sequence[LogNote], *, needs_head: bool
) -> Finding:
    """The finding with what its lines prove; `notes`: these, where only complaints show it.

    `needs_head`: it follows from what the first lines of a log do not say.
    """
    if needs_head and not _head_seen(log):
        return _without_head(found)
    return as_told(found) if notes and all(map(told, notes)) else found


def as_told(found: Finding) -> Finding:
    """The finding as what the words mean, without the claim that it happened."""
    return msgspec.structs.replace(
        found,
        severity=NOTICE,
        title=f"{found.title}: {TOLD}",
        cause=f"{found.cause} {OPEN}".strip(),
        sureness=Sureness.POSSIBLE,
    )


def _head_seen(log: LogReport) -> bool:
    """Whether the text holds lines with which the library begins: its version, its addresses."""
    return log.versions.line is not None or bool(log.bootstrap)


def _without_head(found: Finding) -> Finding:
    """The finding where the lines are cut that would name its reason: what was seen, no cure."""
    return msgspec.structs.replace(
        found,
        severity=NOTICE,
        cause=f"{HEADLESS}: {LOST}. Else: {found.cause}",
        look=(FROM_START, *found.look),
        fix=(Fix(text=f"fetch {FROM_START}"), *found.fix),
        sureness=Sureness.POSSIBLE,
    )
