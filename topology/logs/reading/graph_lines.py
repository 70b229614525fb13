"""Lines about transports, rings, trees, graphs and the System block."""

import re
from collections.abc import Iterable
from functools import lru_cache

from .blocks import GRAPH_ROW, PATTERN, is_path_row, is_system_line
from .building import MAX_TRANSPORTS, MAX_TREE_ROWS, CommBuilder, OpenBlock, Process, bit
from .gathering import GatheredLog
from .init_lines import on_counts
from .tuning_lines import on_old_choice

_VIA = re.compile(
    rb"(?:Channel|Ring) (\d{1,4}|\?)(?:/(\d{1,2}))? : "
    rb"(\d{1,7})(?:\[(\w+)\])? -> (\d{1,7})(?:\[(\w+)\])?"
    rb"(?: \[(send|receive)\])? via (.+)$"
)
UNNAMED = b"Channel ? : "
"""Stands before a connection whose line does not say its channel."""
_LABEL = re.compile(
    rb"(?:P2P/(?:CUMEM|IPC|MNNVL|direct pointer|common device|indirect/\d+\[\w+\])"
    rb"(?:/read)?(?:/CE)?(?:/\w+)?"
    rb"|SHM(?:/(?:direct|CE)){1,2}"
    rb"|NET/[^/]{1,80}/\d+(?:\(\d+\))?(?:/GDRDMA)?(?:\(PCI\))?(?:/Shared)?"
    rb"|COLLNET/[^/]{1,80}/\d+(?:/GDRDMA)?(?:\(PCI\))?(?:/Shared)?)$"
)
_TAIL = re.compile(rb" comm (0x[0-9a-f]+) nRanks \d+(?: busId [0-9a-fA-F]+)?\s*$")
_ORDER = re.compile(rb"(?:Channel|Ring) (\d{1,4})(?:/\d{1,4})? :((?: +\d{1,7})+)\s*$")
_RING = re.compile(rb"Ring (\d{1,4}) : (-?\d{1,7}) -> (-?\d{1,7}) -> (-?\d{1,7})")
_TREE = re.compile(
    rb"Tree (\d{1,4}) : (-?\d{1,7}) -> (-?\d{1,7}) -> (-?\d{1,7})/(-?\d{1,7})/(-?\d{1,7})"
)
_TREES = re.compile(
    rb"\[(\d{1,4})\] (-?\d{1,7})/(-?\d{1,7})/(-?\d{1,7})->(-?\d{1,7})->(-?\d{1,7})(?![\d/])"
)
_OLD_TREES = re.compile(
    rb"\[(\d{1,4})\] (-?\d{1,7})->(-?\d{1,7})->(-?\d{1,7})/(-?\d{1,7})/(-?\d{1,7})(?![\d|])"
)


def without_tail(
    log: GatheredLog, process: Process, text: bytes
) -> tuple[bytes, CommBuilder | None, int]:
    """Split off the end of RCCL's lines, ` comm 0x.. nRanks 08`: the text and the communicator."""
    match = _TAIL.search(text)
    if match is None:
        return text, None, -1
    known = log.pointed(process, match[1])
    return text[: match.start()], *(known or (None, -1))


def on_channel(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read a transport, or the order of a whole ring."""
    comm: CommBuilder | None = None
    if text.find(b" comm 0x") >= 0:
        text, comm, _ = without_tail(log, process, text)
    via = _via(text)
    if via is None:
        return _whole_ring(log, process, text, line)
    src, dst, at_src, at_dst, channels, key = via
    if comm is None:
        comm = process.comm
        if len(process.earlier) > 1:
            comm = _owner(process, src, dst, at_src, at_dst)
    if comm is None and not process.left_out:
        comm = _comm(log, process, (src, dst), line)
    if comm is None:
        return "transport"
    known = comm.transports.get(key)
    if known is not None:
        known[0] |= channels
        return "transport"
    if _LABEL.match(key[2]) is None:
        return None
    if log.transports >= MAX_TRANSPORTS:
        log.more["lines of further transports"] += 1
        return "transport"
    log.transports += 1
    comm.transports[key] = [channels, line]
    comm.texts[line] = text.removeprefix(UNNAMED)
    comm.speakers[line] = process.host
    return "transport"


@lru_cache(4096)
def _via(
    text: bytes,
) -> tuple[int, int, bytes | None, bytes | None, int, tuple[bytes, ...]] | None:
    """Ranks, devices, channel as a bit and key of a connection; short jobs print the same ones."""
    match = _VIA.match(text)
    if match is None:
        return None
    channel, connection, src, at_src, dst, at_dst, direction, label = match.groups()
    label = label.rstrip()
    if label == b"direct shared memory":
        # The form until 2.12 (transport/shm.cc).
        label = b"SHM/direct/direct"
    key = (src, dst, label, connection or b"", direction or b"")
    channels = bit(int(channel)) if channel != b"?" else 0
    return int(src), int(dst), at_src, at_dst, channels, key


def _owner(
    process: Process, src: int, dst: int, at_src: bytes | None, at_dst: bytes | None
) -> CommBuilder | None:
    """Find the newest communicator of the process in which such a line makes sense.

    Transports are set up at first use, which may be later than the newest communicator.
    """
    for comm, rank in process.earlier:
        if rank not in (src, dst) or max(src, dst) >= comm.nranks:
            continue
        own = comm.ranks.get(rank)
        place = at_src if rank == src else at_dst
        if own is None or own.nvml_dev is None or place is None:
            return comm
        if _same_device(place, own.nvml_dev, own.bus_id):
            return comm
    return process.comm


def _same_device(bracket: bytes, nvml_dev: int, bus: str | None) -> bool:
    """Whether a bracket names the device: by NVML index since 2.18, else and in RCCL by bus id."""
    if bracket == b"%d" % nvml_dev:
        return True
    digits = (bus or "").replace(":", "").replace(".", "").lstrip("0").encode()
    return bracket.lstrip(b"0").lower() == digits


def _comm(
    log: GatheredLog, process: Process, ranks: Iterable[int], line: int
) -> CommBuilder | None:
    """The communicator of a line that names ranks; a made-up one where its start is missing."""
    if process.comm is not None or process.left_out:
        return process.comm
    most = max(ranks, default=-1)
    if most < 0:
        return None
    comm = log.communicator("unnamed", 0, line)
    if comm is not None:
        comm.size_seen_only = comm.nranks == 0 or comm.size_seen_only
        comm.nranks = max(comm.nranks, most + 1)
        process.comm = comm
    return comm


def _whole_ring(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    ring = _ring_order(text)
    if ring is None:
        return None
    channel, order = ring
    comm = _comm(log, process, order, line)
    if comm is not None:
        _, known = comm.rings.setdefault(channel, (line, []))
        # A ring of many ranks continues on a further line with the same head (graph/rings.cc).
        if len(known) + len(order) <= max(comm.nranks, 1):
            known.extend(order)
        elif known != order:
            comm.left_out["ring orders"] += 1
    return "ring order"


@lru_cache(4096)
def _ring_order(text: bytes) -> tuple[int, list[int]] | None:
    """Channel and ranks of a whole ring; short jobs print the same ones."""
    match = _ORDER.match(text)
    return None if match is None else (int(match[1]), [int(rank) for rank in match[2].split()])


def on_ring(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read `Ring 00 : 3 -> 0 -> 1`; until 2.6 transports have this form too."""
    match = _RING.match(text)
    if match is None:
        if (kind := on_channel(log, process, text, line)) is not None:
            return kind
        # RCCL: "Ring 00 : 0 -> 1 failed to get link type and hop count" (transport/p2p.cc).
        log.note("INFO", process, text, line)
        return "failure" if b" failed to " in text else None
    key = (int(match[3]), int(match[2]), int(match[4]))
    comm = _comm(log, process, key, line)
    if comm is not None:
        if key in comm.neighbours or len(comm.neighbours) < MAX_TREE_ROWS:
            comm.neighbours[key] = comm.neighbours.get(key, 0) | bit(int(match[1]))
        else:
            comm.left_out["ring neighbours"] += 1
    return "ring"


def on_tree(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read `Tree 0 : -1 -> 0 -> 1/-1/-1`: parent, rank, children."""
    match = _TREE.match(text)
    if match is None:
        return None
    down = (int(match[4]), int(match[5]), int(match[6]))
    _keep_tree(log, process, line, int(match[3]), int(match[2]), down, int(match[1]))
    return "tree"


def on_trees(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read `Trees [0] 1/-1/-1->0->-1 [1] ..`: children, rank, parent; until 2.4 in reverse."""
    log.speakers.planned(process)
    trees = _trees(text)
    if not process.left_out or process.comm is not None:
        for rank, parent, down, channel in trees:
            _keep_tree(log, process, line, rank, parent, down, channel)
    return "tree" if trees or text.strip() == b"Trees" else None


@lru_cache(512)
def _trees(text: bytes) -> list[tuple[int, int, tuple[int, ...], int]]:
    """Rank, parent, children and channel of each tree of a line; jobs of a kind print the same."""
    found = []
    for match in _TREES.finditer(text):
        channel, *down, rank, parent = map(int, match.groups())
        found.append((rank, parent, tuple(down), channel))
    for match in () if found else _OLD_TREES.finditer(text):
        channel, parent, rank, *down = map(int, match.groups())
        found.append((rank, parent, tuple(down), channel))
    return found


def _keep_tree(
    log: GatheredLog,
    process: Process,
    line: int,
    rank: int,
    parent: int,
    down: tuple[int, ...],
    channel: int,
) -> None:
    comm = _comm(log, process, (rank, parent, *down), line)
    if comm is None:
        return
    key = (rank, parent, tuple(child for child in down if child >= 0))
    if key in comm.trees or len(comm.trees) < MAX_TREE_ROWS:
        comm.trees[key] = comm.trees.get(key, 0) | bit(channel)
    else:
        comm.left_out["tree rows"] += 1


def on_pattern(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read `Pattern ..`, which starts a graph."""
    if PATTERN.match(text) is None:
        return None
    process.end_graph()
    process.graph = OpenBlock()
    process.graph.add(text, line)
    return "graph"


def on_number(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read a line that starts with a number: a row of a graph, or the channel counts."""
    if GRAPH_ROW.match(text) is not None:
        if process.graph is not None:
            process.graph.add(text, line)
        return "graph"
    if text.find(b"channels") >= 0:
        return on_counts(log, process, text, line)
    if text.find(b"Bytes -> ") >= 0:
        return on_old_choice(log, process, text, line)
    log.unknown(process, text, line)
    return "other"


def on_rule(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read `=== System : ..`, which starts the block, or `=====`, which ends its list of nodes."""
    if text.startswith(b"=== System"):
        if process.system is not None and process.comm is not None:
            process.comm.systems.add(process.system, process.rank)
        process.system = OpenBlock()
        process.system.add(text, line)
    elif process.system is not None:
        process.system.add(text, line)
    return "system"


def on_node(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read a node or a link of the System block, or a row of paths."""
    if not is_system_line(text):
        return None
    if process.system is not None:
        process.system.add(text, line)
    return "path" if is_path_row(text) else "system"
