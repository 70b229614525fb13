"""NCCL's pick for a collective of a size, and the time that its model gives it."""

from ..nodes import CpuArch
from ..prediction import AlgorithmChoice, Tuning
from ..rounding import single
from .bandwidths import GATHERS
from .channels import nvls_channels, nvls_default, own_channels
from .inputs import TuningInput
from .model import Cells, spare_ring
from .threads import WARP, most_threads, threshold
from .version import NvlsRaises, Schedule, generation

MIB = 1 << 20
SIZES = (MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB)
"""The sizes of an all-reduce that are shown, bytes."""

SIMPLE_BLOCK = 4096
LL_BLOCK, LL128_BLOCK = 8, 15
"""Bytes: as a whole; for each thread (include/enqueue.h of 2.20 and 2.21)."""

FEWEST_THREADS = 3 * WARP

CHANNEL_GBS = {"hopper": 21.0}
"""By generation what one channel carries, GB/s on the bus: on two H200, NCCL 2.28.9, all-reduces of
256 MiB reach 21.0, 41.7, 82.8 and 160 with NCCL_MAX_NCHANNELS=1, 2, 4 and 8. The search gives 30 to
each of 12, which NCCL doubles. Of others the share that the search gives to each is expected."""


def choose(
    comm: TuningInput, tuning: Tuning, coll_channels: int, collective: str, size_bytes: int
) -> AlgorithmChoice | None:
    """The pick for one call alone in its group (enqueue.cc:topoGetAlgoInfo).

    `size_bytes` is the larger of the buffers sent and received, as nccl-tests counts it; the log
    prints a rank's part, one of `ranks`, for AllGather and ReduceScatter. None: nothing is left
    to choose from and NCCL fails the call, or there is one rank and nothing to do.
    """
    cells = tuning[collective]
    left = {algorithm: cells[algorithm] for algorithm in candidates(comm, collective)}
    best = quickest(comm, left, coll_channels, collective, size_bytes)
    if best is None:
        spare = {"RING": spare_ring(comm, collective)}
        best = quickest(comm, spare, coll_channels, collective, size_bytes)
    if best is None or comm.ranks <= 1:
        return None
    time, algorithm, protocol = best
    return AlgorithmChoice(
        collective=collective,
        bytes=size_bytes,
        algorithm=algorithm,
        protocol=protocol,
        channels=channel_range(comm, coll_channels, collective, size_bytes, algorithm, protocol),
        time_us=time,
        limited_us=_limited_us(comm, tuning, coll_channels, collective, size_bytes, best),
    )


def _limited_us(
    comm: TuningInput,
    tuning: Tuning,
    coll_channels: int,
    collective: str,
    size_bytes: int,
    best: tuple[float, str, str],
) -> float | None:
    """The time where fewer channels are left than the search found; None where none are taken."""
    time, algorithm, protocol = best
    _, gbs = tuning[collective][algorithm][protocol]
    left = _share_left(comm, algorithm, coll_channels)
    return time + size_bytes / (1000 * gbs) * (1 / left - 1) if gbs and left < 1 else None


def _share_left(comm: TuningInput, algorithm: str, coll_channels: int) -> float:
    """What the channels of a call carry of what the model counts on; over 1 where that is more.

    Of NVLS the share of its usual channels, as far as is known.
    """
    if algorithm in ("NVLS", "NVLS_TREE"):
        return nvls_channels(comm) / nvls_default(comm)
    graph = comm.graph(algorithm)
    each = graph.bw_inter if comm.nodes > 1 else graph.bw_intra
    if algorithm not in ("RING", "TREE") or coll_channels >= graph.channels or not each:
        return 1.0
    most = CHANNEL_GBS.get(generation(comm.low_sm), each)
    return coll_channels * most / (graph.channels * each)


def quickest(
    comm: TuningInput, cells: Cells, coll_channels: int, collective: str, size_bytes: int
) -> tuple[float, str, str] | None:
    """Time, algorithm and protocol of the quickest cell; the first of equals wins."""
    best: tuple[float, str, str] | None = None
    for algorithm, by_protocol in cells.items():
        for protocol, cell in by_protocol.items():
            time = time_us(comm, cell, coll_channels, collective, algorithm, protocol, size_bytes)
            if time is not None and (best is None or time < best[0]):
                best = time, algorithm, protocol
    return best


def choices(comm: TuningInput, tuning: Tuning, coll_channels: int) -> tuple[AlgorithmChoice, ...]:
    """The picks for an all-reduce of 1, 4, 16, 64 and 256 MiB and 1 GiB."""
    found = (choose(comm, tuning, coll_channels, "AllReduce", size) for size in SIZES)
    return tuple(choice for choice in found if choice is not None)


def candidates(comm: TuningInput, collective: str) -> tuple[str, ...]:
    """Algorithms that are compared for a collective, in NCCL's order: the first of equals wins."""
    left = [name for name in comm.version.algorithms if not name.startswith("COLLNET")]
    limit = comm.version.nvls_ranks
    many = collective != "AllReduce" and 0 < limit < comm.most_local
    bytewise = collective == "AllGather" and not comm.version.nvls_all_gather
    if not comm.uses_nvls or many or bytewise:
        left = [name for name in left if not name.startswith("NVLS")]
    if comm.nodes > 1 and not comm.collnet:
        left = [name for name in left if name != "NVLS"]
    return tuple(left)


def time_us(
    comm: TuningInput,
    cell: tuple[float, float],
    coll_channels: int,
    collective: str,
    algorithm: str,
    protocol: str,
    size_bytes: int,
) -> float | None:
    """Time by the model (graph/tuning.cc:ncclTopoGetAlgoTime); None when switched off."""
    latency, gbs = cell
    if not gbs:
        return None
    reduced = collective == "AllReduce"
    size = (size_bytes >> 6).bit_length() - 1
    if comm.version.tiny_correction:
        size = max(0, size)
    if reduced and size >= 0 and corrected(comm, algorithm, size):
        gbs = single(gbs * single(comm.version.tree_correction[protocol][size]))
    ring = algorithm == "RING" and protocol == "SIMPLE"
    if reduced and ring and comm.nodes > 1 and size_bytes // (coll_channels * comm.ranks) >= 64:
        latency = single(latency * (1.9 if comm.low_sm < 80 else 1.4))  # plateau of the ring
    return single(latency + single(single(size_bytes) / single(1000 * gbs)))


def corrected(comm: TuningInput, algorithm: str, size: int) -> bool:
    """Whether a bandwidth is corrected by size; `size` is log2(bytes / 64)."""
    if algorithm == "TREE":
        return size < 23
    applies = comm.version.nvls_tree_correction and algorithm == "NVLS_TREE" and size < 24
    return applies and comm.low_sm >= 100 and comm.cpu_arch == CpuArch.X86


# Which channels a single collective is spread over (enqueue.cc).
#
# First channels are dropped until each has enough to do (topoGetAlgoInfo), then the bytes are dealt
# out (scheduleCollTasksToPlan): evenly; in 2.20 and 2.21 by blocks of the protocol; since 2.22 in
# cells of a fixed traffic. The log prints the result.
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
    if comm.version.schedule is Schedule.EVEN:
        return 0, wanted - 1
    if comm.version.schedule is Schedule.BLOCKS:
        block = block_bytes(comm, size_bytes, wanted, algorithm, protocol)
        return 0, blocks(comm, collective, size_bytes, wanted, block) - 1
    return dealt(comm, collective, protocol, size_bytes, wanted, most)


def shrunk(
    comm: TuningInput, coll_channels: int, size_bytes: int, algorithm: str, protocol: str
) -> int:
    """Channels of ring and tree that have enough work each."""
    count = coll_channels
    if comm.version.nvls_raises is NvlsRaises.LOG:
        count = min(count, own_channels(comm))
    per_channel = most_threads(comm, algorithm, protocol) * threshold(comm, algorithm, protocol)
    while size_bytes < count * per_channel and count >= 2:
        count -= 1
    return count


def block_bytes(
    comm: TuningInput, size_bytes: int, channels: int, algorithm: str, protocol: str
) -> int:
    """Bytes of a block, of which a channel gets whole ones (enqueue.cc:computeCollAlignCount)."""
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
    if version.schedule is Schedule.CELLS_2_22:
        return 16, 16 * per_byte, max(least, traffic // channels)
    cell = divided(divided(least, per_byte), 16) * 16
    share = max(least, traffic) // channels
    share = divided(share, 16) * 16 if version.share == "round" else max(least, share)
    return cell, cell * per_byte, share


def first_cells(comm: TuningInput, share: int, traffic_cell: int) -> int:
    """Cells of the first channel."""
    if comm.version.schedule is Schedule.CELLS_2_22:
        return share // traffic_cell
    return divided(share, traffic_cell)


def divided(number: int, by: int) -> int:
    """A quotient rounded up."""
    return -(-number // by)
