"""Records of NCCL's Inspector: what each finished operation of a rank took.

NCCL's profiler plugin of this name (ext-profiler/inspector, and RCCL's copy of it) writes one file
a process, one JSON document a line. Its format is v4.0 from NCCL 2.28 to 2.30 (inspector_json.cc);
others are read by the fields that they share with it, and named. The plugin writes what had
finished when its thread looked, so operations in between may be missing. Under
NCCL_INSPECTOR_DUMP_VERBOSE=1 it adds when the program called and when the kernel began.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from ...model.budget import Budget
from ...model.english import plural
from ...recorded.check_file import CheckFileError, unpacked
from ...recorded.plain_file import as_utf8
from ..flight.files import beside, listed, octets

MOST_BYTES = 64 * 2**20
"""Of one file; of a longer one its last part, as a job that runs appends."""
NEWS_BYTES = 4 * 2**20
"""Of a job that runs, the last part of each file alone says how it runs now."""
MOST_OPERATIONS = 500_000
"""Of all files: from here on nothing more is read."""
HEAD_BYTES = 64 * 1024
UNNAMED = "unknown"
"""The plugin's word for a communicator without a name (inspector_json.cc)."""
KNOWN_FORMAT = "v4."
MOST_FORMATS = 4
MOST_BUS_GBS = 20_000.0
"""Ten times what a GPU sends over NVLink 6, one way: no collective is faster."""
LONGEST_SECONDS = 3600.0
BEFORE_SECONDS = 0.01
"""By so much a kernel may be seen to begin before the call is written down, which follows it."""
MOST_RANKS = 2**20
PROMETHEUS = (
    "metrics of the Inspector for Prometheus, which keep no single operation; without "
    "NCCL_INSPECTOR_PROM_DUMP it writes records"
)


class _Traffic(msgspec.Struct, frozen=True):
    """How the bus bandwidth of a collective is counted (inspector.cc:inspectorComputeCollBw)."""

    each_rank: bool
    """Whether the message is one rank's part of what is moved."""
    passes: int
    """How often (n - 1) / n of it crosses the bus; 0: it crosses whole, once."""

    def bytes(self, message_bytes: int, ranks: int) -> float:
        """Bytes that cross the bus of a rank."""
        moved = message_bytes * (ranks if self.each_rank else 1)
        return moved * (self.passes * (ranks - 1) / ranks if self.passes else 1.0)


_TRAFFIC = {
    "AllReduce": _Traffic(each_rank=False, passes=2),
    "ReduceScatter": _Traffic(each_rank=True, passes=1),
    "AllGather": _Traffic(each_rank=True, passes=1),
    "Broadcast": _Traffic(each_rank=False, passes=0),
    "Reduce": _Traffic(each_rank=False, passes=0),
}


class FinishedOperation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation of one rank."""

    communicator: str
    """Its hash as the plugin writes it."""
    group: str
    """The name that the program gave its communicator; "" without one."""
    rank: int
    ranks: int
    nodes: int | None
    host: str
    pid: int | None
    name: str
    """NCCL's own name: "AllReduce"; "Send" and "Recv" with a `peer`."""
    peer: int | None
    number: int
    """Counted from 0 for each kind of collective of a communicator."""
    message_bytes: int
    seconds: float
    """From the begin of its kernel to its end: waiting for other ranks and the transfer."""
    on_gpu: bool
    """Whether the GPU's clock took the time; else it is what a CPU saw."""
    written_at: float
    """Seconds since the epoch."""
    stated_gbs: float | None
    """Bus bandwidth as the record has it, GB/s."""
    called_at: float | None = None
    """When the program launched it, seconds since the epoch; None without an event trace."""
    begun_at: float | None = None
    """When its kernel began, by the same clock."""

    @property
    def ahead_seconds(self) -> float | None:
        """How long before its kernel began it was called; None where that is not known.

        The GPU had earlier work for so long, or waited for another stream.
        """
        if self.called_at is None or self.begun_at is None:
            return None
        return max(self.begun_at - self.called_at, 0.0)

    def bus_gbs(self, seconds: float) -> float | None:
        """Bus bandwidth in GB/s where it took so long; None for what has no such figure."""
        traffic = _TRAFFIC.get(self.name)
        if traffic is None or seconds <= 0 or self.ranks < 2:
            return None
        return traffic.bytes(self.message_bytes, self.ranks) / seconds / 1e9

    @property
    def contradicts_itself(self) -> bool:
        """Whether its bandwidth is not that of its bytes and its time.

        Times are whole microseconds: below 50 of them rounding alone makes 1 %.
        """
        counted = self.bus_gbs(self.seconds)
        if counted is None or self.stated_gbs is None or self.seconds < 50e-6:
            return False
        return abs(self.stated_gbs - counted) > 0.05 * max(counted, self.stated_gbs)


class InspectorRecords(msgspec.Struct, frozen=True, kw_only=True):
    """The records in some files, and what of them could not be read."""

    operations: tuple[FinishedOperation, ...] = ()
    lost: int = 0
    """Operations that the plugin says it dropped (dump_stats, since v4.1)."""
    formats: tuple[str, ...] = ()
    """Formats of which nothing is known; "" for records that name none."""
    refused: tuple[tuple[str, str], ...] = ()
    """File and why."""


class _Header(msgspec.Struct):
    id: str
    rank: int
    n_ranks: int
    nnodes: int | None = None
    comm_name: str = ""


class _Metadata(msgspec.Struct):
    dump_timestamp_us: float
    hostname: str = ""
    pid: int | None = None
    inspector_output_format_version: Any = ""


class _Collective(msgspec.Struct, rename=lambda name: f"coll_{name}"):
    sn: int
    msg_size_bytes: int
    exec_time_us: float
    timing_source: str = ""
    busbw_gbs: float | None = None


class _Transfer(msgspec.Struct, rename=lambda name: f"p2p_{name}"):
    sn: int
    msg_size_bytes: int
    exec_time_us: float
    peer: int
    timing_source: str = ""
    busbw_gbs: float | None = None


class _Named(msgspec.Struct):
    coll: str = ""
    p2p: str = ""
    event_trace_ts: msgspec.Raw = msgspec.Raw()
    captured: Any = msgspec.field(default=False, name="graphCaptured")
    """v5.0: a captured graph called it, whose callback stands in the stream."""


class _Kernel(msgspec.Struct):
    """A channel of a kernel."""

    kernel_start_ts: int = 0


class _Trace(msgspec.Struct):
    """When an operation was called and its kernel began, microseconds since the epoch."""

    kernel_events: list[_Kernel]
    coll_start_ts: int = 0
    p2p_start_ts: int = 0


class _Dropped(msgspec.Struct):
    num_dropped_coll_records: int = 0
    num_dropped_p2p_records: int = 0


class _Line(msgspec.Struct):
    header: _Header
    metadata: _Metadata
    coll_perf: msgspec.Raw = msgspec.Raw()
    p2p_perf: msgspec.Raw = msgspec.Raw()
    dump_stats: _Dropped | None = None


_LINES = msgspec.json.Decoder(_Line)
_COLLECTIVES = msgspec.json.Decoder(_Collective)
_TRANSFERS = msgspec.json.Decoder(_Transfer)
_NAMES = msgspec.json.Decoder(_Named)
_TRACES = msgspec.json.Decoder(_Trace)


def looks_like(head: bytes) -> bool:
    """Whether a text begins with such records, or with the plugin's metrics.

    The first line may be torn, as that of the end of a long file is.
    """
    start = head.lstrip()[:4096]
    if is_prometheus(start):
        return True
    if not start.startswith(b"{"):
        start = head[head.find(b"\n") + 1 :].lstrip()[:4096]
    return start.startswith(b'{"header"') and b'"inspector_output_format_version"' in start


def is_prometheus(head: bytes) -> bool:
    """Whether a text is the metrics of the plugin instead of its records."""
    return b"nccl_collective_exec_time" in head or b"nccl_p2p_exec_time" in head


def read(
    paths: Iterable[str],
    since: float | None = None,
    *,
    follow: bool = False,
    most: int = MOST_BYTES,
) -> InspectorRecords:
    """Read files of records; those written before `since` (seconds since the epoch) are refused.

    `most`: of a longer file so many bytes at its end. `follow`: links too, as of files that the
    user names. Raises nothing: what cannot be read is refused with the reason.
    """
    operations: list[FinishedOperation] = []
    refused: list[tuple[str, str]] = []
    formats = set[str]()
    lost, budget = 0, Budget("jobs")
    for path in dict.fromkeys(paths):
        if budget.over or len(operations) >= MOST_OPERATIONS:
            why = f"gputop reads {MOST_OPERATIONS:,} operations at most"
            refused.append((path, budget.why if budget.over else why))
            continue
        try:
            data, written_at, cut = _text(path, follow=follow, most=most)
        except OSError as error:
            refused.append((path, error.strerror or type(error).__name__))
            continue
        except CheckFileError as error:
            refused.append((path, str(error)))
            continue
        if since is not None and written_at < since:
            refused.append((path, "written before the job started, so not by it"))
            continue
        if is_prometheus(data[:4096]):
            refused.append((path, PROMETHEUS))
            continue
        left = MOST_OPERATIONS - len(operations)
        found, dropped, doubts = _parsed(data, left, formats, writes=most == NEWS_BYTES)
        operations += found
        lost += dropped
        refused += [(path, doubt) for doubt in (*cut, *doubts)]
    return InspectorRecords(
        operations=tuple(operations),
        lost=lost,
        formats=tuple(sorted(formats)),
        refused=tuple(refused),
    )


def named(sources: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split files and folders into those of records and all others: (records, others).

    Of a folder with records the other files right in it are others, each for itself.
    """
    records: list[str] = []
    others: list[str] = []
    for source in sources:
        inside = [source]
        if source and Path(source).is_dir():
            inside = listed(source)[0]
        found = [path for path in inside if _begins_so(path)]
        records += found
        others += beside(inside, found) if found else [source]
    return tuple(records), tuple(others)


def _begins_so(path: str) -> bool:
    try:
        head = octets(path, HEAD_BYTES, follow=True)[0] if path else b""
    except OSError:
        return False
    return looks_like(_begin_of(head))


def _begin_of(head: bytes) -> bytes:
    """The begin of a text that may be packed."""
    if not head.startswith(b"\x1f\x8b"):
        return as_utf8(head)
    try:
        return zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
    except zlib.error:
        return b""


def _text(path: str, *, follow: bool, most: int) -> tuple[bytes, float, tuple[str, ...]]:
    """The text of a file, when it was written, and what of it was left out."""
    data, written_at = octets(path, most + 1, follow=follow, last=True)
    cut: tuple[str, ...] = ()
    if len(data) > most:
        if most != NEWS_BYTES:
            cut = (f"longer than {most >> 20} MiB: its last part is read",)
        data = data[data.find(b"\n") + 1 :]
    return as_utf8(unpacked(data, MOST_BYTES)), written_at, cut


def _parsed(
    data: bytes, most: int, formats: set[str], *, writes: bool
) -> tuple[list[FinishedOperation], int, list[str]]:
    """Operations of a text, how many the plugin dropped, and what is odd about its lines.

    `formats` gets those that are not known. `writes`: a job that runs has not finished its last
    line.
    """
    found: list[FinishedOperation] = []
    lines = data.split(b"\n")
    dropped: dict[tuple[str, int], int] = {}
    unread = nonsense = 0
    for at, line in enumerate(lines):
        if not line.strip() or len(found) >= most:
            continue
        try:
            read = _LINES.decode(line)
            operation = _operation(read)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            unread += not writes or at < len(lines) - 1
            continue
        if read.dump_stats is not None:
            told = read.dump_stats
            dropped[read.header.id, read.header.rank] = (
                told.num_dropped_coll_records + told.num_dropped_p2p_records
            )
        if operation is not None and _is_possible(operation):
            found.append(operation)
            version = str(read.metadata.inspector_output_format_version or "")
            if not version.startswith(KNOWN_FORMAT) and len(formats) < MOST_FORMATS:
                formats.add(version[:20])
        else:
            nonsense += operation is not None
    return found, sum(dropped.values()), list(_doubts(unread, nonsense))


def _doubts(unread: int, nonsense: int) -> Iterator[str]:
    if unread:
        yield f"{plural(unread, 'line')} of it {'is' if unread == 1 else 'are'} no whole record"
    if nonsense:
        yield f"{plural(nonsense, 'record')} of it with figures that cannot be, left out"


def _operation(line: _Line) -> FinishedOperation | None:
    """The operation of a line; None for one that only counts. Raises DecodeError."""
    collective, transfer = bytes(line.coll_perf), bytes(line.p2p_perf)
    raw = collective or transfer
    if not raw:
        return None
    told: _Collective | _Transfer
    told = _COLLECTIVES.decode(raw) if collective else _TRANSFERS.decode(raw)
    name = _NAMES.decode(raw)
    header, metadata = line.header, line.metadata
    written_at = metadata.dump_timestamp_us / 1e6
    called_at, begun_at = _moments(bytes(name.event_trace_ts), written_at) or (None, None)
    return FinishedOperation(
        communicator=header.id,
        group="" if header.comm_name == UNNAMED else header.comm_name,
        rank=header.rank,
        ranks=header.n_ranks,
        nodes=header.nnodes,
        host=metadata.hostname,
        pid=metadata.pid,
        name=name.coll or name.p2p,
        peer=told.peer if isinstance(told, _Transfer) else None,
        number=told.sn,
        message_bytes=told.msg_size_bytes,
        seconds=told.exec_time_us / 1e6,
        on_gpu=told.timing_source == "kernel_gpu",
        written_at=written_at,
        stated_gbs=told.busbw_gbs,
        called_at=None if name.captured else called_at,
        begun_at=begun_at,
    )


def _moments(trace: bytes, written_at: float) -> tuple[float, float] | None:
    """When an operation was called and when it began; None where no trace says so, or it cannot be.

    A kernel begins when its first channel does.
    """
    try:
        told = _TRACES.decode(trace) if trace else None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    begins = (
        [one.kernel_start_ts for one in told.kernel_events if one.kernel_start_ts > 0]
        if told
        else []
    )
    if told is None or not begins:
        return None
    called, begun = (told.coll_start_ts or told.p2p_start_ts) / 1e6, min(begins) / 1e6
    fits = called - BEFORE_SECONDS <= begun <= written_at and begun - called <= LONGEST_SECONDS
    return (called, begun) if fits and called > 0 else None


def _is_possible(operation: FinishedOperation) -> bool:
    """Whether its figures can be those of an operation; 0 us is one too short to be timed."""
    return (
        0 <= operation.rank < operation.ranks <= MOST_RANKS
        and 0 <= operation.number < 2**63
        and 0 <= operation.message_bytes <= 2**50
        and 0 <= operation.seconds <= LONGEST_SECONDS
        and 0 < operation.written_at < 1e11
        and bool(operation.name)
        and (operation.bus_gbs(operation.seconds) or 0.0) <= MOST_BUS_GBS
    )
