"""One search with fixed speeds and path types (search.cc:ncclTopoSearchRec and below).

The order in which GPUs and NICs are tried decides what is found, as the library gives up
after a number of steps and keeps the first of equals; so it is followed step by step.
"""

from collections.abc import Callable, Iterator, Sequence

from .draft import BALANCED_TREE, FOUND_ALL, NVLS, RING, TREE, GraphDraft, budget, times, to_beat
from .fast.many_gpus import ManyGpuWalk
from .nic_choices import NOWHERE, NicChoices
from .orders import AWAY, FREE, TOWARDS_NIC
from .space import UNKNOWN, Hop, SearchSpace
from .version import IDLE, NvlsHeads

STEPS_BY_INDEX = 1 << 10
"""Budget of the attempt in order of index, where the search starts from NICs."""


# One channel: from GPU to GPU, with the NICs at its ends (search.cc:ncclTopoSearchRecGpu).
class ChannelWalk:
    """The walk through one channel at a time; every whole one is passed on to `complete`.

    Its methods pass on what is taken of the links (`state`), the GPUs in this channel as bits
    (`used`) and the links crossed so far (`hops`).
    """

    def __init__(
        self,
        space: SearchSpace,
        draft: GraphDraft,
        nic_ends: NicChoices,
        complete: Callable[[int, int], None],
    ) -> None:
        self._space, self._draft, self._nic_ends = space, draft, nic_ends
        self._complete = complete
        self.left = budget(draft)
        """Steps left."""
        self._ledger = space.ledger
        self._last = space.count - 1
        self.channel = 0
        """The channel that is being walked."""
        self.orders = [[0] * space.count for _ in range(draft.most)]
        """The GPUs of each channel, in order."""
        self.starts, self.ends = [0] * draft.most, [0] * draft.most
        """The NICs that each channel comes in and leaves by."""
        ring = draft.pattern == RING
        self._closes = ring and not space.inter
        self._back = (self._last if ring else 0) if space.inter else NOWHERE
        mutual = draft.pattern in (BALANCED_TREE, TREE)
        self._inside = space.ways(draft.pattern, draft.type_intra, draft.speed_intra, mutual=mutual)

    def enter(self, gpu: int, state: int, hops: int, forced: Sequence[int] | None = None) -> None:
        """Start a channel at a GPU."""
        if self.left <= 0:
            return
        self.left -= 1
        self.orders[self.channel][0] = gpu
        if self._back == 0:
            self._to_nics(gpu, 0, state, 1 << gpu, hops, forced)
        else:
            self._go_on(gpu, 0, state, 1 << gpu, hops, self._back, forced)

    def _go_on(
        self,
        gpu: int,
        step: int,
        state: int,
        used: int,
        hops: int,
        back: int,
        forced: Sequence[int] | None,
    ) -> None:
        """Go on from a GPU at a step. `back`: the step at which to go to a NIC."""
        if self._draft.pattern == NVLS:
            self._head(gpu, state, hops)
        elif step == self._last:
            self._close(gpu, state, hops)
        elif forced is None:
            self._walk(gpu, step, state, used, hops, back)
        else:
            self._follow(gpu, step, state, used, hops, back, forced)

    def _follow(
        self,
        gpu: int,
        step: int,
        state: int,
        used: int,
        hops: int,
        back: int,
        forced: Sequence[int],
    ) -> None:
        """Visit the GPUs in a given order."""
        order, ways = self.orders[self.channel], self._inside
        while step < self._last:
            step += 1
            hop = ways.hop(gpu, forced[step])
            if hop is None:
                return
            state += ways.need(gpu, hop)
            if not self._ledger.fits(state) or self.left <= 0:
                return
            gpu = hop[0]
            self.left -= 1
            order[step] = gpu
            used |= hop[1]
            hops += hop[3]
            if step == back:
                self._to_nics(gpu, step, state, used, hops, forced)
                return
        self._close(gpu, state, hops)

    def _walk(self, gpu: int, step: int, state: int, used: int, hops: int, back: int) -> None:
        """Visit the GPUs in every order, preferred ones first."""
        ledger, last, ways, closes = self._ledger, self._last, self._inside, self._closes
        order, net = self.orders[self.channel], self.starts[self.channel]
        mask = 0 if back < 0 else self._space.orders.pci_mask
        on_the_way = FREE if back < 0 else AWAY
        away, home = ways.next_of(on_the_way, net), ways.next_of(TOWARDS_NIC, net)
        ends_at_nic = back == last > 0
        if ends_at_nic:
            lasts = self._nic_ends.lasts_of(net, self._last_start(), self._left_by(last))
        stack: list[tuple[Iterator[Hop], int, int, int]] = []
        step += 1
        while True:
            known, towards = (home, TOWARDS_NIC) if step == back else (away, on_the_way)
            key = (state & mask, used << 10 | gpu)
            tries = known.get(key)
            if tries is None:
                tries = ways.fill(known, key, gpu, used, towards, net, state)
            untried = iter(tries)
            while True:
                for hop in untried:
                    other, bit, need, crossed = hop
                    if need == UNKNOWN:
                        need = ways.need(order[step - 1], hop)
                    after = state + need
                    guard = ledger.guard
                    if (ledger.full - after) & guard != guard:
                        continue
                    if self.left <= 0:
                        return
                    self.left -= 1
                    order[step] = other
                    if ends_at_nic and step == last:
                        ended = hops + crossed
                        for end, more, links in lasts(other):
                            whole = after + more
                            guard = ledger.guard
                            if (ledger.full - whole) & guard != guard:
                                continue
                            self.ends[self.channel] = end
                            if self.left <= 0:
                                break
                            self.left -= 1
                            self._complete(whole, ended + links)
                    elif step == back:
                        self._to_nics(other, step, after, used | bit, hops + crossed, None)
                    elif step != last:
                        break
                    elif closes:
                        self._close(other, after, hops + crossed)
                    else:
                        self._complete(after, hops + crossed)
                else:
                    if not stack:
                        return
                    untried, state, used, hops = stack.pop()
                    step -= 1
                    continue
                break
            stack.append((untried, state, used, hops))
            state, used, hops, gpu = after, used | bit, hops + crossed, other
            step += 1

    def _last_start(self) -> int:
        """The NIC by which the other channel of a pair came in."""
        return self.starts[self.channel - 1] if self.channel & 1 else NOWHERE

    def _left_by(self, step: int) -> int:
        """The NIC that the first GPU of a balanced tree took, for its second one."""
        balanced = self._draft.pattern == BALANCED_TREE
        return self.ends[self.channel] if balanced and step else NOWHERE

    def _to_nics(
        self,
        gpu: int,
        step: int,
        state: int,
        used: int,
        hops: int,
        forced: Sequence[int] | None,
    ) -> None:
        """Go to a NIC from the GPU at a step; a balanced tree does so from its first two."""
        channel = self.channel
        start = self.starts[channel]
        back = 1 if self._draft.pattern == BALANCED_TREE and step == 0 else NOWHERE
        left_by = self._left_by(step)
        for net, need, crossed in self._nic_ends.lasts(gpu, start, self._last_start(), left_by):
            after = state + need
            if not self._ledger.fits(after):
                continue
            self.ends[channel] = net
            if self.left <= 0:
                return
            self.left -= 1
            self._go_on(gpu, step, after, used, hops + crossed, back, forced)

    def _head(self, gpu: int, state: int, hops: int) -> None:
        way = self._inside.head(gpu)
        if way is not None and self._ledger.fits(state + way[0]):
            self._complete(state + way[0], hops + way[1])

    def _close(self, gpu: int, state: int, hops: int) -> None:
        """After the last GPU: a ring inside one node returns to its first."""
        if self._closes:
            first = self.orders[self.channel][0]
            if first != gpu:
                hop = self._inside.hop(gpu, first)
                if hop is None:
                    return
                state += self._inside.need(gpu, hop)
                if not self._ledger.fits(state):
                    return
                hops += hop[3]
        self._complete(state, hops)


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
            previous = walk.orders[channel - 1][:]
            walk.enter(previous[0], state, hops, previous)
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
        only_first = self._space.version.nvls_heads is NvlsHeads.FIRST
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
            previous = self._walk.orders[channel - 1][:]
            self._enter_from(net, previous[0], state, hops, previous)
        if channel and draft.same:
            return False
        if channel == 0 and (version.index_beside_switch or not self._space.switched):
            self._by_index(net, state, hops)
        firsts = self._nic_ends.firsts(net, channel)
        if version.first_gpus is IDLE:
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
        owner = self._space.nics.owner(listed[channel] if heads is NvlsHeads.LISTED else net)
        if owner < 0:
            return False
        if heads is NvlsHeads.LISTED:
            self._walk.enter(owner, state, hops)
            return False
        if heads is NvlsHeads.DISTINCT and any(
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
            gbs = times(channels, draft.speed_inter)
            return gbs > times(best.channels, best.speed_inter)
        gbs = self._values[channels]
        self.most_gbs = max(self.most_gbs, gbs)
        if gbs != self._best_value:
            return gbs > self._best_value
        if draft.pattern == best.pattern and draft.cross_nic == best.cross_nic and hops < best.hops:
            return True
        return (
            self._space.version.counts_links
            and channels == best.channels
            and self._best_links() < direct_links(self._space, self._walk.orders[:channels])
        )

    def _best_links(self) -> int:
        """The direct links of the best graph, counted once for each."""
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
