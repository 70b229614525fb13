"""Attempts that need not be made, and the steps that they would have taken.

Both are exact: an attempt is left out when it cannot change the best graph. How many steps it
would have taken matters only to the budget of the whole search, so it is made after all when
that budget could be at its end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..draft import BALANCED_TREE, FOUND_ALL, NVLS, TREE, GraphDraft, budget, times, to_beat
from ..space import SearchSpace
from .bounds import Bounds

Attempt = Callable[[GraphDraft, GraphDraft], tuple[int, float]]
"""Searches the channels of a draft that beat a graph: (steps left, the widest graph completed)."""

OUT_OF_STEPS = -2
"""In place of the steps left: the whole search had ended before this attempt."""

Label = tuple[int, int]
"""(pattern, NIC crossing): what a graph must share with the best to win by fewer hops."""


@dataclass(slots=True)
class AttemptResult:
    """What came of an attempt."""

    left: int
    """Steps left."""
    most_gbs: float
    """The widest graph that it completed."""
    labels: set[Label]
    """Those under which its graphs were compared with the best."""


class AttemptPruner:
    """The attempts of the search for one graph."""

    def __init__(self, space: SearchSpace, attempt: Attempt) -> None:
        self._space, self._attempt = space, attempt
        self._bounds = Bounds(space)
        self._known: dict[tuple[int, ...], AttemptResult] = {}
        self._exhausted: list[GraphDraft] = []
        """Those that ran out of steps."""
        self._steps = space.version.all_steps
        self._skipped: GraphDraft | None = None
        self._owed: list[GraphDraft] = []
        self._doubt: int | None = None
        """Steps left at the last look, should the attempts left out have taken none."""

    def search(self, draft: GraphDraft, best: GraphDraft) -> int | None:
        """Make an attempt if it can matter.

        The steps left; None where they were not counted, OUT_OF_STEPS where the whole search
        turns out to have ended before.
        """
        self._steps -= budget(draft)
        if draft.pattern == NVLS:
            return self._attempt(draft, best)[0]
        known = self._known.get(self._what_matters(draft))
        if self._cannot_win(draft, best):
            self._skipped = draft.copy()
            return known.left if known is not None else None
        if known is not None and self._nothing_new(known, draft, best):
            return known.left
        if self._ended_before():
            return OUT_OF_STEPS
        return self._make(draft, best).left

    def _make(self, draft: GraphDraft, best: GraphDraft) -> AttemptResult:
        made = AttemptResult(*self._attempt(draft, best), {label_of(draft)})
        if not made.left:
            self._exhausted.append(draft.copy())
        if made.left != FOUND_ALL:
            self._known[self._what_matters(draft)] = made
        return made

    def _nothing_new(self, made: AttemptResult, draft: GraphDraft, best: GraphDraft) -> bool:
        """Whether the channels of an attempt, found again, could no longer beat the best."""
        theirs = to_beat(draft, best, self._space.version.cross_share)
        if made.most_gbs != theirs or not made.most_gbs:
            # Without a whole graph there is nothing that could win by its links or hops either.
            return made.most_gbs <= theirs
        if self._space.version.counts_links:
            return False
        # As wide as the best they win by hops alone, and only with a label not yet compared.
        if label_of(draft) != label_of(best):
            made.labels.add(label_of(draft))
        return label_of(draft) in made.labels

    def give_back(self, left: int | None) -> None:
        """Return the steps that the last attempt left to the whole search."""
        if left is not None:
            self._steps += left
        elif self._skipped is not None:
            self._steps += budget(self._skipped)
            self._owed.append(self._skipped)

    def exhausted(self) -> bool:
        """Whether the whole search is out of steps; in doubt no, until it matters."""
        if self._steps < 0:
            return True
        if self._steps < sum(budget(draft) for draft in self._owed):
            self._doubt = self._steps
        return False

    def _ended_before(self) -> bool:
        """Settle the doubt, if there is one, by counting the steps of what was left out."""
        if self._doubt is None:
            return False
        steps = self._doubt
        while 0 <= steps < sum(budget(draft) for draft in self._owed):
            # Those with the nearest ways end soonest, and often settle it.
            draft = min(self._owed, key=lambda owed: owed.type_intra)
            self._owed.remove(draft)
            used = budget(draft) - self._count(draft)
            steps -= used
            self._steps -= used
        self._doubt = None
        return steps < 0

    def _count(self, draft: GraphDraft) -> int:
        """The steps left by an attempt that finds nothing better."""
        known = self._known.get(self._what_matters(draft))
        if known is None and any(self._includes(draft, other) for other in self._exhausted):
            return 0
        if known is None:
            unbeatable = draft.copy()
            unbeatable.channels = 1 << 20
            known = self._make(draft, unbeatable)
        return known.left

    def _includes(self, draft: GraphDraft, other: GraphDraft) -> bool:
        """Whether an attempt that finds nothing better tries all that another does, or more.

        It does where its channels ask no more of any link and its ways may be as far.
        """
        alike = [
            (one.pattern, one.same, one.least, one.most, one.hops)
            + ((one.cross_nic, one.type_inter) if self._space.inter else ())
            for one in (draft, other)
        ]
        return (
            alike[0] == alike[1]
            and draft.speed_intra <= other.speed_intra
            and draft.speed_inter <= other.speed_inter
            and draft.type_intra >= other.type_intra
        )

    def _cannot_win(self, draft: GraphDraft, best: GraphDraft) -> bool:
        channels = self._bounds.channels(draft)
        if channels < draft.least:
            return True
        mine = times(channels, draft.speed_intra)
        theirs = to_beat(draft, best, self._space.version.cross_share)
        if mine != theirs:
            return mine < theirs
        if self._space.version.counts_links:
            return False
        if label_of(draft) != label_of(best):
            return True
        return self._bounds.hops(draft, channels) >= best.hops

    def _what_matters(self, draft: GraphDraft) -> tuple[int, ...]:
        """A key: attempts with the same key try the same GPUs and NICs in the same order."""
        space = self._space
        near = nearest_below(space.gpu_types, draft.type_intra)
        common = (draft.same, draft.least, draft.most, draft.hops, draft.speed_intra, near)
        if not space.inter:
            one_tree = draft.pattern == BALANCED_TREE and not space.switched
            return (*common, TREE if one_tree else draft.pattern)
        out = nearest_below(space.net_types, draft.type_inter)
        back = nearest_below(space.back_types, draft.type_inter)
        return (*common, draft.pattern, draft.cross_nic, draft.speed_inter, out, back)


def label_of(draft: GraphDraft) -> Label:
    """What a draft must share with the best graph to win by fewer hops."""
    return draft.pattern, draft.cross_nic


def nearest_below(types: list[int], limit: int) -> int:
    """The farthest type that is within a limit, -1 when none is."""
    return max((kind for kind in types if kind <= limit), default=-1)
