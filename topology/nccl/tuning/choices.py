"""What NCCL picks for a collective of a size, and how long its model says that takes."""

from __future__ import annotations

from ..prediction import AlgorithmChoice, Tuning
from .inputs import TuningInput, single
from .schedule import channel_range
from .version import COLLECTIVES, PROTOCOLS

MIB = 1 << 20
SIZES = (MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB)
"""The sizes of an all-reduce that are shown, bytes."""

SMALLEST, LARGEST = 1 << 10, 1 << 34
"""Powers of two between which switch points are looked for, bytes."""


def choose(
    comm: TuningInput, tuning: Tuning, coll_channels: int, collective: str, size_bytes: int
) -> AlgorithmChoice | None:
    """The pick for one call alone in its group (enqueue.cc:topoGetAlgoInfo).

    `size_bytes` is the larger of the buffers sent and received, as nccl-tests counts it; the log
    prints a rank's part for AllGather and ReduceScatter (see `logged_bytes`). None: nothing is
    left to choose from and NCCL fails the call, or there is one rank and nothing to do.
    """
    best: tuple[float, str, str] | None = None
    for algorithm in candidates(comm, collective):
        for protocol in PROTOCOLS:
            cell = tuning[collective][algorithm][protocol]
            time = time_us(comm, cell, coll_channels, collective, algorithm, protocol, size_bytes)
            if time is not None and (best is None or time < best[0]):
                best = time, algorithm, protocol
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


def choices(comm: TuningInput, tuning: Tuning, coll_channels: int) -> tuple[AlgorithmChoice, ...]:
    """The picks for an all-reduce of 1, 4, 16, 64 and 256 MiB and 1 GiB."""
    found = (choose(comm, tuning, coll_channels, "AllReduce", size) for size in SIZES)
    return tuple(choice for choice in found if choice is not None)


def crossovers(
    comm: TuningInput, tuning: Tuning, coll_channels: int, collective: str = "AllReduce"
) -> tuple[AlgorithmChoice, ...]:
    """The pick for 1 KiB, then the first pick of every stretch of powers of two up to 16 GiB."""
    found: list[AlgorithmChoice] = []
    size = SMALLEST
    while size <= LARGEST:
        choice = choose(comm, tuning, coll_channels, collective, size)
        last = found[-1] if found else None
        if choice is not None and (
            last is None or (choice.algorithm, choice.protocol) != (last.algorithm, last.protocol)
        ):
            found.append(choice)
        size *= 2
    return tuple(found)


def estimate_us(
    comm: TuningInput, tuning: Tuning, coll_channels: int, collective: str, size_bytes: int
) -> float | None:
    """The time of a call by the model, us, without the launch; None when NCCL would fail it."""
    choice = choose(comm, tuning, coll_channels, collective, size_bytes)
    return None if choice is None else choice.time_us


def logged_bytes(collective: str, size_bytes: int, ranks: int) -> int:
    """The size that NCCL's log prints for a call of `size_bytes`."""
    return size_bytes // ranks if collective in ("AllGather", "ReduceScatter") else size_bytes


def failures(comm: TuningInput, tuning: Tuning) -> tuple[str, ...]:
    """Collectives that NCCL would fail, a sentence each; they do not stop the start."""
    if comm.ranks <= 1:
        return ()
    return tuple(
        f"{name} fails: NCCL has no algorithm and protocol left for it"
        for name in COLLECTIVES
        if not any(
            gbs
            for algorithm in candidates(comm, name)
            for _, gbs in tuning[name][algorithm].values()
        )
    )


def candidates(comm: TuningInput, collective: str) -> tuple[str, ...]:
    """Algorithms that are compared for a collective, in NCCL's order: the first of equals wins."""
    left = [name for name in comm.version.algorithms if not name.startswith("COLLNET")]
    limit = comm.version.nvls_ranks
    many = collective != "AllReduce" and 0 < limit < comm.most_local
    if not comm.uses_nvls or many:
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
