"""Where a channel may start and end, one list for each situation, kept for an attempt."""

from collections.abc import Callable
from functools import cache, partial

from .draft import BALANCED_TREE, RING, TREE, GraphDraft
from .nics import EVERY
from .space import SearchSpace, Way
from .version import FirstGpus

NOWHERE = -1

End = tuple[int, int, int]
"""(GPU or NIC to go to, what the way takes of the ledger, links crossed)."""


class NicChoices:
    """The NICs that the channels of one draft go in and out by."""

    def __init__(self, space: SearchSpace, draft: GraphDraft) -> None:
        self._space, self._draft = space, draft
        mutual = draft.pattern in (BALANCED_TREE, TREE)
        # A balanced tree shares its NIC between two GPUs.
        half = draft.speed_inter // 2 if draft.pattern == BALANCED_TREE else draft.speed_inter
        self._in = space.ways(draft.pattern, draft.type_inter, draft.speed_inter, mutual=mutual)
        self._out = space.ways(draft.pattern, draft.type_inter, half, mutual=mutual)
        self.whole_gbs = draft.speed_inter // 1000
        """What a channel takes from the NIC itself (search.cc counts whole GB/s there)."""
        self._pairs = (
            bool(draft.cross_nic) if space.version.cross_nic == 1 else self._ring_crosses()
        ) and space.version.cross_pairs
        self._firsts: dict[tuple[int, int], list[End]] = {}
        self._lasts: dict[tuple[int, int, int], Callable[[int], list[End]]] = {}
        self._fit: dict[tuple[int, int, int], frozenset[int]] = {}
        self._listed: dict[int, frozenset[int]] = {}

    def listed(self) -> tuple[int, ...]:
        """The NICs to start from, in order."""
        return self._space.nics.to_try(self._draft.type_inter, EVERY)

    def paired(self, channel: int) -> bool:
        """Whether a channel must return the way the previous one came."""
        return self._pairs and channel & 1 == 1

    def enter(self, net: int, gpu: int) -> Way | None:
        """The way from a NIC to a GPU."""
        return self._in.enter(net, gpu)

    def firsts(self, net: int, channel: int) -> list[End]:
        """The GPUs to start at from a NIC."""
        turning = self._space.version.first_gpus is FirstGpus.FEWEST_HOPS
        key = (net, channel if turning else 0)
        found = self._firsts.get(key)
        if found is None:
            found = self._firsts[key] = [
                (gpu, *way)
                for gpu in self._first_gpus(net, channel)
                if (way := self.enter(net, gpu)) is not None
            ]
        return found

    def lasts(self, gpu: int, start: int, last_start: int, left_by: int) -> list[End]:
        """The NICs to go to from a GPU.

        `start`, `last_start`: where this channel and the one before started; `left_by`: the
        NIC that the first GPU of a balanced tree took, NOWHERE for the first itself.
        """
        return self.lasts_of(start, last_start, left_by)(gpu)

    def lasts_of(self, start: int, last_start: int, left_by: int) -> Callable[[int], list[End]]:
        """`lasts` of one channel: asked once, where many GPUs may be the last."""
        key = (start, last_start if self._pairs else NOWHERE, left_by)
        found = self._lasts.get(key)
        if found is None:
            found = self._lasts[key] = cache(partial(self._lasts_from, self._fitting(*key)))
        return found

    def _lasts_from(self, fitting: frozenset[int], gpu: int) -> list[End]:
        listed = self._space.nics.to_try(self._draft.type_inter, gpu)
        if len(fitting) < 2:
            listed = tuple(fitting & self._listed_for(gpu))
        return [
            (net, *way)
            for net in listed
            if net in fitting and (way := self._out.leave(gpu, net)) is not None
        ]

    def _listed_for(self, gpu: int) -> frozenset[int]:
        known = self._listed.get(gpu)
        if known is None:
            listed = self._space.nics.to_try(self._draft.type_inter, gpu)
            known = self._listed[gpu] = frozenset(listed)
        return known

    def _fitting(self, start: int, last_start: int, left_by: int) -> frozenset[int]:
        """The NICs that fit, whichever GPU is the last."""
        key = (start, last_start, left_by)
        found = self._fit.get(key)
        if found is None:
            found = self._fit[key] = frozenset(self._fits(*key))
        return found

    def _fits(self, start: int, last_start: int, left_by: int) -> set[int]:
        """search.cc:ncclTopoSearchCheckNet."""
        space, crosses = self._space, self._ring_crosses() or self._draft.cross_nic
        found = set(range(len(space.nets)) if crosses else space.nics.rail(start))
        if self._draft.pattern == TREE:
            found &= {start}
        for only in (last_start, left_by):
            if only != NOWHERE:
                found &= {only}
        return found

    def _ring_crosses(self) -> bool:
        return self._draft.pattern == RING and self._draft.cross_nic == 2

    def _first_gpus(self, net: int, channel: int) -> list[int]:
        nics, start = self._space.nics, self._space.version.first_gpus
        if start in (FirstGpus.IDLE, FirstGpus.FEWEST_HOPS):
            turn = channel if start is FirstGpus.FEWEST_HOPS else 0
            return nics.fewest_hops_gpus(net, turn, self.whole_gbs)
        near, owner = nics.nearest_gpus(net), nics.owner(net)
        if start is FirstGpus.OWNER and owner >= 0:
            return [owner, *(gpu for gpu in near if gpu != owner)]
        return near
