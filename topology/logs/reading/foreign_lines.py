"""What a line without the library's whole head says, whatever stands around it."""

import re
from typing import NamedTuple

from ...model.no_output import is_no_output
from ...model.told import is_told
from .graph_lines import UNNAMED
from .pasted_settings import Setting, settings_in
from .torch_progress import MARKS

LAST_WORDS = re.compile(
    rb"NCCL error|NCCL Error|nccl\w{1,80}Error|Watchdog caught collective|Cuda failure|Last error:"
)
_TORCH = b"ProcessGroupNCCL"
_TORCH_ENDS = re.compile(rb"[Tt]imeout|[Ee]xception|abort|got stuck|timed out")
"""Words that end PyTorch's process group, where they stand behind its name."""
_VERSION = re.compile(rb"[NR]CCL version ?:? ?\d+\.\d+")
_ITS_VERSION = re.compile(rb", NCCL version (\d{1,3}\.\d{1,3}\.\d{1,3})\b")
_BARE = re.compile(rb"(?:^|[\s>:|\])])(NCCL (?:INFO|WARN|ATTN|DIAG) )")
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
_WORDS_BEFORE = re.compile(
    rb"[`\"'(#]|//|[A-Za-z]{2} [a-z]{2,} |^[\s>]*[-*+|;%@<]"
    rb"|^[\s>]*(?:[A-Z][a-z]+[\w ]*: |REM |commit )"
)
"""What may stand before a mark that nobody printed; no library's head holds it."""
_HEAD = re.compile(rb"[A-Za-z0-9][\w.-]*:\d+:\d+ \[\d+\]")
"""A head alone: the most frequent of all that stand before a mark, and none of these words."""
_EMPTY_WORDS = re.compile(rb"Last error:\s*$")


class Said(NamedTuple):
    """What a line says, of which a log repeats many."""

    text: bytes
    """The line without its end."""
    last_words: bool
    """A framework's last words about the library, or PyTorch's about its process group."""
    ends_open: bool
    """It ends in "Last error:", so the next line says what it is."""
    version: bytes | None
    """From where the line names a version of the library."""
    its_version: bytes | None
    """The version that a framework names behind its own words."""
    progress: bool
    """It may say how far a rank came."""
    settings: list[Setting]


def said(line: bytes) -> Said:
    """Understand a line."""
    text = line.rstrip(b"\r")
    torch = text.find(_TORCH)
    last_words = LAST_WORDS.search(text) is not None
    if not last_words and torch >= 0:
        last_words = _TORCH_ENDS.search(text, torch) is not None
    named = _ITS_VERSION.search(text)
    version = _VERSION.search(text) if not last_words and text.find(b"CCL version") >= 0 else None
    return Said(
        text=text,
        last_words=last_words,
        ends_open=_EMPTY_WORDS.search(text) is not None,
        version=None if version is None else text[version.start() :],
        its_version=None if named is None else named[1],
        progress=torch >= 0 and any(mark in text for mark in MARKS),
        settings=[] if last_words else settings_in(text),
    )


def quoted(raw: bytes, at: int) -> bool:
    """Whether the mark at a place of a line stands in a sentence or in source that holds it."""
    if _HEAD.fullmatch(raw, 0, at) or _WORDS_BEFORE.search(raw, 0, at) is None:
        return False
    line = raw.decode("latin-1")
    return is_told(line) or is_no_output(line)


def marked(raw: bytes) -> bytes | None:
    """The line with the library's name where its mark is expected, None where it is not its own."""
    found = _BARE.search(raw) if raw.find(b"NCCL ") >= 0 else None
    if found is not None and not quoted(raw, found.start(1)):
        return raw[: found.start(1)] + b" " + raw[found.start(1) :]
    if raw.find(b" via ") >= 0 and (connection := _VIA.match(raw)) is not None:
        text = raw.lstrip(b" \t\r>")
        return b" NCCL INFO " + (text if connection[1] else UNNAMED + text)
    if raw.find(b"INFO ") < 0 and raw.find(b"WARN ") < 0:
        return None
    old = _OLD.search(raw)
    if old is None:
        return None
    at = old.start(1) if old[1] is not None else old.start(2)
    return raw[:at] + b" NCCL " + raw[at:] if _OLD_WORDS.match(raw, at) else None
