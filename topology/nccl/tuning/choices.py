"""What NCCL picks for a collective of a size, and how long its model says that takes."""

from __future__ import annotations

from ..prediction import AlgorithmChoice, Tuning
from ..rounding import single
from .inputs import TuningInput
from .model import Cells, spare_ring
from .schedule import channel_range

MIB = 1 << 20
SIZES = (MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB)
"""The sizes of an all-reduce that are shown, bytes."""


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
    )


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
    return applies and comm.low_sm >= 100 and comm.cpu_arch == "x86"
