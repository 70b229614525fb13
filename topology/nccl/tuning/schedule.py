"""Which channels a single collective is spread over (enqueue.cc).

First channels are dropped until each has enough to do (topoGetAlgoInfo), then the bytes are cut
into cells of a fixed traffic and dealt out (scheduleCollTasksToPlan). The log prints the result.
"""

from __future__ import annotations

from .channels import nvls_channels, own_channels
from .inputs import TuningInput
from .threads import most_threads, threshold


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


def dealt(
    comm: TuningInput,
    collective: str,
    protocol: str,
    size_bytes: int,
    channels: int,
    most: int,
) -> tuple[int, int]:
    """First and last channel that get a part of the bytes, out of `channels`, at most `most`."""
    gathers = collective in ("AllGather", "ReduceScatter")
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
