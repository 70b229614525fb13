"""Which rank the others wait for, by what their GPUs do; the late rank is the one that never waits.

A GPU that waits in a kernel of NCCL is "100 % busy" and takes few multiprocessors. Seen on two H100
(NCCL 2.28.9): a hung all-reduce takes 1 to 5 % of them, one of many channels up to 18 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median

import msgspec

from ..activity import FULL_CORE
from ..lateness import Lateness
from .watching import GpuSlice, JobLoads

LEAST_SLICES = 4
STEADY = 0.75
"""Share of the slices in which the same has to be seen; a rank that evaluates between two steps
looks late in some of them."""
FULLY_BUSY = 0.85
LEAST_GAP = 0.1
"""Of the time: below it, ranks are called equal."""
LEAST_WORK = 0.01
"""A GPU that is busy for less of the time has no work at all."""
LEAST_LINK_GBS = 0.2
"""One way, sent and received: below it no rank waits for data of another one."""
LEAST_PCIE_GBS = 1.0
WAITING_SM = 0.12
"""Multiprocessors that a waiting collective takes, in the middle of what was seen."""
MULTIPROCESSORS = 132
"""Of an H100 and an H200."""
WAITING_PCIE_SM = 4 / MULTIPROCESSORS
"""The same where data goes through the host: NCCL takes 4 channels there, not 24."""
COMPUTING_SM = 0.93
"""What large matrix products take."""
LAUNCH_COMPUTING, LAUNCH_BUSY, LAUNCH_GBS = 0.15, 0.75, 5.0
"""Where no GPU computes for longer, one at least is busy for no longer, none moves more, and each
rank keeps a core busy, launching is what takes long. Of two launch-bound H100 one was busy for 6 %
of the time, and the other one, which waits for it, for 92 %; of two that waited for each other in
turns both were for 30 to 64 %, and moved 0.9 GB/s."""
OF_FIRST_THREAD = 0.6
"""Of the CPU time of a process, what its first thread takes at most while it only launches steps.
PyTorch launches a backward pass, the longer half, from another thread; a program that makes its
rank late, loads data or counts does so in the first."""
WITHOUT_WORK = 0.1
"""A GPU that waits for a rank which computes on the host is never without work: its own launches
stand in a queue. On two H200 it was so for 2.6 % of 0.2 s at most, of FSDP that launches bind for
13 to 29 %, and there each rank was late in turns, for a second or two."""
STUCK_BUSY, STUCK_COMPUTING, STUCK_GBS, STUCK_UNITS = 0.95, 0.02, 0.1, 0.002
"""A GPU whose kernels are there all the time, compute nothing and move nothing, waits. One that
uses no tensor cores and no memory computes nothing either, however many multiprocessors it takes:
a collective of 24 channels took 18 % of an H100's for as long as it hung."""


class RankLoad(msgspec.Struct, frozen=True, kw_only=True):
    """One rank: the mean over what was watched, as shares of the time."""

    rank: int
    pid: int
    busy: float
    computing: float
    """Estimated from the multiprocessors that were taken."""
    nvlink_gbs: float | None = None
    pcie_gbs: float | None = None

    @property
    def in_library(self) -> float:
        """In kernels that take few multiprocessors: those of NCCL that transfer or wait."""
        return max(self.busy - self.computing, 0.0)

    @property
    def idle(self) -> float:
        """Without any kernel."""
        return max(1.0 - self.busy, 0.0)


class LateRank(msgspec.Struct, frozen=True, kw_only=True):
    """One rank for which all others wait."""

    rank: int
    pid: int
    how: Lateness
    waiting: float
    """Share of the time that the others lose: what their GPUs are busy for longer than its one, or
    what it computes for longer than they do."""
    equal: bool = True
    """Whether its work is known to be that of the others: stages of a pipeline differ by design."""


class JudgedLoads(msgspec.Struct, frozen=True, kw_only=True):
    """What the watch says of one job."""

    ranks: tuple[RankLoad, ...] = ()
    """Those whose GPU gave figures; () unless all ranks here that have one GPU each did."""
    late: LateRank | None = None
    launching: bool = False
    """Whether GPUs idle and compute little while each rank keeps a core busy."""
    stuck: bool = False
    """Whether all GPUs do nothing but wait in a kernel."""
    over_pcie: bool = False
    """Whether the ranks exchange data over PCIe and nothing over the NVLinks that they have."""
    sleeps: Mapping[int, Mapping[str, int]] = {}

    @property
    def late_pid(self) -> int | None:
        """The process that others of equal work wait for."""
        return self.late.pid if self.late is not None and self.late.equal else None

    @property
    def waits(self) -> dict[int | None, float]:
        """By process: the share of the time that it waits for the one that is late."""
        late = next((one for one in self.ranks if one.pid == self.late_pid), None)
        if self.late is None or late is None:
            return {}
        if self.late.how is Lateness.HOST:
            lost = {one.pid: one.busy - late.busy for one in self.ranks}
        else:
            lost = {one.pid: late.computing - one.computing for one in self.ranks}
        return {pid: max(share, 0.0) for pid, share in lost.items() if pid != late.pid}


class WatchedRank(msgspec.Struct, frozen=True, kw_only=True):
    """One rank of a job here, and the GPU that is its own."""

    rank: int
    pid: int
    address: str
    cores: float | None = None
    """Cores' worth of CPU time that it took."""
    first: float | None = None
    """What its first thread took of them; None where it is not known."""
    nvlinked: bool = False
    """Whether its GPU has NVLinks to those of other ranks."""


def judge(
    ranks: Sequence[WatchedRank],
    loads: JobLoads,
    *,
    together: bool,
    channels: int | None = None,
) -> JudgedLoads:
    """Compare the ranks of one job; `together`: whether many collectives of them all went on.

    Ranks that do different work by design, stages of a pipeline, launch few such collectives.
    `channels`: as many as variables of the job leave at most, each of which takes one
    multiprocessor.
    """
    waiting = WAITING_SM if channels is None else min(channels / MULTIPROCESSORS, WAITING_SM)
    own = {one.rank: loads.gpus.get(one.address, ()) for one in ranks}
    if len(ranks) < 2 or any(len(slices) < LEAST_SLICES for slices in own.values()):
        return JudgedLoads(sleeps=loads.sleeps)
    found = tuple(_load(one, own[one.rank], waiting) for one in ranks)
    over_pcie = _over_pcie(ranks, found)
    if over_pcie:
        waiting = min(waiting, WAITING_PCIE_SM)
        found = tuple(_load(one, own[one.rank], waiting) for one in ranks)
    launching = _launching(ranks, found)
    late = None if launching else _late(ranks, own)
    if late is not None and _in_turns(ranks, own, late):
        late = None
    if late is not None and not together:
        late = msgspec.structs.replace(late, equal=False)
    return JudgedLoads(
        ranks=found,
        late=late,
        launching=launching,
        stuck=all(map(_waits, (each for slices in own.values() for each in slices))),
        over_pcie=over_pcie,
        sleeps=loads.sleeps,
    )


def _launching(ranks: Sequence[WatchedRank], found: Sequence[RankLoad]) -> bool:
    return (
        all((one.cores or 0.0) >= FULL_CORE for one in ranks)
        and max(one.computing for one in found) <= LAUNCH_COMPUTING
        and LEAST_WORK <= min(one.busy for one in found) <= LAUNCH_BUSY
        and max(one.nvlink_gbs or one.pcie_gbs or 0.0 for one in found) <= LAUNCH_GBS
    )


def _in_turns(
    ranks: Sequence[WatchedRank], own: Mapping[int, Sequence[GpuSlice]], late: LateRank
) -> bool:
    """Whether all processes only launch, so that the one that is late now is not the reason."""
    if late.how is not Lateness.HOST or any((one.cores or 0.0) < FULL_CORE for one in ranks):
        return False
    itself = next(one for one in ranks if one.pid == late.pid)
    if itself.first is not None and itself.first <= OF_FIRST_THREAD * (itself.cores or 0.0):
        return True
    others = (own[one.rank] for one in ranks if one.pid != late.pid)
    return any(1.0 - each.busy >= WITHOUT_WORK for slices in others for each in slices)


def _waits(gpu_slice: GpuSlice) -> bool:
    """Whether a GPU does nothing but wait in a kernel; False where its traffic is not known."""
    moved = (gpu_slice.nvlink_gbs, gpu_slice.pcie_gbs)
    units = (gpu_slice.tensor, gpu_slice.dram)
    rests = all(share is not None and share <= STUCK_UNITS for share in units)
    return (
        gpu_slice.busy >= STUCK_BUSY
        and (rests or computing(gpu_slice) <= STUCK_COMPUTING)
        and all(rate is not None and rate <= STUCK_GBS for rate in moved)
    )


def computing(gpu_slice: GpuSlice, waiting: float = WAITING_SM) -> float:
    """Share of the time in which a GPU computes, estimated from its multiprocessors.

    `waiting`: the share of them that a collective takes.
    """
    share = (gpu_slice.sm - gpu_slice.busy * waiting) / (COMPUTING_SM - waiting)
    return min(max(share, 0.0), gpu_slice.busy)


def _load(one: WatchedRank, slices: Sequence[GpuSlice], waiting: float) -> RankLoad:
    links = [each.nvlink_gbs for each in slices if each.nvlink_gbs is not None]
    pcie = [each.pcie_gbs for each in slices if each.pcie_gbs is not None]
    return RankLoad(
        rank=one.rank,
        pid=one.pid,
        busy=fmean(each.busy for each in slices),
        computing=fmean(computing(each, waiting) for each in slices),
        nvlink_gbs=fmean(links) if links else None,
        pcie_gbs=fmean(pcie) if pcie else None,
    )


def _over_pcie(ranks: Sequence[WatchedRank], found: Sequence[RankLoad]) -> bool:
    return all(
        one.nvlinked
        and load.nvlink_gbs is not None
        and load.nvlink_gbs < LEAST_LINK_GBS
        and (load.pcie_gbs or 0.0) >= LEAST_PCIE_GBS
        and load.busy >= FULLY_BUSY
        for one, load in zip(ranks, found, strict=True)
    )


def _late(ranks: Sequence[WatchedRank], own: Mapping[int, Sequence[GpuSlice]]) -> LateRank | None:
    """The rank that stands out in nearly all slices in the same way; None without one."""
    count = min(map(len, own.values()))
    seen: list[tuple[int, Lateness, float]] = []
    for place in range(count):
        one = {rank: slices[-count + place] for rank, slices in own.items()}
        if (said := _late_in(one)) is not None:
            seen.append(said)
    votes = [said[:2] for said in seen]
    most = max(set(votes), key=votes.count, default=None)
    if most is None or votes.count(most) < STEADY * count:
        return None
    waiting = median(share for rank, how, share in seen if (rank, how) == most)
    pid = next(one.pid for one in ranks if one.rank == most[0])
    return LateRank(rank=most[0], pid=pid, how=most[1], waiting=waiting)


def _late_in(slices: Mapping[int, GpuSlice]) -> tuple[int, Lateness, float] | None:
    """Who is late over one moment, how, and what the others lose of it."""
    if not all(map(_exchanges, slices.values())):
        return None
    by_busy = sorted(slices, key=lambda rank: slices[rank].busy)
    first, others = by_busy[0], by_busy[1:]
    least = min(slices[rank].busy for rank in others)
    if least >= FULLY_BUSY and least - slices[first].busy >= LEAST_GAP:
        return first, Lateness.HOST, fmean(slices[r].busy for r in others) - slices[first].busy
    shares = {rank: _work(slices, rank) for rank in slices}
    last = max(shares, key=lambda rank: shares[rank])
    rest = [shares[rank] for rank in shares if rank != last]
    gap = shares[last] - max(rest)
    if min(each.busy for each in slices.values()) >= FULLY_BUSY and gap >= LEAST_GAP:
        return last, Lateness.GPU, shares[last] - fmean(rest)
    return None


def _work(slices: Mapping[int, GpuSlice], rank: int) -> float:
    """Share of the time in which a GPU computes, against the one that takes the most."""
    full = max(each.sm / each.busy for each in slices.values() if each.busy > 0)
    room = max(full - WAITING_SM, 0.1)
    one = slices[rank]
    return min(max((one.sm - one.busy * WAITING_SM) / room, 0.0), one.busy)


def _exchanges(gpu_slice: GpuSlice) -> bool:
    """Whether data is seen to move: where none is, or nobody can tell, all may hang."""
    links, pcie = gpu_slice.nvlink_gbs or 0.0, gpu_slice.pcie_gbs or 0.0
    return links >= LEAST_LINK_GBS or pcie >= LEAST_PCIE_GBS
