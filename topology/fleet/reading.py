"""Reads one file of a folder: a node, or why it tells nothing. Files are hostile until read."""

from __future__ import annotations

import math
import os
import stat
import zlib
from array import array
from collections.abc import Iterator
from pathlib import PurePath

import msgspec

from ..model.errors import GputopError
from ..model.finding import Finding
from ..model.severity import FigureBasis, Severity, Verdict
from ..model.snapshot import DEMO
from ..model.waiting import read_now
from .hosts import is_host
from .record import Beside, FigureKind, FileFault, Interned, NodeReport, Unusable, one_line
from .section import CATEGORIES

SCHEMA = "gputop.check/1"
MOST_FILE_BYTES = 8 * 1024 * 1024
MOST_UNPACKED_BYTES = 32 * 1024 * 1024
"""A node of 128 GPUs with its snapshot takes 4 MB unpacked."""
MOST_FINDINGS, MOST_FIGURES, MOST_SIZES = 200, 200, 20
"""A file with more is none of ours: it is refused, and no part of it is left out."""
_LONGEST = 300
_SUFFIXES = (".json.gz", ".json", ".gz")
_GZIP = b"\x1f\x8b"
_LOUD = frozenset(severity for severity in Severity if severity.counts)


class _Head(msgspec.Struct):
    schema: str = ""
    gputop: str = ""


class _Figure(msgspec.Struct, rename={"over": "kind"}):
    key: str
    over: str
    unit: str
    value: float
    worst: float
    at: str = ""
    healthy: float | None = None
    low: float | None = None
    basis: FigureBasis = FigureBasis.UNSAID


class _Section(msgspec.Struct):
    host: str = ""
    job: str | None = None
    rank: int | None = None
    boot_id: str | None = None
    machine: str | None = None
    written_at: float | None = None
    product: str = ""
    facts: dict[str, msgspec.Raw] = {}
    sizes: dict[str, float] = {}
    figures: list[_Figure] = []
    simulated: bool = False
    redacted: bool = False


class _Finding(msgspec.Struct):
    id: str
    said: str = msgspec.field(name="severity")
    """The word of the version that wrote it."""
    title: str


class _Check(msgspec.Struct):
    schema: str
    said: str = msgspec.field(name="verdict")
    """The word of the version that wrote it."""
    taken_at: float
    gputop: str = ""
    node: str | None = None
    source: list[str] = []
    measured: list[msgspec.Raw] = []
    findings: list[_Finding] = []
    fleet: _Section | None = None


_CHECK = msgspec.json.Decoder(_Check)
_HEAD = msgspec.json.Decoder(_Head)


class _NotUsableError(GputopError):
    def __init__(self, kind: FileFault, why: str) -> None:
        super().__init__(why)
        self.kind = kind


def read_file(folder: str, name: str, shared: Interned) -> NodeReport | Unusable | Beside | bytes:
    """Read one file of a folder; bytes: a text that is no document of gputop.

    `name`: its path below the folder. Never raises for what the file is or holds.
    """
    modified = 0.0
    try:
        data, modified = _contents(os.path.join(folder, name))
        head = _head(data)
        if head is None:
            return data
        if head.schema != SCHEMA:
            return _other(name, head, modified)
        return _node(name, data, modified, shared)
    except _NotUsableError as error:
        return unusable(name, error.kind, str(error), modified)


def read_bytes(folder: str, name: str) -> bytes:
    """What a regular file of a folder holds, unpacked; `name`: its path below the folder.

    Raises ValueError with a clause that says why it cannot be used.
    """
    try:
        return _contents(os.path.join(folder, name))[0]
    except _NotUsableError as error:
        raise ValueError(str(error)) from error


def host_of(name: str) -> str | None:
    """The node that a file's name stands for: g7 of "g7.json.gz"."""
    stem = PurePath(name).name
    for suffix in _SUFFIXES:
        if stem.endswith(suffix):
            stem = stem.removesuffix(suffix)
            break
    else:
        stem = stem.split(".")[0]
    return stem if is_host(stem) else None


def unusable(name: str, kind: FileFault, why: str, modified: float = 0.0) -> Unusable:
    """A file of a folder that tells nothing."""
    return Unusable(path=name, kind=kind, why=why, host=host_of(name), modified_at=modified)


def _contents(path: str) -> tuple[bytes, float]:
    """What a regular file holds, unpacked, and its time."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if os.path.islink(path):
            raise _NotUsableError(
                FileFault.LINK, "it is a symbolic link, and none is followed"
            ) from error
        raise _NotUsableError(FileFault.UNREADABLE, f"{error.strerror}".lower()) from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise _NotUsableError(FileFault.NO_FILE, "it is a pipe, a socket or a device")
        if status.st_size > MOST_FILE_BYTES:
            raise _NotUsableError(
                FileFault.TOO_LARGE, f"it has more than {MOST_FILE_BYTES >> 20} MiB"
            )
        with os.fdopen(os.dup(handle), "rb") as file:
            data = read_now(file, MOST_FILE_BYTES + 1)
    except OSError as error:
        raise _NotUsableError(FileFault.UNREADABLE, f"{error.strerror}".lower()) from error
    finally:
        os.close(handle)
    return (_unpacked(data) if data.startswith(_GZIP) else data), status.st_mtime


def _unpacked(data: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        text = unpacker.decompress(data, MOST_UNPACKED_BYTES + 1)
    except zlib.error as error:
        raise _NotUsableError(FileFault.DAMAGED, "it cannot be unpacked") from error
    if len(text) > MOST_UNPACKED_BYTES:
        raise _NotUsableError(
            FileFault.TOO_LARGE, f"it has more than {MOST_UNPACKED_BYTES >> 20} MiB when unpacked"
        )
    if not unpacker.eof:
        raise _NotUsableError(FileFault.CUT_OFF, "it ends in the middle")
    return text


def _head(data: bytes) -> _Head | None:
    """The schema of a document of gputop; None for a text that is none."""
    text = data.lstrip()
    if not text:
        raise _NotUsableError(FileFault.CUT_OFF, "it is empty")
    if b'"gputop.' not in text[:2000]:
        return None
    try:
        head = _HEAD.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if text[:1] == b"{" and not text.rstrip().endswith(b"}"):
            raise _NotUsableError(FileFault.CUT_OFF, "it ends in the middle") from error
        raise _NotUsableError(FileFault.DAMAGED, "it is not valid JSON") from error
    return head if head.schema.startswith("gputop.") else None


def _other(name: str, head: _Head, modified: float) -> Unusable | Beside:
    kind, _, version = head.schema.partition("/")
    if kind == "gputop.check":
        newer = version.isdecimal() and len(version) < 9 and int(version) > 1
        by = f", written by gputop {one_line(head.gputop, 30)}" if head.gputop else ""
        why = f"its schema is {one_line(head.schema, 40)}{by}; this gputop reads {SCHEMA}"
        return unusable(name, FileFault.NEWER if newer else FileFault.DAMAGED, why, modified)
    if kind in ("gputop.net", "gputop.fleet-plan", "gputop.fleet", "gputop.meeting"):
        return Beside(path=name, schema=head.schema[:60])
    return unusable(
        name, FileFault.OTHER_DOCUMENT, f"it is {one_line(head.schema, 40)}, no check", modified
    )


def _node(name: str, data: bytes, modified: float, shared: Interned) -> NodeReport:
    try:
        found = _CHECK.decode(data)
        section = found.fleet or _Section()
        facts = tuple(
            shared.facts(bytes(section.facts.get(category, msgspec.Raw(b"{}"))))
            for category in CATEGORIES
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = f"it does not fit {SCHEMA}: {one_line(error, 160)}"
        raise _NotUsableError(FileFault.DAMAGED, why) from error
    host = section.host or (found.node or "").split(".")[0]
    host = _demo_of(name, found) or host if host == DEMO.strip() else host
    if not is_host(host):
        raise _NotUsableError(FileFault.DAMAGED, "it names no host")
    if found.said not in set(Verdict) or not math.isfinite(found.taken_at):
        raise _NotUsableError(FileFault.DAMAGED, "its verdict or its time is none")
    for what, items, most in (
        ("findings", found.findings, MOST_FINDINGS),
        ("figures", section.figures, MOST_FIGURES),
        ("sizes", section.sizes, MOST_SIZES),
    ):
        if len(items) > most:
            raise _NotUsableError(FileFault.TOO_LARGE, f"it has more than {most} {what}")
    written = section.written_at
    figures = [figure for figure in section.figures if _sound(figure)]
    values = array("d", (value for each in figures for value in (each.value, each.worst)))
    return NodeReport(
        host=host,
        path=name,
        verdict=Verdict(found.said),
        taken_at=found.taken_at,
        written_at=written if written is not None and math.isfinite(written) else found.taken_at,
        modified_at=modified,
        gputop=shared.intern(one_line(found.gputop, 40)),
        job=shared.intern(one_line(section.job, 80)) if section.job else None,
        rank=section.rank,
        boot_id=section.boot_id,
        machine=section.machine,
        product=shared.intern(one_line(section.product, 200)),
        facts=facts if found.fleet is not None else (),
        sizes=shared.intern(tuple(_sizes(section))),
        findings=tuple(map(shared.intern, _findings(found))),
        kinds=shared.intern(tuple(shared.intern(_kind(figure)) for figure in figures)),
        values=values,
        at=shared.intern(tuple(one_line(figure.at, 60) for figure in figures)),
        measured=bool(found.measured),
        redacted=section.redacted,
        simulated=section.simulated,
    )


def _demo_of(name: str, check: _Check) -> str | None:
    """The name of a demo's check: its file's, else the demo's; all demos have one host name."""
    source = check.source[0] if len(check.source) == 1 else ""
    if not source.startswith(DEMO):
        return None
    demo = source.removeprefix(DEMO)
    return host_of(name) or (demo if is_host(demo) else None)


def _findings(check: _Check) -> Iterator[Finding]:
    for row in check.findings:
        if row.said in _LOUD:
            title = one_line(row.title, _LONGEST)
            yield Finding.of(one_line(row.id, 60), Severity(row.said), title)


def _sizes(section: _Section) -> Iterator[tuple[str, float]]:
    for what, value in section.sizes.items():
        if math.isfinite(value) and value > 0:
            yield one_line(what, 80), value


def _kind(figure: _Figure) -> FigureKind:
    return FigureKind(
        key=one_line(figure.key, 120),
        over=one_line(figure.over, 40),
        unit=one_line(figure.unit, 20),
        healthy=figure.healthy,
        low=figure.low,
        basis=FigureBasis(one_line(figure.basis, 20)),
    )


def _sound(figure: _Figure) -> bool:
    return all(math.isfinite(value) and value > 0 for value in (figure.value, figure.worst))
