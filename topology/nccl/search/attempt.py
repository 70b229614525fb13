"""One search with fixed speeds and path types (search.cc:ncclTopoSearchRec and below).

The order in which GPUs and NICs are tried decides what is found, as the library gives up
after a number of steps and keeps the first of equals; so it is followed step by step.
"""

from __future__ import annotations

from collections.abc import Sequence

from .draft import NVLS, GraphDraft, times
from .field import Field
from .walk import SearchWalk

FOUND_ALL = -1
"""In place of the steps left: as many channels as wanted were found."""

STEPS_BY_INDEX = 1 << 10
"""Budget of the attempt in order of index, where the search starts from NICs."""


class Attempt(SearchWalk):
    """The search for channels of one draft; better ones go into `best`."""

    def __init__(self, field: Field, draft: GraphDraft, best: GraphDraft) -> None:
        super().__init__(field, draft)
        self.best = best
        self._latency_us = draft.latency_us
        self._values = [times(count, draft.speed_intra) for count in range(draft.most + 1)]
        self._best_value = times(best.channels, best.speed_intra)
        if field.inter:
            self._next_channel = self._from_nics
        else:
            self._next_channel = self._from_head if draft.pattern == NVLS else self._from_gpus
        self.most_gbs = 0.0
        """The widest graph that was completed, better or not."""

    def run(self) -> int:
        """Search; the steps left, or FOUND_ALL."""
        self._next_channel(self.field.ledger.full, self.draft.hops)
        return self.left

    def _from_head(self, state: int, hops: int) -> None:
        """NVLS inside one node: the first GPU heads the first channel, and so on."""
        self._enter(self._channel, state, hops)

    def _from_gpus(self, state: int, hops: int) -> None:
        if self._channel == 0:
            self._enter(0, state, hops, range(self.field.count))
        else:
            again = self._orders[self._channel - 1][:]
            self._enter(again[0], state, hops, again)
        if self._channel == 0 or not self.draft.same:
            for gpu in range(self.field.count):
                if self.left <= 0:
                    return
                self._enter(gpu, state, hops)

    def _from_nics(self, state: int, hops: int) -> None:
        draft, channel, nics = self.draft, self._channel, self.field.nics
        whole_gbs = self._nic_ends.whole_gbs
        listed = self._nic_ends.listed()
        only_first = self.field.version.nvls_first_net_only
        for place in range(len(listed)):
            if draft.pattern == NVLS and place and only_first:
                break
            net = listed[(channel + place) % len(listed)]
            if nics.speeds_gbs[net] < whole_gbs:
                continue
            if self._nic_ends.paired(channel) and net != self._ends[channel - 1]:
                continue
            self._starts[channel] = net
            self._latency_us = self.field.nets[net].latency_us
            for one in nics.sharing[net]:
                nics.speeds_gbs[one] -= whole_gbs
            done = self._from_nic(net, state, hops, len(listed))
            for one in nics.sharing[net]:
                nics.speeds_gbs[one] += whole_gbs
            # The first channel goes on without steps: its tries by index have their own.
            if done or (channel and self.left <= 0):
                break

    def _from_nic(self, net: int, state: int, hops: int, listed: int) -> bool:
        """Try the GPUs for a NIC; True when no other NIC is to be tried."""
        draft, channel, version = self.draft, self._channel, self.field.version
        if draft.pattern == NVLS:
            return self._head_from_nic(net, state, hops, listed)
        if channel and (draft.same or version.replays == "always"):
            again = self._orders[channel - 1][:]
            self._enter_from(net, again[0], state, hops, again)
        if channel and draft.same:
            return False
        if channel == 0 and not self.field.switched:
            self._by_index(net, state, hops)
        for gpu, need, crossed in self._nic_ends.firsts(net, channel):
            after = state - need
            if after & self._guard == self._guard:
                self._enter(gpu, after, hops + crossed)
        return False

    def _by_index(self, net: int, state: int, hops: int) -> None:
        kept, self.left = self.left, STEPS_BY_INDEX
        self._enter_from(net, 0, state, hops, range(self.field.count))
        if self.left != FOUND_ALL:
            self.left = kept

    def _head_from_nic(self, net: int, state: int, hops: int, listed: int) -> bool:
        owner = self.field.nics.owner(net)
        if self._channel >= listed or owner < 0:
            return False
        if not self.field.version.nvls_first_net_only and any(
            order[0] == owner for order in self._orders[: self._channel]
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
        state -= way[0]
        if state & self._guard == self._guard:
            self._enter(gpu, state, hops + way[1], forced)

    def _complete(self, state: int, hops: int) -> None:
        """A channel is complete: keep the graph if it is better, and go on to the next."""
        if self.left <= 0:
            return
        self.left -= 1
        channels = self._channel + 1
        if self._better(channels, hops):
            self._keep(channels, hops)
            if channels == self.draft.most:
                self.left = FOUND_ALL
        if channels < self.draft.most:
            self._channel, spent = channels, self._spent
            # What is spent stays so in the channels that follow, but not after going back.
            self._spent = None if spent is None else spent[:]
            self._next_channel(state, hops)
            self._channel, self._spent = channels - 1, spent

    def _better(self, channels: int, hops: int) -> bool:
        """search.cc:ncclTopoCompareGraphs."""
        draft, best = self.draft, self.best
        if channels < draft.least:
            return False
        if draft.pattern == NVLS:
            if best.channels < channels <= self.field.count:
                return True
            mine = times(channels, draft.speed_inter)
            return mine > times(best.channels, best.speed_inter)
        mine = self._values[channels]
        self.most_gbs = max(self.most_gbs, mine)
        if mine != self._best_value:
            return mine > self._best_value
        if draft.pattern == best.pattern and draft.cross_nic == best.cross_nic and hops < best.hops:
            return True
        return (
            self.field.version.counts_links
            and channels == best.channels
            and direct_links(self.field, best.orders)
            < direct_links(self.field, self._orders[:channels])
        )

    def _keep(self, channels: int, hops: int) -> None:
        best = self.best
        best.take(self.draft)
        best.channels, best.hops, best.latency_us = channels, hops, self._latency_us
        best.orders = [order[:] for order in self._orders[:channels]]
        best.nets = list(zip(self._starts[:channels], self._ends[:channels], strict=True))
        self._best_value = self._values[channels]


def direct_links(field: Field, orders: Sequence[Sequence[int]]) -> int:
    """Neighbours in the orders, the last and the first too, with a link of their own.

    RCCL's search.cc:ncclTopoCountXGMI.
    """
    count = 0
    for order in orders:
        for place, gpu in enumerate(order):
            other = order[(place + 1) % len(order)]
            links = field.gpus[gpu].paths["GPU"][other].links
            count += len(links) == 1 and links[0].kind == "NVL"
    return count
