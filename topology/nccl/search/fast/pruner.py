"""Attempts that need not be made, and the steps that they would have taken.

Both are exact: an attempt is left out when it cannot change the best graph. How many steps it
would have taken matters only to the budget of the whole search, so it is made after all when
that budget could be at its end.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from ...nodes import GPU, NET, PCIE, SystemLink
from ..draft import BALANCED_TREE, FOUND_ALL, NVLS, RING, TREE, GraphDraft, budget, times, to_beat
from ..ledger import is_dear
from ..space import Carrier, Carriers, SearchSpace, SharedLink

Attempt = Callable[[GraphDraft, GraphDraft], tuple[int, float]]
"""Searches the channels of a draft that beat a graph: (steps left, the widest graph completed)."""

OUT_OF_STEPS = -2
"""In place of the steps left: the whole search had ended before this attempt."""

Label = tuple[int, int]
"""(pattern, NIC crossing): what a graph must share with the best to win by fewer hops."""


# How many channels there can be at most, which spares attempts that cannot matter.
#
# Every channel leaves and enters each GPU once (but for its ends) over a first and a last link;
# what these can carry bounds the count, whatever lies between. So do links that several GPUs share.
# There is no channel at all where the allowed ways leave the GPUs in several groups.
class Bounds:
    """Upper bounds for the channels of a ring or tree."""

    def __init__(self, space: SearchSpace) -> None:
        self._space = space
        self._nics_mbs = Counter(
            round(sum(link.bandwidth_gbs for link in net.links) * 1000) for net in space.nets
        )
        """How many NICs have links that carry so much."""
        speeds, sharing = space.nics.speeds_gbs, space.nics.sharing
        self._ports_gbs = Counter(
            speeds[net]
            for net, same in enumerate(sharing)
            if same[0] == net or speeds[net] != speeds[same[0]]
        )
        """How many ports of NICs are so fast."""

    def channels(self, draft: GraphDraft) -> int:
        """No attempt with this draft completes more channels."""
        if self._space.count == 1:
            return draft.most
        if not self._joined(draft):
            return 0
        out, into, _ = self._carriers(draft.type_intra)
        most = draft.most
        if self._space.inter:
            most = min(most, self._nic_channels(draft), self._tree_channels(draft))
        for carriers in (out, into):
            room = [_room(links, draft.speed_intra) for links in carriers]
            most = self._fitting(room, most, closed=draft.pattern == RING)
        closes = draft.pattern == RING and not self._space.inter
        for narrows in self._narrows(draft.type_intra):
            lanes = [
                (len(one.gpus), _room(Counter([one.link]), draft.speed_intra)) for one in narrows
            ]
            # Only the last GPU of a channel has no way out, and only the first no way in.
            while most and sum(max(0, most * gpus - room) for gpus, room in lanes) > (
                0 if closes else most
            ):
                most -= 1
        return most

    def hops(self, draft: GraphDraft, channels: int) -> int:
        """No attempt completes so many channels with fewer links."""
        closes = draft.pattern == RING and not self._space.inter
        steps = self._space.count - (0 if closes else 1)
        return draft.hops + channels * steps * self._carriers(draft.type_intra)[2]

    def _joined(self, draft: GraphDraft) -> bool:
        """Whether ways that carry one channel lead from any GPU to any other, over others."""
        space, speed = self._space, draft.speed_intra
        near = self._near(draft.type_intra)
        known = space.joined.get((near, speed))
        if known is None:
            reached, apart = [0], set(range(1, space.count))
            while reached and apart:
                gpu = reached.pop()
                found = [
                    other
                    for other in apart
                    if self._carries(gpu, other, near, speed)
                    or self._carries(other, gpu, near, speed)
                ]
                reached += found
                apart.difference_update(found)
            known = space.joined[near, speed] = not apart
        return known

    def _carries(self, gpu: int, other: int, near: int, speed: int) -> bool:
        """Whether the links of a way between GPUs have room for one channel, when all is free."""
        path = self._space.gpus[gpu].paths[GPU][other]
        return path.type <= near and self._space.carries(path, speed)

    def _near(self, farthest: int) -> int:
        return max((kind for kind in self._space.gpu_types if kind <= farthest), default=-1)

    def _narrows(self, farthest: int) -> tuple[list[SharedLink], list[SharedLink]]:
        """Links that all ways out of several GPUs share, and links that all ways in share."""
        near = self._near(farthest)
        known = self._space.narrows.get(near)
        if known is None:
            count = range(self._space.count)
            known = self._space.narrows[near] = (
                self._shared([[(gpu, other) for other in count] for gpu in count], near),
                self._shared([[(other, gpu) for other in count] for gpu in count], near),
            )
        return known

    def _shared(self, sides: list[list[tuple[int, int]]], near: int) -> list[SharedLink]:
        """The narrowest shared links, of which no two are shared by one GPU."""
        gpus = self._space.gpus
        links: dict[int, SystemLink] = {}
        plain: set[int] = set()
        shared: dict[int, set[int]] = {}
        for gpu, ways in enumerate(sides):
            common: set[SystemLink] | None = None
            cheap = False
            for start, end in ways:
                path = gpus[start].paths[GPU][end]
                if start == end or path.type > near or not path.links:
                    continue
                cheap = cheap or not is_dear(path, gpus[start])
                if common is None:
                    common = set(path.links)
                else:
                    common.intersection_update(path.links)
                if not common:
                    break
            for link in common or ():
                links[id(link)] = link
                shared.setdefault(id(link), set()).add(gpu)
                if cheap or link.kind is not PCIE:
                    plain.add(id(link))
        found = [
            SharedLink(frozenset(users), (round(links[key].bandwidth_gbs * 1000), key not in plain))
            for key, users in shared.items()
            if len(users) > 1
        ]
        taken: set[int] = set()
        chosen = []
        for one in sorted(found, key=lambda one: one.link[0] / len(one.gpus)):
            if taken.isdisjoint(one.gpus):
                taken |= one.gpus
                chosen.append(one)
        return chosen

    def _fitting(self, room: list[int], most: int, *, closed: bool) -> int:
        if closed and not self._space.inter:
            return min(most, *room)
        while most and sum(min(channels, most) for channels in room) < most * (len(room) - 1):
            most -= 1
        return most

    def _nic_channels(self, draft: GraphDraft) -> int:
        whole_gbs, speed = draft.speed_inter // 1000, draft.speed_inter
        if not speed:
            return draft.most
        starts = sum(
            count * (int(gbs // whole_gbs) if whole_gbs else draft.most)
            for gbs, count in self._ports_gbs.items()
        )
        lanes = sum(count * (mbs // speed) for mbs, count in self._nics_mbs.items())
        return min(draft.most, starts, lanes)

    def _tree_channels(self, draft: GraphDraft) -> int:
        """Trees whose first GPU, of a balanced one the second too, sends to a GPU and to a NIC."""
        balanced = draft.pattern == BALANCED_TREE
        to_nic = draft.speed_inter // 2 if balanced else draft.speed_inter
        if draft.pattern == RING or not to_nic or not draft.speed_intra:
            return draft.most
        near = self._near(draft.type_intra)
        out = max((kind for kind in self._space.net_types if kind <= draft.type_inter), default=-1)
        known = self._space.leaving.get((near, out))
        if known is None:
            known = self._space.leaving[near, out] = self._leaving(near, out)
        senders = 2 if balanced and self._space.count > 2 else 1
        most = draft.most
        while most and not _send(known, most, draft.speed_intra, to_nic, senders):
            most -= 1
        return most

    def _leaving(self, near: int, out: int) -> Counter[Carrier]:
        """How many GPUs begin their ways to GPUs and to NICs with so many MB/s in all."""
        to_gpus, _, _ = self._carriers(near)
        found: Counter[Carrier] = Counter()
        for gpu in self._space.gpus:
            first = {
                path.links[0]
                for ways, farthest in ((gpu.paths[GPU], near), (gpu.paths[NET], out))
                for path in ways
                if path.links and path.type <= farthest
            }
            mbs = sum(round(link.bandwidth_gbs * 1000) for link in first)
            found[mbs, all(dear for _, dear in to_gpus[gpu.index])] += 1
        return found

    def _carriers(self, farthest: int) -> tuple[Carriers, Carriers, int]:
        near = self._near(farthest)
        known = self._space.carriers.get(near)
        if known is None:
            known = self._space.carriers[near] = self._collect(near)
        return known

    def _collect(self, farthest: int) -> tuple[Carriers, Carriers, int]:
        space = self._space
        out: list[dict[SystemLink, bool]] = [{} for _ in space.gpus]
        into: list[dict[SystemLink, bool]] = [{} for _ in space.gpus]
        fewest = 0
        for gpu in space.gpus:
            leaving = out[gpu.index]
            for other, path in enumerate(gpu.paths[GPU]):
                links = path.links
                if other == gpu.index or path.type > farthest or not links:
                    continue
                if not fewest or len(links) < fewest:
                    fewest = len(links)
                dear = is_dear(path, gpu)
                for side, link in ((leaving, links[0]), (into[other], links[-1])):
                    side[link] = side.get(link, True) and dear and link.kind is PCIE
        return [_counted(side) for side in out], [_counted(side) for side in into], fewest


def _counted(side: dict[SystemLink, bool]) -> Counter[Carrier]:
    return Counter((round(link.bandwidth_gbs * 1000), dear) for link, dear in side.items())


def _send(gpus: Counter[Carrier], channels: int, speed: int, to_nic: int, senders: int) -> bool:
    """Whether so many channels may go on from all GPUs but their last and from some to a NIC.

    `senders`: GPUs of each channel that go to a NIC besides; none is the last.
    """
    lasts, sent, most_more = channels, 0, 0.0
    for (mbs, dear), count in gpus.items():
        onward = speed * 6 // 5 if dear else speed
        # By the channels that a GPU is the last of: those in which it also goes to a NIC.
        beside = [
            min(on, (mbs - onward * on) // to_nic)
            for on in range(channels, -1, -1)
            if mbs >= onward * on
        ]
        lasts -= count * (channels + 1 - len(beside))
        sent += count * beside[0]
        more = ((also - beside[0]) / last for last, also in enumerate(beside) if last)
        most_more = max(most_more, *more, 0.0)
    return lasts >= 0 and sent + lasts * most_more >= channels * senders


def _room(carriers: Counter[Carrier], speed: int) -> int:
    """Channels that fit on all these links together."""
    if not speed:
        return 1 << 20
    return sum(
        count * (mbs // (speed * 6 // 5 if dear else speed))
        for (mbs, dear), count in carriers.items()
    )


@dataclass(slots=True)
class AttemptResult:
    """The result of an attempt."""

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
        wanted_gbs = to_beat(draft, best, self._space.version.cross_share)
        if made.most_gbs != wanted_gbs or not made.most_gbs:
            # Without a whole graph there is nothing that could win by its links or hops either.
            return made.most_gbs <= wanted_gbs
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
        demands = [
            (one.pattern, one.same, one.least, one.most, one.hops)
            + ((one.cross_nic, one.type_inter) if self._space.inter else ())
            for one in (draft, other)
        ]
        return (
            demands[0] == demands[1]
            and draft.speed_intra <= other.speed_intra
            and draft.speed_inter <= other.speed_inter
            and draft.type_intra >= other.type_intra
        )

    def _cannot_win(self, draft: GraphDraft, best: GraphDraft) -> bool:
        channels = self._bounds.channels(draft)
        if channels < draft.least:
            return True
        reachable_gbs = times(channels, draft.speed_intra)
        wanted_gbs = to_beat(draft, best, self._space.version.cross_share)
        if reachable_gbs != wanted_gbs:
            return reachable_gbs < wanted_gbs
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
    """The properties that a draft shares with the best graph where it wins by fewer hops."""
    return draft.pattern, draft.cross_nic


def nearest_below(types: list[int], limit: int) -> int:
    """The farthest type that is within a limit, -1 when none is."""
    return max((kind for kind in types if kind <= limit), default=-1)
