"""The walk through one channel where there are many GPUs, inside one node.

It tries the same GPUs in the same order as the walk in walk.py, but counts what is left of each
link in a list: between many GPUs there are thousands of links, and a channel crosses few of them.
"""

from collections.abc import Callable, Iterator, Sequence

from ..draft import BALANCED_TREE, RING, TREE, GraphDraft, budget
from ..space import SearchSpace, Share


class ManyGpuWalk:
    """The walk through one channel at a time; every whole one is passed on to `complete`.

    What is taken of a link is given back on the way back. Where the steps have run out nothing
    is, as nothing is looked at any more.
    """

    def __init__(
        self, space: SearchSpace, draft: GraphDraft, complete: Callable[[int, int], None]
    ) -> None:
        self._complete = complete
        self.left = budget(draft)
        """Steps left."""
        self._last = space.count - 1
        self.channel = 0
        """The channel that is being walked."""
        self.orders = [[0] * space.count for _ in range(draft.most)]
        """The GPUs of each channel, in order."""
        self.starts, self.ends = [0] * draft.most, [0] * draft.most
        self.spent = [0] * space.count
        """Hops by GPU, as bits, that the channels before this one left too little for: most tries
        are of such."""
        self._closes = draft.pattern == RING
        mutual = draft.pattern in (BALANCED_TREE, TREE)
        self._speed = draft.speed_intra
        self._ways = space.ways(draft.pattern, draft.type_intra, draft.speed_intra, mutual=mutual)
        self._free = space.lanes.full[:]
        """What is left of each link, in MB/s."""

    def enter(self, gpu: int, _state: int, hops: int, forced: Sequence[int] | None = None) -> None:
        """Start a channel at a GPU."""
        if self.left <= 0:
            return
        self.left -= 1
        self.orders[self.channel][0] = gpu
        if forced is not None or not self._last:
            self._follow(gpu, hops, forced or ())
        else:
            self._walk(gpu, hops)

    def _follow(self, gpu: int, hops: int, forced: Sequence[int]) -> None:
        """Visit the GPUs in a given order."""
        order, free = self.orders[self.channel], self._free
        taken: list[Share] = []
        for step in range(1, self._last + 1):
            way = self._ways.lanes(gpu, forced[step])
            if way is None or not _fits(free, way[0]) or self.left <= 0:
                break
            self.left -= 1
            for link, share in way[0]:
                free[link] -= share
            taken += way[0]
            hops += way[1]
            gpu = order[step] = forced[step]
        else:
            self._close(gpu, hops)
        for link, share in taken:
            free[link] += share

    def _walk(self, gpu: int, hops: int) -> None:
        """Visit the GPUs in every order, preferred ones first."""
        free, ways, spent, last = self._free, self._ways, self.spent, self._last
        begun, order = free, self.orders[self.channel]
        (behind, past), speed = ways.choices.gates, self._speed
        used, step = 1 << gpu, 1
        closed = 0
        # GPUs behind a gate that has too little left, as bits.
        stack: list[tuple[Iterator[int], int, tuple[Share, ...], int]] = []
        untried, shut = ways.untried(gpu, free), used | spent[gpu]
        while True:
            for other in untried:
                if shut >> other & 1:
                    continue
                way = ways.lanes(gpu, other)
                if way is None:
                    continue
                need, crossed = way
                if not _fits(free, need):
                    if not _fits(begun, need):
                        spent[gpu] |= 1 << other
                    continue
                if self.left <= 0:
                    return
                self.left -= 1
                if begun is free:
                    # Only now, as many a walk ends before its first step.
                    begun = free[:]
                order[step] = other
                before = closed
                for link, share in need:
                    left = free[link] = free[link] - share
                    if left < speed and link in behind:
                        closed |= behind[link]
                if step != last:
                    break
                self._close(other, hops + crossed)
                for link, share in need:
                    free[link] += share
                closed = before
            else:
                if not stack:
                    return
                used ^= 1 << gpu
                untried, closed, need, hops = stack.pop()
                for link, share in need:
                    free[link] += share
                step -= 1
                gpu = order[step - 1]
                shut = used | spent[gpu] | closed & ~past[gpu]
                continue
            stack.append((untried, before, need, hops))
            gpu, used, hops = other, used | 1 << other, hops + crossed
            step += 1
            untried, shut = ways.untried(gpu, free), used | spent[gpu] | closed & ~past[gpu]

    def _close(self, gpu: int, hops: int) -> None:
        """After the last GPU: a ring returns to its first."""
        first = self.orders[self.channel][0]
        if not self._closes or first == gpu:
            self._whole(hops)
            return
        way = self._ways.lanes(gpu, first)
        if way is None or not _fits(self._free, way[0]):
            return
        for link, share in way[0]:
            self._free[link] -= share
        self._whole(hops + way[1])
        for link, share in way[0]:
            self._free[link] += share

    def _whole(self, hops: int) -> None:
        # What is spent stays so in the channels that follow, but not after going back.
        kept = self.spent
        self.spent = kept[:]
        self._complete(0, hops)
        self.spent = kept


def _fits(free: list[int], need: tuple[Share, ...]) -> bool:
    """Whether no link gives more than it has."""
    for link, share in need:  # noqa: SIM110 - asked at every try, and `all` takes twice as long
        if free[link] < share:
            return False
    return True
