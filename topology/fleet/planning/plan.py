"""The next round: which pairs or sets of nodes to measure, what that costs, what is proven so far.

A plan is made of the results alone: the same results give the same plan, whoever asks. Published
practice that it follows: SuperBench (Xiong et al., USENIX ATC 2024; its ib-validation runs pairs of
every distance), the inter-host tests of MegaScale (Jiang et al., NSDI 2024), and Azure's guide to
slow NCCL jobs (bad nodes next to good ones, bisection of larger sets).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...model.severity import Mark
from ..hosts import in_order
from .culprits import NODE, Culprit, Localisation, Suspicion, SwitchSuspicion
from .fabric import SwitchFabric
from .judging import Judgements, judge
from .localising import localise
from .looks import ABSENT, NO_FILE, NetLook
from .pairing import LEAF, Before, Pair, paired, with_good
from .sets import SetRound, next_sets

ROUNDS = 2
"""Rounds in which every node is measured, each time with another partner."""
SUSPECT_LOOKS = 7
"""Looks at a suspect in one round: two such rounds acquit it, one accuses what is always bad."""
CONTROL_LOOKS = 2
MOST_CONTROLS = 16
"""Pairs inside one switch that are looked at to tell it from its uplinks."""
MOST_LOOKS = 100
"""A suspect that is still open after so many looks stays so."""
LOOK_SECONDS = 20.0
"""How long a look at a pair takes, start of the processes included; an assumption, to be given."""


class PlanVerdict(Mark):
    """What a plan comes to, with the exit code of `gputop fleet plan`."""

    MORE = "round", "", "", "", 1
    """This round is to be run."""
    FOUND = "found", "", "", "", 2
    """Culprits are named, and nothing is open."""
    CLEAR = "clear", "", "", "", 0
    """Nothing is wrong that these rounds can show."""
    CANNOT_TELL = "cannot tell", "", "", "", 3


MORE, CLEAR, FOUND = PlanVerdict.MORE, PlanVerdict.CLEAR, PlanVerdict.FOUND
CANNOT_TELL = PlanVerdict.CANNOT_TELL


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What somebody wants to be planned."""

    hosts: tuple[str, ...]
    fabric: SwitchFabric = field(default_factory=SwitchFabric)
    strategy: str = LEAF
    rounds: int = ROUNDS
    looks: int = 1
    """Looks at each pair of the rounds that measure everybody."""
    scale: bool = False
    """Whether sets of nodes are planned instead of pairs."""
    healthy_gbs: float | None = None
    look_seconds: float = LOOK_SECONDS
    kinds: Mapping[str, str] = field(default_factory=dict)
    """Host -> its hardware, where it is known; unlike hosts are not compared."""


@dataclass(frozen=True, slots=True)
class PlannedPair:
    """Two hosts to look at, and why."""

    first: str
    second: str
    looks: int
    why: str


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """One round, and what the earlier ones proved."""

    number: int
    verdict: PlanVerdict
    wish: PlanRequest
    pairs: tuple[PlannedPair, ...] = ()
    sets: tuple[tuple[str, ...], ...] = ()
    idle: tuple[str, ...] = ()
    """Hosts that this round leaves alone."""
    found: Localisation = field(default_factory=Localisation)
    candidates: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    measured: int = 0
    """Looks that are there."""

    @property
    def culprits(self) -> tuple[Culprit, ...]:
        """What is accused."""
        return self.found.culprits

    @property
    def node_seconds(self) -> float:
        """What this round takes of the nodes."""
        looks = sum(2 * pair.looks for pair in self.pairs) + sum(map(len, self.sets))
        return looks * self.wish.look_seconds

    @property
    def seconds(self) -> float:
        """How long this round takes where all its pairs run at the same time."""
        longest = max((pair.looks for pair in self.pairs), default=1 if self.sets else 0)
        return longest * self.wish.look_seconds

    @property
    def expected(self) -> tuple[int, float]:
        """Rounds, and their node-seconds, that remain where nothing more is suspected."""
        wish = self.wish
        if wish.scale:
            return (1 if self.sets else 0), self.node_seconds
        left = max(wish.rounds - self.number, 0) if self.pairs else 0
        whole = len(wish.hosts) // 2 * 2 * wish.looks * wish.look_seconds
        return left + bool(self.pairs), self.node_seconds + left * whole


def plan(wish: PlanRequest, looks: Sequence[NetLook], last_round: int = 0) -> FleetPlan:
    """Plan the next round from all looks; `last_round` is the highest number planned so far."""
    number = 1 + max([last_round, *(look.round or 0 for look in looks)])
    known = set(wish.hosts)
    inside = [look for look in looks if known.issuperset(look.hosts)]
    judgements = judge(inside, wish.fabric, wish.kinds, wish.healthy_gbs)
    found = localise(judgements, wish.fabric)
    if wish.scale:
        return _scaled(wish, number, found, inside, judgements)
    partners: dict[str, set[str]] = {}
    for look in inside:
        if len(look.hosts) == 2:
            first, second = look.hosts
            partners.setdefault(first, set()).add(second)
            partners.setdefault(second, set()).add(first)
    round_ = _NextRound(wish, found, partners, number)
    pairs, stuck = round_.pairs, round_.stuck
    control = witness(
        [(pair.first, pair.second) for pair in pairs],
        inside, found.good, wish.fabric, partners, number,
    )  # fmt: skip
    if control is not None:
        pairs.append(PlannedPair(*control, 1, "known to be good: shows that the round ran"))
    busy = {host for pair in pairs for host in (pair.first, pair.second)}
    doubts = [*judgements.doubts, *stuck]
    if found.suspects and len(found.suspects) > len(known) / 2 and not found.good:
        doubts.append("every node is suspected, and none is known to be good")
    unmeasured = known - found.good - _doubted(found)
    verdict = _verdict(found, bool(pairs), bool(stuck) or bool(unmeasured and not pairs))
    return FleetPlan(
        number=number,
        verdict=verdict,
        wish=wish,
        pairs=tuple(pairs),
        idle=tuple(in_order(known - busy)) if pairs else (),
        found=found,
        doubts=tuple(doubts),
        measured=len(inside),
    )


def _verdict(found: Localisation, more: bool, unsure: bool) -> PlanVerdict:
    if more:
        return MORE
    if found.culprits:
        return FOUND
    return CANNOT_TELL if unsure or found.suspects or found.switches else CLEAR


def _doubted(found: Localisation) -> set[str]:
    """Hosts that a culprit or a suspicion names."""
    return {
        *(host for culprit in found.culprits for host in culprit.hosts),
        *(suspicion.host for suspicion in found.suspects),
        *(host for suspicion in found.switches for host in suspicion.hosts),
    }


class _NextRound:
    """The pairs of the next round as they are chosen: each host in one of them at most."""

    def __init__(
        self, wish: PlanRequest, found: Localisation, partners: Before, number: int
    ) -> None:
        self._wish, self._found, self._partners, self._number = wish, found, partners, number
        self.pairs: list[PlannedPair] = []
        self.stuck: list[str] = []
        """Why something stays open, in sentences."""
        self._busy: set[str] = set()
        self._suspects()
        for switch in found.switches:
            self._switch(switch)
        self._rest()

    def _add(self, pairs: Iterable[PlannedPair]) -> None:
        for pair in pairs:
            self.pairs.append(pair)
            self._busy |= {pair.first, pair.second}

    def _paired(self, hosts: list[str]) -> tuple[list[Pair], list[str]]:
        wish = self._wish
        pairs, left = paired(hosts, wish.fabric, wish.strategy, self._partners, self._number)
        return list(pairs), list(left)

    def _with_good(self, hosts: Sequence[str], good: Collection[str]) -> list[Pair]:
        return list(with_good(hosts, good, self._wish.fabric, self._partners, self._number))

    def _suspects(self) -> None:
        """Suspects with a good node each; without one, with another partner than before."""
        there = [one for one in self._found.suspects if one.host in self._wish.hosts]
        self.stuck += [
            f"{one.host} stays a suspect after {one.looks} looks"
            for one in self._found.suspects
            if one.looks >= MOST_LOOKS
        ]
        suspects = [one for one in there if one.looks < MOST_LOOKS]
        self._add(_together(suspects))
        bad = {one.host: one.bad for one in suspects if one.host not in self._busy}
        chosen = self._with_good(list(bad), self._found.good - self._busy)
        self._add(
            PlannedPair(
                suspect,
                other,
                SUSPECT_LOOKS,
                f"{suspect} was bad in {bad[suspect]} looks; {other} is known to be good",
            )
            for suspect, other in chosen
        )
        if bad and not chosen:
            why = "no partner is known to be good: another partner than before"
            self._add(PlannedPair(*pair, SUSPECT_LOOKS, why) for pair in self._paired(list(bad))[0])

    def _switch(self, switch: SwitchSuspicion) -> None:
        """Pairs below a switch, to tell it from its uplinks."""
        controls = _controls(switch, self._wish, self._partners, self._number)
        self.pairs += [one for one in controls if not self._busy & {one.first, one.second}]
        ends = {host for one in controls for host in (one.first, one.second)}
        self._busy |= ends.union(switch.hosts)
        if not controls:
            name = " or ".join(switch.switches)
            self.stuck.append(f"too few nodes below {name} to tell it from its uplinks")

    def _rest(self) -> None:
        """Pairs of those that too few rounds measured; one left over gets a good node."""
        wish, partners = self._wish, self._partners
        apart = self._busy | _accused(self._found)
        rest = [
            host
            for host in wish.hosts
            if host not in apart and len(partners.get(host, ())) < wish.rounds
        ]
        pairs, left = self._paired(rest)
        fresh = [pair for pair in pairs if pair[1] not in partners.get(pair[0], ())]
        matched = {host for pair in fresh for host in pair}
        stale = [host for pair in pairs for host in pair if host not in matched]
        few = len(fresh) + len(stale) < len(wish.hosts) // 4 or wish.strategy != LEAF
        if few and self._number > 1:
            # Few are left: any good node will do as a partner.
            spare = self._found.good - self._busy - matched - set(rest)
            fresh += self._with_good([*left, *stale], spare)
        self._add(PlannedPair(*pair, wish.looks, _why(*pair, wish.fabric)) for pair in fresh)


def _accused(found: Localisation) -> set[str]:
    """Hosts that are bad as a whole, and those below a bad switch."""
    whole = [culprit for culprit in found.culprits if culprit.switch or culprit.kind is NODE]
    return {host for culprit in whole for host in culprit.hosts}


def _why(first: str, second: str, fabric: SwitchFabric) -> str:
    one, other = fabric.leaf(first), fabric.leaf(second)
    if one is None or other is None:
        return "to measure both"
    return f"within {one}" if one == other else f"across {one} and {other}"


def _together(suspects: Iterable[Suspicion]) -> list[PlannedPair]:
    """Two suspects that are well with others since: the pair itself again."""
    clean = {
        one.host: one for one in suspects if one.again and one.since >= SUSPECT_LOOKS
        and one.bad_since == 0
    }  # fmt: skip
    return [
        PlannedPair(
            host, one.again, SUSPECT_LOOKS, "bad together once, and both well with others since"
        )
        for host, one in clean.items()
        if host < one.again and one.again in clean and clean[one.again].again == host
    ]


def _controls(
    switch: SwitchSuspicion, wish: PlanRequest, partners: Before, number: int
) -> list[PlannedPair]:
    """Pairs below a switch, to tell it from its uplinks."""
    below = wish.fabric.below(wish.hosts)
    pairs: list[Pair] = []
    for name in switch.switches:
        pairs += paired(below.get(name, ()), wish.fabric, LEAF, partners, number)[0][:MOST_CONTROLS]
    why = f"below {' or '.join(switch.switches)}, whose nodes are bad with others"
    return [PlannedPair(first, second, CONTROL_LOOKS, why) for first, second in pairs]


def _scaled(
    wish: PlanRequest,
    number: int,
    found: Localisation,
    looks: Sequence[NetLook],
    judgements: Judgements,
) -> FleetPlan:
    """The next round of sets, without the nodes that pairs accuse or suspect."""
    hosts = set(wish.hosts) - _doubted(found)
    round_: SetRound = next_sets(looks, hosts)
    both = Localisation(
        culprits=(*found.culprits, *round_.culprits), suspects=found.suspects, good=found.good
    )
    doubts = [*judgements.doubts, *([round_.stuck] if round_.stuck else [])]
    busy = {host for one in round_.sets for host in one}
    return FleetPlan(
        number=number,
        verdict=_verdict(both, bool(round_.sets), bool(round_.stuck)),
        wish=wish,
        sets=round_.sets,
        idle=tuple(in_order(set(wish.hosts) - busy)) if round_.sets else (),
        found=both,
        candidates=round_.candidates,
        doubts=tuple(doubts),
        measured=len(looks),
    )


# A pair that must answer: without one, a round of which no file came proves nothing.
def witness(
    pairs: Iterable[Pair],
    looks: Iterable[NetLook],
    good: Collection[str],
    fabric: SwitchFabric,
    before: Before,
    seed: int,
) -> Pair | None:
    """Two nodes known to be good, where each pair of a round has a node that left no file before.

    A launcher that did not start and a round of dead nodes look the same: no file. None where
    some other pair of the round will answer, or where fewer than two good nodes are free.
    """
    planned = list(pairs)
    silent = {
        host
        for look in looks
        if look.status == ABSENT and look.why == NO_FILE
        for host in look.hosts
    } - set(good)
    if not planned or not all(silent.intersection(pair) for pair in planned):
        return None
    free = in_order(set(good).difference(*planned))
    if len(free) < 2:
        return None
    # Partners may meet again: whether the round ran is asked, not how fast they are.
    return next(iter(with_good(free[:1], free[1:], fabric, before, seed)), (free[0], free[1]))
