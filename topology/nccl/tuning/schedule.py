"""Which channels a single collective is spread over (enqueue.cc).

First channels are dropped until each has enough to do (topoGetAlgoInfo), then the bytes are dealt
out (scheduleCollTasksToPlan): evenly; in 2.20 and 2.21 by blocks of the protocol; since 2.22 in
cells of a fixed traffic. The log prints the result.
"""

from __future__ import annotations

from .bandwidths import GATHERS
from .channels import nvls_channels, own_channels
from .inputs import TuningInput
from .threads import WARP, most_threads, threshold

SIMPLE_BLOCK = 4096
LL_BLOCK, LL128_BLOCK = 8, 15
"""Bytes: as a whole; for each thread (include/enqueue.h of 2.20 and 2.21)."""

FEWEST_THREADS = 3 * WARP


def channel_range(
    comm: TuningInput,
    coll_channels: int,
    collective: str,
    size_bytes: int,
    algorithm: str,
    protocol: str,
) -> tuple[int, int]:
    """First and last channel of a call: "channel{Lo..Hi}" of the log.

    `size_bytes` is the larger of the buffers sent and received.
    """
    nvls = algorithm in ("NVLS", "NVLS_TREE")
    most = nvls_channels(comm) if nvls else coll_channels
    wanted = most if nvls else shrunk(comm, coll_channels, size_bytes, algorithm, protocol)
    if comm.version.schedule == "even":
        return 0, wanted - 1
    if comm.version.schedule == "blocks":
        block = block_bytes(comm, size_bytes, wanted, algorithm, protocol)
        return 0, blocks(comm, collective, size_bytes, wanted, block) - 1
    return dealt(comm, collective, protocol, size_bytes, wanted, most)


def shrunk(
    comm: TuningInput, coll_channels: int, size_bytes: int, algorithm: str, protocol: str
) -> int:
    """Channels of ring and tree that have enough work each."""
    count = coll_channels
    if comm.version.nvls_raises == "log":
        count = min(count, own_channels(comm))
    per_channel = most_threads(comm, algorithm, protocol) * threshold(comm, algorithm, protocol)
    while size_bytes < count * per_channel and count >= 2:
        count -= 1
    return count


def block_bytes(
    comm: TuningInput, size_bytes: int, channels: int, algorithm: str, protocol: str
) -> int:
    """What a channel gets is whole blocks of so many bytes (enqueue.cc:computeCollAlignCount)."""
    if protocol == "SIMPLE":
        return SIMPLE_BLOCK
    threads = most_threads(comm, algorithm, protocol)
    each = threshold(comm, algorithm, protocol)
    while size_bytes < channels * threads * each and threads % (4 * WARP) == 0:
        threads //= 2
    return max(threads, FEWEST_THREADS) * (LL_BLOCK if protocol == "LL" else LL128_BLOCK)


def blocks(comm: TuningInput, collective: str, size_bytes: int, channels: int, block: int) -> int:
    """How many channels get a part, in 2.20 and 2.21 (enqueue.cc:addCBDCollToPlan)."""
    own_bytes = max(1, size_bytes // comm.ranks if collective in GATHERS else size_bytes)
    share = divided(divided(own_bytes, channels), 16) * 16
    return divided(own_bytes, divided(share, block) * block)


def dealt(
    comm: TuningInput,
    collective: str,
    protocol: str,
    size_bytes: int,
    channels: int,
    most: int,
) -> tuple[int, int]:
    """First and last channel that get a part of the bytes, out of `channels`, at most `most`."""
    gathers = collective in GATHERS
    traffic_each = comm.ranks if gathers else 2 if collective == "AllReduce" else 1
    own_bytes = max(1, size_bytes // comm.ranks if gathers else size_bytes)
    cell, traffic_cell, share = cells_of(comm, protocol, own_bytes, traffic_each, channels)
    cells = divided(own_bytes, cell)
    per_channel = min(cells, divided(share, traffic_cell))
    low = cells if most == 1 else min(cells, first_cells(comm, share, traffic_cell))
    middle, high = divmod(cells - low, per_channel)
    first = 0 if low else 1  # 2.22 alone leaves the first channel empty for very small calls
    count = min((low > 0) + middle + (high > 0), most)
    return first, first + count - 1


def cells_of(
    comm: TuningInput, protocol: str, own_bytes: int, traffic_each: int, channels: int
) -> tuple[int, int, int]:
    """(bytes of a cell, its traffic, traffic that a channel should get)."""
    version = comm.version
    least = version.cell_traffic
    more = version.ll_traffic if protocol == "LL" else 1
    traffic = own_bytes * traffic_each * more
    per_byte = traffic_each * more
    if version.schedule == "cells-2.22":
        return 16, 16 * per_byte, max(least, traffic // channels)
    cell = divided(divided(least, per_byte), 16) * 16
    share = max(least, traffic) // channels
    share = divided(share, 16) * 16 if version.share == "round" else max(least, share)
    return cell, cell * per_byte, share


def first_cells(comm: TuningInput, share: int, traffic_cell: int) -> int:
    """Cells of the first channel."""
    if comm.version.schedule == "cells-2.22":
        return share // traffic_cell
    return divided(share, traffic_cell)


def divided(number: int, by: int) -> int:
    """A quotient rounded up."""
    return -(-number // by)
