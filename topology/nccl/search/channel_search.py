"""One search with fixed speeds and path types (search.cc:ncclTopoSearchRec and below).

The order in which GPUs and NICs are tried decides what is found, as the library gives up
after a number of steps and keeps the first of equals; so it is followed step by step.
"""

from __future__ import annotations

from collections.abc import Sequence

from .draft import FOUND_ALL, NVLS, GraphDraft, times, to_beat
from .fast.many_gpus import ManyGpuWalk
from .nic_choices import NicChoices
from .space import SearchSpace
from .walk import ChannelWalk

STEPS_BY_INDEX = 1 << 10
"""Budget of the attempt in order of index, where the search starts from NICs."""


class ChannelSearch:
    """The search for channels of one draft; better ones go into `best`."""

    def __init__(self, space: SearchSpace, draft: GraphDraft, best: GraphDraft) -> None:
        self._space, self._draft, self._best = space, draft, best
        self._nic_ends = NicChoices(space, draft)
        self._walk: ChannelWalk | ManyGpuWalk
        if space.by_rank:
            self._walk = ManyGpuWalk(space, draft, self._complete)
        else:
            self._walk = ChannelWalk(space, draft, self._nic_ends, self._complete)
        self._latency_us = draft.latency_us
        self._values = [times(count, draft.speed_intra) for count in range(draft.most + 1)]
        self._best_value = to_beat(draft, best, space.version.cross_share)
        if space.inter:
            self._next_channel = self._from_nics
        else:
            self._next_channel = self._from_head if draft.pattern == NVLS else self._from_gpus
        self._counted: list[list[int]] | None = None
        self._links = 0
        self.most_gbs = 0.0
        """The widest graph that was completed, better or not."""

    def run(self) -> int:
        """Search; the steps left, or FOUND_ALL."""
        self._next_channel(0, self._draft.hops)
        return self._walk.left

    def _from_head(self, state: int, hops: int) -> None:
        """NVLS inside one node: the first GPU heads the first channel, and so on."""
        self._walk.enter(self._walk.channel, state, hops)

    def _from_gpus(self, state: int, hops: int) -> None:
        walk, channel = self._walk, self._walk.channel
        if channel == 0:
            walk.enter(0, state, hops, range(self._space.count))
        else:
            again = walk.orders[channel - 1][:]
            walk.enter(again[0], state, hops, again)
        if channel == 0 or not self._draft.same:
            for gpu in range(self._space.count):
                if walk.left <= 0:
                    return
                walk.enter(gpu, state, hops)

    def _from_nics(self, state: int, hops: int) -> None:
        walk, draft, nics = self._walk, self._draft, self._space.nics
        channel = walk.channel
        whole_gbs = self._nic_ends.whole_gbs
        listed = self._nic_ends.listed()
        only_first = self._space.version.nvls_heads == "first"
        turn = channel if self._space.version.turns_nics else 0
        for place in range(len(listed)):
            if draft.pattern == NVLS and place and only_first:
                break
            net = listed[(turn + place) % len(listed)]
            if nics.speeds_gbs[net] < whole_gbs:
                continue
            if self._nic_ends.paired(channel) and net != walk.ends[channel - 1]:
                continue
            walk.starts[channel] = net
            self._latency_us = self._space.nets[net].latency_us
            for shared in nics.sharing[net]:
                nics.speeds_gbs[shared] -= whole_gbs
            done = self._from_nic(net, state, hops, listed)
            for shared in nics.sharing[net]:
                nics.speeds_gbs[shared] += whole_gbs
            # The first channel goes on without steps: its tries by index have their own.
            if done or (channel and walk.left <= 0):
                break

    def _from_nic(self, net: int, state: int, hops: int, listed: Sequence[int]) -> bool:
        """Try the GPUs for a NIC; True when no other NIC is to be tried."""
        draft, channel, version = self._draft, self._walk.channel, self._space.version
        if draft.pattern == NVLS:
            return self._head_from_nic(net, state, hops, listed)
        if channel and (draft.same or version.replays == "always"):
            again = self._walk.orders[channel - 1][:]
            self._enter_from(net, again[0], state, hops, again)
        if channel and draft.same:
            return False
        if channel == 0 and (version.index_beside_switch or not self._space.switched):
            self._by_index(net, state, hops)
        firsts = self._nic_ends.firsts(net, channel)
        if version.first_gpus == "idle":
            left = self._space.orders.pci_gbs(state)
            firsts = sorted(firsts, key=lambda first: left[first[0]] <= 0)
        for gpu, need, crossed in firsts:
            after = state + need
            if self._space.ledger.fits(after):
                self._walk.enter(gpu, after, hops + crossed)
        return False

    def _by_index(self, net: int, state: int, hops: int) -> None:
        walk = self._walk
        kept, walk.left = walk.left, STEPS_BY_INDEX
        self._enter_from(net, 0, state, hops, range(self._space.count))
        if walk.left != FOUND_ALL:
            walk.left = kept

    def _head_from_nic(self, net: int, state: int, hops: int, listed: Sequence[int]) -> bool:
        channel, heads = self._walk.channel, self._space.version.nvls_heads
        if channel >= len(listed):
            return False
        owner = self._space.nics.owner(listed[channel] if heads == "listed" else net)
        if owner < 0:
            return False
        if heads == "listed":
            self._walk.enter(owner, state, hops)
            return False
        if heads == "distinct" and any(
            order[0] == owner for order in self._walk.orders[: self._walk.channel]
        ):
            return False
        self._enter_from(net, owner, state, hops)
        return True

    def _enter_from(
        self, net: int, gpu: int, state: int, hops: int, forced: Sequence[int] | None = None
    ) -> None:
        way = self._nic_ends.enter(net, gpu)
        if way is None:
            return
        state += way[0]
        if self._space.ledger.fits(state):
            self._walk.enter(gpu, state, hops + way[1], forced)

    def _complete(self, state: int, hops: int) -> None:
        """A channel is complete: keep the graph if it is better, and go on to the next."""
        walk = self._walk
        if walk.left <= 0:
            return
        walk.left -= 1
        channels = walk.channel + 1
        if self._better(channels, hops):
            self._keep(channels, hops)
            if channels == self._draft.most:
                walk.left = FOUND_ALL
        if channels < self._draft.most:
            walk.channel = channels
            self._next_channel(state, hops)
            walk.channel = channels - 1

    def _better(self, channels: int, hops: int) -> bool:
        """search.cc:ncclTopoCompareGraphs."""
        draft, best = self._draft, self._best
        if channels < draft.least:
            return False
        if draft.pattern == NVLS:
            if best.channels < channels <= self._space.count:
                return True
            if not self._space.version.nvls_by_speed:
                return False
            mine = times(channels, draft.speed_inter)
            return mine > times(best.channels, best.speed_inter)
        mine = self._values[channels]
        self.most_gbs = max(self.most_gbs, mine)
        if mine != self._best_value:
            return mine > self._best_value
        if draft.pattern == best.pattern and draft.cross_nic == best.cross_nic and hops < best.hops:
            return True
        return (
            self._space.version.counts_links
            and channels == best.channels
            and self._best_links() < direct_links(self._space, self._walk.orders[:channels])
        )

    def _best_links(self) -> int:
        """Those of the best graph, counted once for each."""
        if self._counted is not self._best.orders:
            self._counted = self._best.orders
            self._links = direct_links(self._space, self._counted)
        return self._links

    def _keep(self, channels: int, hops: int) -> None:
        walk, best = self._walk, self._best
        best.take(self._draft)
        best.channels, best.hops, best.latency_us = channels, hops, self._latency_us
        best.orders = [order[:] for order in walk.orders[:channels]]
        best.nets = list(zip(walk.starts[:channels], walk.ends[:channels], strict=True))
        self._best_value = self._values[channels]


def direct_links(space: SearchSpace, orders: Sequence[Sequence[int]]) -> int:
    """Neighbours in the orders, the last and the first too, with a link of their own.

    RCCL's search.cc:ncclTopoCountXGMI.
    """
    direct = space.direct
    count = 0
    for order in orders:
        before = order[-1]
        for gpu in order:
            count += direct[before][gpu]
            before = gpu
    return count
