"""Lines about communicators and their ranks."""

import re

from ..report.communicator import (
    ABORTED,
    DESTROYED,
    READY,
    STARTED,
    Counts,
    P2pType,
    Proof,
    RankSeen,
)
from ..report.text import bus_id, plain
from .building import CommBuilder, Process
from .gathering import GatheredLog

_INIT = re.compile(
    rb"(?:\[Rank \d+\] )?(\w+) comm (0x[0-9a-f]+) rank (\d{1,9}) nranks (\d{1,9}) "
    rb"cudaDev (-?\d{1,4})(?: nvmlDev (-?\d{1,4}))? busId ([0-9a-fA-F]+)(.*?)"
    rb"(?: ?- Init (START|COMPLETE))?\s*$"
)
_OLD_INIT = re.compile(
    rb"comm (0x[0-9a-f]+) rank (\d{1,9}) n[rR]anks (\d{1,9}) cudaDev (-?\d{1,4})"
    rb"(?: nvmlDev (-?\d{1,4}))?(?: busId ([0-9a-fA-F]+))?(.*?)"
    rb" ?- (Init START|Init COMPLETE|Destroy COMPLETE|Abort START|Abort COMPLETE|"
    rb"Revoke START|Revoke COMPLETE|Destroy START)(.*)$"
)
_COMM_ID = re.compile(rb"commId 0x([0-9a-f]+)")
_PARENT = re.compile(rb"parent (0x[0-9a-f]+)(?: (?:split|child)Count (\d+))? color (-?\d+)")
_SHAPE = re.compile(
    rb"comm (0x[0-9a-f]+) rank (\d{1,9}) nRanks (\d{1,9}) nNodes (\d{1,9}) localRanks (\d{1,9}) "
    rb"localRank (\d{1,9}) MNNVL (\d)"
)
_COUNTS = re.compile(
    rb"(\d{1,6}) coll channels, (?:(\d{1,6}) collnet channels, )?(?:(\d{1,6}) nvls channels, )?"
    rb"(\d{1,6}) p2p channels, (\d{1,6}) p2p channels per peer"
)
_P2P_TYPE = re.compile(
    rb"Check P2P Type (?:isAllDirectP2p|intraNodeP2pSupport) (\d) directMode (\d)"
    rb"(?: isAllCudaP2p (\d))?"
)
_TIMINGS = re.compile(rb"Init timings.*?: rank (\d{1,9}) nranks (\d+) total ([\d.]{1,12})")

_STATES = {
    b"Destroy": DESTROYED,
    b"Abort": ABORTED,
    b"Revoke": ABORTED,
}


def on_init(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read `ncclCommInitRank comm .. - Init START` and similar lines."""
    match = _INIT.match(text)
    if match is None:
        return None
    _introduce(
        log, process, match[2], (match[3], match[4]), (match[5], match[6], match[7]), match[8],
        complete=match[9] == b"COMPLETE", line=line,
    )  # fmt: skip
    return "init"


def on_comm(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read `comm 0x.. rank ..`: the shape, the end, or the start in old versions."""
    shape = _SHAPE.match(text)
    if shape is not None:
        comm = _find(log, process, shape[1], int(shape[2]), int(shape[3]), line)
        if comm is not None:
            comm.nodes, comm.local_ranks = int(shape[4]), int(shape[5])
            comm.mnnvl = shape[7] != b"0"
            comm.shape = comm.shape or Proof(line, plain(text))
            comm.rank(int(shape[2])).local_rank = int(shape[6])
        return "shape"
    match = _OLD_INIT.match(text)
    if match is None:
        return None
    verb, _, stage = match[8].partition(b" ")
    if verb == b"Init":
        _introduce(
            log, process, match[1], (match[2], match[3]), (match[4], match[5], match[6]), match[7],
            complete=stage == b"COMPLETE", line=line,
        )  # fmt: skip
        return "init"
    known = log.pointed(process, match[1])
    if known is not None:
        seen = known[0].rank(known[1])
        seen.state, seen.left = _STATES[verb], line
    return "end"


def _introduce(
    log: GatheredLog,
    process: Process,
    pointer: bytes,
    place: tuple[bytes, bytes],
    device: tuple[bytes, bytes | None, bytes | None],
    tail: bytes,
    *,
    complete: bool,
    line: int,
) -> None:
    """Put a rank into its communicator."""
    rank, nranks = int(place[0]), int(place[1])
    known = log.pointed(process, pointer) if complete else None
    comm = known[0] if known is not None else None
    late = complete and known is None
    if late:
        comm = _without_start(log, process, pointer, (rank, nranks), tail)
    if comm is None or comm.nranks != nranks:
        comm = log.communicator(_ident(log, process, pointer, tail), nranks, line)
    if comm is None:
        process.comm, process.left_out = None, True
        return
    log.point(process, pointer, comm, rank)
    parent = _PARENT.search(tail)
    if parent is not None:
        above = log.pointed(process, parent[1])
        comm.parent = above[0].ident if above is not None else plain(parent[1], 40)
    _describe(comm.rank(rank), process, device, complete=complete, line=line)
    process.join(comm, rank, late=late)
    if process.network is not None and comm.network is None:
        comm.network = process.network


def _without_start(
    log: GatheredLog, process: Process, pointer: bytes, place: tuple[int, int], tail: bytes
) -> CommBuilder | None:
    """The communicator that the process has, where its start may be missing from the log."""
    comm = process.comm
    if comm is None or not comm.may_be(*place):
        return None
    comm.nranks, comm.size_seen_only = place[1], False
    if _COMM_ID.search(tail) is not None:
        log.rename(comm, _ident(log, process, pointer, tail))
    return comm


def _describe(
    seen: RankSeen,
    process: Process,
    device: tuple[bytes, bytes | None, bytes | None],
    *,
    complete: bool,
    line: int,
) -> None:
    """Keep what the line says of the rank itself."""
    seen.host, seen.pid = process.host or None, process.pid or None
    seen.cuda_dev = int(device[0])
    seen.nvml_dev = None if device[1] is None else int(device[1])
    seen.bus_id = None if device[2] is None else bus_id(device[2].decode())
    seen.state = READY if complete else STARTED
    seen.line = seen.line or line
    if complete:
        seen.ready = seen.ready or line


def _ident(log: GatheredLog, process: Process, pointer: bytes, tail: bytes) -> str:
    """Make a name that all ranks of the communicator give it, as far as the line allows."""
    found = _COMM_ID.search(tail)
    if found is not None:
        return plain(found[1], 40)
    parent = _PARENT.search(tail)
    if parent is not None:
        above = log.pointed(process, parent[1])
        root = above[0].ident if above is not None else "?"
        return f"{root}/{plain(parent[2] or b'0', 12)}/{plain(parent[3], 12)}"
    return plain(pointer, 40)


def _find(
    log: GatheredLog, process: Process, pointer: bytes, rank: int, nranks: int, line: int
) -> CommBuilder | None:
    """Find the communicator behind an address; an unknown one is made."""
    known = log.pointed(process, pointer)
    if known is not None:
        return known[0]
    if process.comm is not None and process.comm.nranks == nranks and process.rank == rank:
        return process.comm
    if process.left_out:
        return None
    # Where the start of the log is missing, ranks of one size count as one communicator.
    comm = log.communicator(f"unnamed of {nranks} ranks", nranks, line)
    if comm is not None:
        log.point(process, pointer, comm, rank)
        seen = comm.rank(rank)
        seen.host, seen.pid, seen.cuda_dev = process.host or None, process.pid, process.cuda_dev
        process.join(comm, rank)
    return comm


def on_counts(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read `24 coll channels, ..`; other lines that begin with a number are left alone."""
    match = _COUNTS.match(text)
    if match is None:
        return None
    if process.comm is not None and (process.comm.counts is None or process.rank == 0):
        process.comm.counts = Counts(
            coll=int(match[1]),
            collnet=int(match[2] or 0),
            nvls=int(match[3] or 0),
            p2p=int(match[4]),
            p2p_per_peer=int(match[5]),
            line=line,
        )
    return "channel counts"


def on_check(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read the `Check P2P Type` line."""
    match = _P2P_TYPE.match(text)
    if match is None:
        return None
    if process.comm is not None and process.comm.p2p_type is None:
        process.comm.p2p_type = P2pType(
            all_direct=match[1] != b"0",
            direct_mode=match[2] != b"0",
            all_cuda=None if match[3] is None else match[3] != b"0",
            line=line,
        )
    return "p2p type"


def on_timings(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read `Init timings`."""
    match = _TIMINGS.match(text)
    if match is None:
        return "remark" if text.startswith(b"Init CE") else None
    if process.comm is not None and process.rank == int(match[1]):
        try:
            process.comm.rank(process.rank).seconds = float(match[3])
        except ValueError:
            return None
    return "timing"


def on_connected(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read `Connected all rings, use ring PXN 0 GDR 1`; `Connected to proxy` says nothing."""
    if text.startswith(b"Connected to proxy"):
        return "proxy"
    words = text.split()
    if text.startswith(b"Connected all rings") and process.comm is not None and b"GDR" in words:
        place = words.index(b"GDR")
        process.comm.use_gdr = words[place + 1 : place + 2] == [b"1"]
        process.comm.use_pxn = words[place - 1] == b"1"
    return "connected"
