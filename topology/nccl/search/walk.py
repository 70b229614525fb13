"""One channel: from GPU to GPU, with the NICs at its ends (search.cc:ncclTopoSearchRecGpu)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .draft import BALANCED_TREE, NVLS, RING, TREE, GraphDraft, budget
from .nic_choices import NOWHERE, NicChoices
from .orders import AWAY, FREE, TOWARDS_NIC
from .space import UNKNOWN, Hop, SearchSpace


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
