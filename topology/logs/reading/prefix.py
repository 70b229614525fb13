"""The head of a line: who speaks, at what level, and where the text starts.

NCCL writes `host:pid:tid [cudaDev] NCCL INFO text`; warnings name their source file before
`NCCL` (debug.cc:ncclDebugLog). Launchers, schedulers and container engines put their own marks
before that, and streams that are joined carelessly put one line into another.
"""

import json
import re
from typing import NamedTuple

from ..report.text import plain

MARK = b" NCCL "
_CACHE_LIMIT = 50_000
_LONGEST_HEAD = 512
"""Bytes before the mark in which host and process stand; names of hosts have at most 255."""
_TEXTS = ("log", "message", "msg", "textPayload", "line", "content")
"""The fields in which Docker, journald, Google and other collectors keep the line."""

_WHO = re.compile(rb"([A-Za-z0-9][\w.-]*):(\d+):(\d+)(?: \[(-?\d+)\])?(?: (.*))?$", re.DOTALL)
_WHERE = re.compile(rb"([\w./-]+\.(?:cc|h|cu|cpp):\d+)")
_ANSI = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_FOLDED = re.compile(rb" \[repeated (\d{1,9})x across cluster\].*$")
_GLUED = re.compile(
    rb"(?<![A-Za-z0-9])([A-Za-z0-9][\w.-]{0,255}):(\d+):(\d+) \[-?\d+\]"
    rb"(?: \S+:\d+(?: \(\w+\))?)? NCCL (?:INFO|WARN|ATTN) "
)


class Speaker(NamedTuple):
    """The process and device that a line comes from."""

    host: str
    pid: int
    cuda_dev: int | None
    where: str | None = None
    """Source file and line of a warning."""


def source_of(head: bytes) -> str | None:
    """The source file and line that a warning names."""
    where = _WHERE.search(head[-_LONGEST_HEAD:])
    # ROCm's packages name the whole path of their build.
    return None if where is None else plain(where[1].rpartition(b"/src/")[2], 80)


class Heads:
    """Reads the heads of lines and remembers who spoke."""

    def __init__(self) -> None:
        self._hosts: dict[bytes, str] = {}
        """Names of hosts, each as text."""
        self._places: set[bytes] = set()
        """"HOST:PID" of each process."""

    def speaker(self, end: bytes, head: bytes) -> Speaker | None:
        """Find who speaks in the end of a head, else in all of it; None when it names nobody."""
        return self._read(end) or (None if end is head else self._read(head))

    def _read(self, head: bytes) -> Speaker | None:
        match = _WHO.search(head[-_LONGEST_HEAD:])
        if match is None:
            return None
        name, pid, _, device, rest = match.groups()
        host = name if name[:1].isalpha() else self._whole_name(name, pid)
        text = self._hosts.get(host)
        if text is None:
            text = plain(host, 80)
            if len(self._hosts) < 4096:
                self._hosts[host] = text
        if len(self._places) < _CACHE_LIMIT:
            self._places.add(b"%b:%b" % (host, pid))
        cuda_dev = None if device is None else int(device[:6])
        return Speaker(text, int(pid[:12]), cuda_dev, source_of(rest) if rest else None)

    def _whole_name(self, name: bytes, pid: bytes) -> bytes:
        """Take off the digit of nccl-tests' table that ran into the host: "0node1:12:12"."""
        digits = len(name) - len(name.lstrip(b"0123456789."))
        cuts = (name[start:] for start in range(1, digits + 1))
        return next((bare for bare in cuts if b"%b:%b" % (bare, pid) in self._places), name)

    def split_glued(self, line: bytes) -> list[bytes]:
        """Cut a line at each further head, where other lines were written into it."""
        cuts = [0]
        for match in _GLUED.finditer(line, 1):
            name, start = match[1], match.start()
            # The end of the first line runs into the host name: "P2P/CUMEMnode1:12:12".
            start += next((at for at in range(len(name)) if name[at:] in self._hosts), 0)
            if MARK in line[cuts[-1] : start]:
                cuts.append(start)
        return [line[a:b] for a, b in zip(cuts, [*cuts[1:], len(line)], strict=True)]


_NARROW, _WIDE, _FEW_CUT, _FEW_TEXTS = 40, 400, 5, 3


def rejoined(lines: list[bytes]) -> list[bytes]:
    """The lines of a paste whose terminal broke those of the library at its right edge.

    What was broken off is put back, and an empty line stands in its place: lines keep their
    numbers. The edge shows where the longest lines of the library, of several texts, end at one
    place, each with a line without a head behind it.
    """
    if any(MARK in line for line in lines if len(line) > _WIDE):
        return lines  # in nearly every log, which is found out soon
    edge = max((len(line) for line in lines if MARK in line), default=0)
    if not _NARROW <= edge <= _WIDE:
        return lines
    ends = [at for at, line in enumerate(lines[:-1]) if len(line) == edge and MARK in line]
    cut = [at for at in ends if lines[at + 1].strip() and MARK not in lines[at + 1]]
    # Ranks print one text each, of one length, and a program's own lines may stand between them.
    texts = {lines[at].translate(None, b"0123456789") for at in cut}
    if len(cut) < _FEW_CUT or len(texts) < _FEW_TEXTS:
        return lines
    whole = list(lines)
    for start in cut:
        at = start + 1
        while at < len(lines) and len(lines[at - 1]) == edge and MARK not in lines[at]:
            whole[start] += lines[at]
            whole[at] = b""
            at += 1
    return whole


def unfolded(text: bytes) -> tuple[bytes, int]:
    """Split a line that Ray printed once for many: the line itself, and how many it stands for."""
    match = _FOLDED.search(text)
    return (text, 0) if match is None else (text[: match.start()], int(match[1]))


def unwrapped(line: bytes) -> bytes:
    """Take the text out of a line that a container engine or collector wrote as a JSON object."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return line
    if isinstance(found, dict):
        for name in _TEXTS:
            text = found.get(name)
            if isinstance(text, str):
                return text.encode("utf-8", "replace").rstrip(b"\r\n").replace(b"\n", b" ")
    return line


def without_colour(text: bytes) -> bytes:
    """Remove terminal control sequences; lines stay lines."""
    return _ANSI.sub(b"", text)
