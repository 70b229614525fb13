"""What NCCL's own diagnostics say: NCCL_RUN_DIAGNOSTICS and NCCL_RUN_RAS_DIAGNOSTICS, since 2.31.

Rank 0 prints `host:pid NCCL DIAG text` to its standard output (include/diagnostics_log.h), of both
reports at once: results as "[OK]" or "[INFO]" and what was checked, between a title and a last line
with the time. Only these forms are taken apart; any other line is kept as it stands.
"""

import re

import msgspec

from ...model.severity import Word
from .text import plain


class DiagnosticsReport(Word):
    """A report: of data moved over the paths between GPUs, or of ranks compared (RAS)."""

    PATHS = "paths"
    RANKS = "ranks"


PATHS, RANKS = DiagnosticsReport.PATHS, DiagnosticsReport.RANKS

MOST_REPORTS = 64
MOST_CHECKS = 100
_ASKS, _FINE, _P2P = "INFO", "OK", "p2p"
_WHO = re.compile(rb"([A-Za-z0-9?][\w.-]{0,255}):(\d{1,10})$")
_TITLE = re.compile(rb"=== (NCCL|RAS) Diagnostics ===")
_ENDED = re.compile(
    rb"(NCCL|RAS) diagnostics completed in (\d{1,9}(?:\.\d{1,3})?) ms across (\d{1,7} [\w ]{1,20})"
)
_RESULT = re.compile(rb"\[(OK|INFO)\] *(?:([A-Za-z][\w /-]{0,40}): )?(.*)", re.DOTALL)
_COMMUNICATOR = re.compile(rb" in comm 0x[0-9a-f]+(?:/0x[0-9a-f]+)*")
_OF_PATHS = ("p2p", "net bw")
_BESIDE = ("p2p: temporarily enabled",)
"""Beginnings of [INFO] lines that say what the check did, not what it found."""


class OwnCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a report."""

    tag: str
    """"OK", "INFO"; "" for a line in a form that is not known."""
    about: str
    """What was checked, as the line names it: "p2p", "NVLink"; "" where it names nothing."""
    text: str
    line: int
    count: int = 1
    """How often it stands there, for whatever communicator."""

    @property
    def open(self) -> bool:
        """Whether the library asks to look at it: tagged INFO, and more than a remark."""
        return self.tag == _ASKS and not f"{self.about}: {self.text}".startswith(_BESIDE)


class OwnDiagnostics(msgspec.Struct, frozen=True, kw_only=True):
    """One report of one process; those of its further communicators are in it too."""

    report: DiagnosticsReport
    host: str
    pid: int
    line: int
    begun: int
    """How often its title stands there."""
    ended: int
    checks: tuple[OwnCheck, ...] = ()
    milliseconds: float | None = None
    """As the last line of its kind says; None where there is none."""
    across: str = ""
    """What the last line counts: "8 ranks"."""

    @property
    def whole(self) -> bool:
        """Whether it came to its end each time."""
        return 0 < self.begun <= self.ended

    @property
    def passed(self) -> bool | None:
        """Whether every result is [OK]; None where nothing was checked, or the end is missing."""
        if any(check.open for check in self.checks):
            return False
        if not self.whole or self._untested:
            return None
        return True if any(check.tag == _FINE for check in self.checks) else None

    @property
    def _untested(self) -> bool:
        """A report about paths in which no pair of GPUs was tested, whatever is said of NICs."""
        return self.report == PATHS and not any(c.about == _P2P for c in self.checks)

    @property
    def sentence(self) -> str:
        """What it comes to, in the library's own words where it has results."""
        found = [check for check in self.checks if check.tag]
        fine, asks = (sum(c.tag == _FINE for c in found), sum(c.open for c in found))
        what = "paths between GPUs" if self.report == PATHS else "ranks compared"
        if self.whole and self._untested:
            return f"{what}: no pair of GPUs was tested"
        parts = [f"{fine} [OK]", *([f"{asks} [INFO]"] if asks else [])] if found else ["no result"]
        end = "" if self.whole else ", and the end of the report is missing"
        return f"{what}: {', '.join(parts)}{end}"


class OwnDiagnosticsLines:
    """Gathers the lines of all reports of a log."""

    def __init__(self) -> None:
        self._reports: dict[tuple[str, int, DiagnosticsReport], _Gathered] = {}
        self.left_out = 0
        """Lines beyond the limits."""

    def read(self, head: bytes, text: bytes, number: int) -> None:
        """Take a line: what stands before its mark, what follows, and its number."""
        who = _WHO.search(head[-512:])
        place = (plain(who[1], 80), int(who[2])) if who is not None else ("", 0)
        text = text.strip()
        title, ended = _TITLE.match(text), _ENDED.match(text)
        if title is not None:
            report = PATHS if title[1] == b"NCCL" else RANKS
        elif ended is not None:
            report = PATHS if ended[1] == b"NCCL" else RANKS
        else:
            result = _RESULT.match(text)
            about = b"" if result is None else result[2] or b""
            of_paths = about.decode() in _OF_PATHS or b"transport detect" in text
            report = PATHS if of_paths else RANKS
        key = (*place, report)
        gathered = self._reports.get(key)
        if gathered is None:
            if len(self._reports) >= MOST_REPORTS:
                self.left_out += 1
                return
            gathered = self._reports[key] = _Gathered(number)
        if title is not None:
            gathered.begun += 1
        elif ended is not None:
            gathered.end(float(ended[2]), plain(ended[3], 40))
        elif not gathered.check(text, number):
            self.left_out += 1

    def built(self) -> tuple[OwnDiagnostics, ...]:
        """All reports, in order of appearance."""
        return tuple(each.built(*key) for key, each in self._reports.items())


class _Gathered:
    """The lines of one report."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.begun = self.ended = 0
        self._milliseconds: float | None = None
        self._across = ""
        self._checks: dict[bytes, tuple[int, int]] = {}
        """Text without its communicator -> first line and count."""

    def end(self, milliseconds: float, across: str) -> None:
        self.ended += 1
        self._milliseconds, self._across = milliseconds, across

    def check(self, text: bytes, number: int) -> bool:
        """Keep a line; False where there are too many."""
        bare = _COMMUNICATOR.sub(b"", text)[:1600]
        first, count = self._checks.get(bare, (number, 0))
        if not count and len(self._checks) >= MOST_CHECKS:
            return False
        self._checks[bare] = (first, count + 1)
        return True

    def built(self, host: str, pid: int, report: DiagnosticsReport) -> OwnDiagnostics:
        return OwnDiagnostics(
            report=report,
            host=host,
            pid=pid,
            line=self.line,
            begun=self.begun,
            ended=self.ended,
            checks=tuple(_check(text, *said) for text, said in self._checks.items()),
            milliseconds=self._milliseconds,
            across=self._across,
        )


def _check(text: bytes, line: int, count: int) -> OwnCheck:
    found = _RESULT.match(text)
    if found is None:
        return OwnCheck(tag="", about="", text=plain(text), line=line, count=count)
    return OwnCheck(
        tag=found[1].decode(),
        about=plain(found[2] or b"", 40),
        text=plain(found[3]),
        line=line,
        count=count,
    )
