"""Lines without the library's head: versions, last words of frameworks, settings, known signs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from ...recorded.sought import Sought, Vocabulary, lines_with
from ..report.text import plain
from .gathering import GatheredLog
from .graph_lines import UNNAMED
from .pasted_settings import NAMES, settings_in
from .setting_lines import on_version
from .signs import ABOUT, VIA, Present, Signs
from .torch_progress import MARKS

_ABOUT = Sought(ABOUT)
_LAST_WORDS = re.compile(
    rb"NCCL error|NCCL Error|nccl\w{1,80}Error|Watchdog caught collective|Cuda failure|Last error:"
)
_TORCH = b"ProcessGroupNCCL"
_TORCH_ENDS = re.compile(rb"[Tt]imeout|[Ee]xception|abort|got stuck|timed out")
"""Words that end PyTorch's process group, where they stand behind its name."""
_OWN = Signs(
    (
        _LAST_WORDS.pattern.decode(), "NCCL INFO |NCCL WARN |CCL version",
        "ProcessGroupNCCL.*(?:imeout|xception|abort|got stuck|timed out)",
        "INFO NET|INFO Ring|INFO Channel|INFO Trees|INFO comm|INFO Using|INFO Cuda|INFO CUDA",
        "INFO rank|INFO Bootstrap|INFO NCCL_|INFO Launch|INFO Connected|WARN |INFO .*->",
        *(re.escape(text.decode()) for text in (*VIA, *MARKS, *NAMES)),
    )
)  # fmt: skip
"""Where none of these matches there are neither last words nor a version, a head, progress or a
setting."""
_VERSION = re.compile(rb"[NR]CCL version ?:? ?\d+\.\d+")
_ITS_VERSION = re.compile(rb", NCCL version (\d{1,3}\.\d{1,3}\.\d{1,3})\b")
_BARE = re.compile(rb"(?:^|[\s>:|\])])(NCCL (?:INFO|WARN) )")
_OLD = re.compile(
    rb"(?:\w:\d+:\d+ |^[> ]*)\[\d+\] (?:[\w./]+\.(?:cc?u?|h):\d+ )?((?:INFO|WARN) )"
    rb"|(?:^|[\s>:])[\w./]+\.(?:c[cu]|h):\d+ (WARN )"
)
"""NCCL 2.0 to 2.2 do not name themselves: "[0] INFO NET : ..", "init.cu:99 WARN ..."."""
_OLD_WORDS = re.compile(
    rb"INFO (?:NET[/ :]|Ring \d|Channel \d|Trees \[|comm 0x|Using |Cuda failure|CUDA Dev |rank \d"
    rb"|[\w./]+\.c[cu]:\d+ ->|Bootstrap|NCCL_\w+ |Launch mode|Connected all)|WARN "
)
_VIA = re.compile(
    rb"^[\s>]*(?:(Channel|Ring) )?(?(1)\d{1,4}(?:/\d{1,2})? : )"
    rb"\d{1,7}\[\w{1,16}\] -> \d{1,7}\[\w{1,16}\](?: \[(?:send|receive)\])? "
    rb"via (?:P2P|SHM|NET|COLLNET)/\S"
)
"""A connection without the head of its line, and often without its channel."""
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
    rb"|\b(?:0|[Nn]o|without) (?:errors?|fail)|^\W*(?:\[\w+\]:)?\[W[ \d]"
    rb"|\bWARNING\b|(?i:warning):|^\s*(?:If|See|When|Note|#) "
)
"""The words of failures in counts that are zero, in warnings and in advice."""
_FRAME = re.compile(rb"^\W*(?:\[?\w+\]?: *)?(?:File \"|frame #\d)")
"""A place in a trace: its path may hold the same words."""
_EMPTY_WORDS = re.compile(rb"Last error:\s*$")
MOST_SUSPECTS = 5
MOST_OPENINGS = 3


def marked(raw: bytes) -> bytes | None:
    """The line with the library's name where its mark is expected, None where it is not its own."""
    found = _BARE.search(raw) if b"NCCL " in raw else None
    if found is not None:
        return raw[: found.start(1)] + b" " + raw[found.start(1) :]
    if b" via " in raw and (connection := _VIA.match(raw)) is not None:
        text = raw.lstrip(b" \t\r>")
        return b" NCCL INFO " + (text if connection[1] else UNNAMED + text)
    if b"INFO " not in raw and b"WARN " not in raw:
        return None
    old = _OLD.search(raw)
    if old is None:
        return None
    at = old.start(1) if old[1] is not None else old.start(2)
    return raw[:at] + b" NCCL " + raw[at:] if _OLD_WORDS.match(raw, at) else None


class Unmarked:
    """Reads lines that no head marks as the library's."""

    def __init__(self, log: GatheredLog, signs: Signs) -> None:
        self._log = log
        self._signs = signs
        self._present: Present = {}
        """The signs that lines of the text may match which was given last."""
        self._told: dict[bytes, list[bytes]] = {}
        """Its lines that may say something, with what they hold of that."""
        self.awaits = False
        """The line before ended in "Last error:", so the next one says what it is."""

    def telling(self, words: Vocabulary) -> Collection[bytes]:
        """Which lines of the text to come may say something."""
        about = _ABOUT.found(words)
        self._present = self._signs.present(words) if about else {}
        told = dict.fromkeys(self._present)
        if about:
            told.update(dict.fromkeys(_OWN.present(words)))
            if len(self._log.suspects) < MOST_SUSPECTS:
                told.update(dict.fromkeys(_SUSPECTS.found(words)))
        held = lines_with(told, words.text)
        self._told = {line: marks for line, marks in held.items() if _holds(line, about)}
        return self._told

    def read(self, raw: bytes, number: int) -> int:
        """Read one line; 1 when it is the library's or about it."""
        log = self._log
        text = raw.rstrip(b"\r")
        awaited, self.awaits = self.awaits, False
        if awaited and not text.strip():
            self.awaits = True
            return 0
        torch = text.find(_TORCH)
        last_words = _LAST_WORDS.search(text)
        if last_words is None and torch >= 0:
            last_words = _TORCH_ENDS.search(text, torch)
        if torch >= 0 and any(mark in text for mark in MARKS):
            log.progress.read(text, number)
        if b"CCL version" in text and last_words is None:
            version = _VERSION.search(text)
            if version and on_version(log, None, text[version.start() :], number) is not None:
                log.kinds["version"] += 1
                return 1
        if last_words is not None or awaited:
            self.awaits = _EMPTY_WORDS.search(text) is not None
            excerpt = self._excerpt(raw, text)
            log.note("OTHER", None, text if excerpt is None else excerpt.encode(), number)
            log.kinds["framework"] += 1
            named = _ITS_VERSION.search(text)
            if named is not None and log.versions.version is None:
                log.framework_version(plain(named[1], 20), number)
            return 1
        settings = settings_in(text)
        for name, value in settings:
            log.pasted(name, value, number)
        if settings:
            log.kinds["setting"] += 1
            return 0
        excerpt = self._excerpt(raw, text)
        if excerpt is not None:
            log.note("OTHER", None, excerpt.encode(), number)
            log.kinds["sign"] += 1
            return 0
        wanted = len(log.suspects) < MOST_SUSPECTS
        if wanted and _looks_wrong(text):
            log.suspects.append((number, text[:1600]))
        log.kinds["elsewhere"] += 1
        return 0

    def _excerpt(self, raw: bytes, text: bytes) -> str | None:
        """What a sign finds in a line; `text` is the line without its end."""
        held = self._told.get(raw)
        if held is None:
            held = [one for one in self._present if one in text]
        possible = [pattern for one in held for pattern in self._present.get(one, ())]
        return self._signs.excerpt(text, possible) if possible else None


def _looks_wrong(text: bytes) -> bool:
    return bool(_SUSPECT.search(text)) and not (_FRAME.search(text) or _HARMLESS.search(text))


def _holds(line: bytes, marks: Iterable[bytes]) -> bool:
    for mark in marks:  # noqa: SIM110 - a generator takes three times as long
        if mark in line:
            return True
    return False
