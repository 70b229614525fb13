"""Lines without the library's head: versions, last words of frameworks, settings, known signs."""

import re
from collections.abc import Iterable

from ...recorded.kept import KeptText
from ...recorded.sought import Sought, Vocabulary, lines_with
from ..report.text import plain
from .foreign_lines import LAST_WORDS, Said, said
from .gathering import GatheredLog
from .pasted_settings import NAMES
from .prefix import MARK
from .setting_lines import on_version
from .signs import ABOUT, VIA, Present, Signs
from .torch_progress import MARKS

_ABOUT = Sought(ABOUT)
_OWN = Signs(
    (
        LAST_WORDS.pattern.decode(), "NCCL (?:INFO|WARN|ATTN|DIAG) |CCL version",
        "ProcessGroupNCCL.*(?:imeout|xception|abort|got stuck|timed out)",
        "INFO NET|INFO Ring|INFO Channel|INFO Trees|INFO comm|INFO Using|INFO Cuda|INFO CUDA",
        "INFO rank|INFO Bootstrap|INFO NCCL_|INFO Launch|INFO Connected|WARN |INFO .*->",
        *(re.escape(text.decode()) for text in (*VIA, *MARKS, *NAMES)),
    )
)  # fmt: skip
"""Where none of these matches there are neither last words nor a version, a head, progress or a
setting."""
_SUSPECT = re.compile(
    rb"[Ee]rror|ERROR|[Ff]ail|FATAL|Exception|[Aa]bort|[Tt]imed? ?out|TIMEOUT|[Kk]illed"
    rb"|Segmentation|[Hh]ang\b|[Ss]tuck|[Uu]nable to|[Cc]ould ?n(?:ot|'t)|[Cc]an(?:not|'t)|denied"
    rb"|[Nn]ot (?:found|detected)|[Rr]efused|[Uu]nrecognized|[Uu]nknown symbol|corrupt"
)
_SUSPECTS = Sought(
    (
        b"rror", b"ERROR", b"ail", b"FATAL", b"Exception", b"bort", b"imed", b"imeout", b"TIMEOUT",
        b"illed", b"Segmentation", b"ang", b"tuck", b"nable to", b"ould", b"annot", b"an't",
        b"denied", b"ot found", b"ot detected", b"efused", b"nrecognized", b"nknown symbol",
        b"corrupt",
    )
)  # fmt: skip
"""Each suspect holds one of these: to look for them is quicker."""
_HARMLESS = re.compile(
    rb"(?:[Ee]rrors?|failures?|failed)\W{1,3}(?:0|none|None|no)\b"
    rb"|\b(?:0|[Nn]o|without) (?:errors?|fail)|error containment capabilities|\b[Cc]orrected\b"
    rb"|^\W*(?:\[\w+\]:)?\[W[ \d]"
    rb"|\bWARNING\b|(?i:warning):|^\s*(?:If|See|When|Note|#) "
)
"""The words of failures in counts that are zero, in warnings and in advice."""
_FRAME = re.compile(rb"^\W*(?:\[?\w+\]?: *)?(?:File \"|frame #\d)")
"""A place in a trace: its path may hold the same words."""
MOST_SUSPECTS = 5
MOST_OPENINGS = 3
MOST_REMEMBERED = 4 << 20
"""Bytes of the lines that are remembered at most, beside those of the newest text."""
MOST_NEW = 0.75
"""Share of a text's different lines that may be new where to remember lines pays off."""
PAUSE = 16
OVERHEAD = 100
"""Bytes that a line takes beside its own."""


class Unmarked:
    """Reads lines that no head marks as the library's.

    Jobs say the same over and over, so lines are remembered: a text is searched for what only its
    new lines may say.
    """

    def __init__(self, log: GatheredLog, signs: Signs, kept: KeptText | None = None) -> None:
        self._log = log
        self._kept = kept
        self._signs = signs
        self._present: Present = {}
        """The signs that remembered lines may match."""
        self._dull: set[bytes] = set()
        """Lines that say nothing."""
        self.telling: dict[bytes, list[re.Pattern[str]]] = {}
        """Lines that may say something, with the signs that they may match."""
        self._understood: dict[bytes, tuple[Said, bytes | None]] = {}
        """What they say, of those that were read, and the part that a sign matches."""
        self._size = 0
        self._pause = 0
        """For how many texts no line is remembered: those before had few lines in common."""
        self.awaits = False
        """The line before ended in "Last error:", so the next one says what it is."""

    def learn(self, lines: list[bytes], others: set[bytes], first: int) -> None:
        """Take the next lines of a text, of which the first has a number, and `others` no head."""
        kept = self._kept
        if kept is not None and kept.goes_on:
            self._forget()  # its lines may be of an output, which may come again
        new = self._new(others)
        words = Vocabulary(b"\n".join(new))
        if kept is not None:
            kept.offer(lines, first, words)
        self._remember(new, words)

    def _forget(self) -> None:
        self._present, self._dull, self.telling, self._understood = {}, set(), {}, {}
        self._size = 0

    def _new(self, lines: set[bytes]) -> set[bytes]:
        """Those that are not remembered."""
        if self._pause or self._size > MOST_REMEMBERED:
            self._pause = max(self._pause - 1, 0)
            self._forget()
        if not self._size:
            return lines
        new = lines.difference(self._dull).difference(self.telling)
        if len(new) > MOST_NEW * len(lines):
            self._pause = PAUSE
        return new

    def _remember(self, lines: set[bytes], words: Vocabulary) -> None:
        """Find out which lines may say something; `words` are theirs."""
        about = _ABOUT.found(words)
        told: dict[bytes, None] = {}
        present: Present = {}
        if about:
            present = self._signs.present(words)
            told.update(dict.fromkeys((*present, *_OWN.present(words))))
            if len(self._log.suspects) < MOST_SUSPECTS:
                told.update(dict.fromkeys(_SUSPECTS.found(words)))
        self._size += len(words.text) + OVERHEAD * len(lines)
        for one, patterns in present.items():
            known = self._present.setdefault(one, [])
            known += [pattern for pattern in patterns if pattern not in known]
        for line, marks in lines_with(told, words.text).items():
            if _holds(line, about):
                self.telling[line] = [sign for one in marks for sign in present.get(one, ())]
        if not self._pause and self._size <= MOST_REMEMBERED:
            self._dull.update(lines.difference(self.telling))

    def knows(self, raw: bytes) -> bool:
        """Whether the line was read before, and is not the library's."""
        return raw in self._understood

    def read(self, raw: bytes, number: int) -> int:
        """Read one line; 1 when it is the library's or about it."""
        log = self._log
        said, excerpt = self._understood.get(raw) or self._understand(raw)
        text = said.text
        awaited, self.awaits = self.awaits, False
        if awaited and not text.strip():
            self.awaits = True
            return 0
        if said.progress:
            log.progress.read(text, number)
        if said.version is not None and on_version(log, None, said.version, number) is not None:
            log.kinds["version"] += 1
            return 1
        if said.last_words or awaited:
            self.awaits = said.ends_open
            log.note("OTHER", None, text if excerpt is None else excerpt, number)
            log.kinds["framework"] += 1
            if said.its_version is not None and log.versions.version is None:
                log.framework_version(plain(said.its_version, 20), number)
            return 1
        for name, value in said.settings:
            log.pasted(name, value, number)
        if said.settings:
            log.kinds["setting"] += 1
            return 0
        if excerpt is not None:
            log.note("OTHER", None, excerpt, number)
            log.kinds["sign"] += 1
            return 0
        wanted = len(log.suspects) < MOST_SUSPECTS
        if wanted and _looks_wrong(text):
            log.suspects.append((number, text[:1600]))
        log.kinds["elsewhere"] += 1
        return 0

    def diagnosis(self, raw: bytes, at: int, number: int) -> int:
        """Read a line of the library's own diagnostics, whose mark is at a place; always 1."""
        self._log.diagnostics.read(raw[:at], raw[at + len(MARK) + len("DIAG ") :], number)
        _, excerpt = self._understood.get(raw) or self._understand(raw)
        if excerpt is not None:
            self._log.note("OTHER", None, excerpt, number)
        self._log.kinds["diagnostics"] += 1
        return 1

    def _understand(self, raw: bytes) -> tuple[Said, bytes | None]:
        """What a line says, and the part that a sign matches."""
        line = said(raw)
        signs = self.telling.get(raw)
        known = signs is not None
        if signs is None:
            here = self._present.items()
            signs = [sign for one, found in here if line.text.find(one) >= 0 for sign in found]
        excerpt = self._signs.excerpt(line.text, signs) if signs else None
        found = line, None if excerpt is None else excerpt.encode()
        if known:
            self._understood[raw] = found
        return found


def _looks_wrong(text: bytes) -> bool:
    return bool(_SUSPECT.search(text)) and not (_FRAME.search(text) or _HARMLESS.search(text))


def _holds(line: bytes, marks: Iterable[bytes]) -> bool:
    for mark in marks:  # noqa: SIM110 - a generator takes three times as long
        if line.find(mark) >= 0:
            return True
    return False
