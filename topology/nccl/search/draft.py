"""A graph while it is searched for: what is asked of it and the channels found so far."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..nodes import PathType
from ..rounding import single

BALANCED_TREE, TREE, RING, NVLS = 1, 3, 4, 5
"""NCCL's numbers of the patterns (include/graph.h)."""

STEPS_SAME = 1 << 8
"""Budget of an attempt whose channels must be alike (search.cc:NCCL_SEARCH_TIMEOUT_*)."""
STEPS = 1 << 14
"""Budget of any other attempt."""
FOUND_ALL = -1
"""In place of the steps left: as many channels as wanted were found."""


def times(channels: int, speed: int) -> float:
    """Bandwidth of so many channels in GB/s, rounded as the library rounds it."""
    return single(channels * single(speed / 1000))


def to_beat(draft: GraphDraft, best: GraphDraft, cross_share: float) -> float:
    """The bandwidth that a draft must exceed to beat the best graph, in GB/s.

    `cross_share`: what the graph of the two that crosses NICs must be better by.
    """
    best_gbs = times(best.channels, best.speed_intra)
    if not cross_share or draft.cross_nic == best.cross_nic:
        return best_gbs
    return single(best_gbs * single(1.0 - (best.cross_nic - draft.cross_nic) * cross_share))


@dataclass(slots=True)
class GraphDraft:
    """One graph. Speeds are MB/s per channel; GPUs and NICs are indices in the system."""

    pattern: int
    least: int
    """The fewest channels that count as a solution."""
    most: int
    cross_nic: int = 0
    same: int = 1
    """All channels must visit the GPUs in the same order."""
    speed_intra: int = 0
    speed_inter: int = 0
    type_intra: int = PathType.LOC
    type_inter: int = PathType.PIX

    channels: int = 0
    hops: int = 0
    latency_us: float = 0.0
    orders: list[list[int]] = field(default_factory=list)
    nets: list[tuple[int, int]] = field(default_factory=list)

    def copy(self) -> GraphDraft:
        """A copy that can change independently."""
        return replace(self, orders=[*self.orders], nets=[*self.nets])

    def take(self, other: GraphDraft) -> None:
        """Take all values of another draft except its channels, which the search hands over."""
        self.pattern, self.least, self.most = other.pattern, other.least, other.most
        self.cross_nic, self.same = other.cross_nic, other.same
        self.speed_intra, self.speed_inter = other.speed_intra, other.speed_inter
        self.type_intra, self.type_inter = other.type_intra, other.type_inter

    def duplicate(self, min_sm: int) -> None:
        """Turn fast channels into twice as many slower ones (search.cc:ncclTopoDupChannels)."""
        if not self.channels or self.pattern == NVLS or self.speed_intra < 25000:
            return
        if min_sm > 80 and self.speed_intra < 50000 and self.channels > 4:
            return
        wanted = min(self.channels * 2, self.most)
        share = -(-wanted // self.channels)
        more = wanted - self.channels
        self.orders += self.orders[:more]
        self.nets += self.nets[:more]
        self.speed_intra //= share
        self.speed_inter //= share
        self.channels = wanted


def budget(draft: GraphDraft) -> int:
    """Steps that one attempt may take."""
    return STEPS_SAME if draft.same else STEPS
