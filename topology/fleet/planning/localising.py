"""Finds the culprits behind bad looks at pairs: what is shared first, then nodes and links.

A pair accuses both of its ends, so that a suspect is looked at again with a partner that is known
to be good, as Azure's guides do by hand: bad with two partners is the node or its
link, and the first partner is cleared with it. How many looks that takes is `sequential`'s rule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ...model.english import first
from .culprits import (
    LINK,
    NODE,
    PATH,
    RAIL,
    SWITCH,
    UPLINKS,
    Culprit,
    CulpritKind,
    Direction,
    Localisation,
    Suspicion,
    SwitchSuspicion,
    figures,
)
from .fabric import SwitchFabric
from .judging import TOGETHER, UNFINISHED, BadLook, Judgements, Tally, tally
from .sequential import OPEN, SICK, WELL, decided

LEAST_PARTNERS = 2
NODE_SHARE = 0.6
"""A node is accused instead of its links when at least so many of its rails are bad, and two."""
ONE_WAY_SHARE = 0.9
"""Share of the bad looks in which only one direction is bad, for "sending only"."""

# Accuses what many nodes share: a rail of all nodes, a switch, the uplinks of a switch.
#
# One node in a leaf is bad by chance or by itself; most nodes of one leaf are not. Looks across the
# border of a switch show that it or its uplinks are bad, looks inside tell which: SuperBench (Xiong
# et al., USENIX ATC 2024) and Azure's guide to slow NCCL jobs tell links within a rack from those
# between racks the same way.
GROUP_SHARE = 0.6
"""A group is suspected when at least this share of its hosts is bad with hosts outside."""
LEAST_HOSTS = 3
ONE_RAIL_SHARE = 0.75
"""One rail of a switch is accused instead of the switch when so many of the bad links are its."""
RAIL_SHARE, OTHERS_SHARE = 0.8, 0.6
"""A rail is accused when at least so many of all pairs are bad on it, and fewer on any other."""
LEAST_PAIRS = 6
INSIDE_BAD, INSIDE_GOOD = 0.5, 0.2
"""Share of pairs inside a switch that are bad: from here on the switch is, up to here its uplinks
are."""
LEAST_INSIDE = 2


@dataclass(slots=True)
class Shared:
    """What groups explain, and the events that are left."""

    events: list[BadLook]
    culprits: list[Culprit] = field(default_factory=list)
    open: list[SwitchSuspicion] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Group:
    """A switch that explains events."""

    switch: str
    hosts: frozenset[str]
    bad: int
    share: float
    rail: int | None
    peers: frozenset[str]
    """The switches of the same level to which its bad looks went."""


def shared(found: Tally, fabric: SwitchFabric) -> Shared:
    """Explain events by what many hosts share, the best explanation first."""
    answer = Shared(events=list(found.events))
    for rail in _bad_rails(found):
        events = [event for event in answer.events if event.rail == rail]
        bad = {event.hosts for event in events}
        because = f"{len(bad)} pairs are bad on it, and few on other rails"
        answer.culprits.append(Culprit(RAIL, rail=rail, because=because, fails=_fail(events)))
        answer.events = [event for event in answer.events if event.rail != rail]
    if not fabric.leaf_of:
        return answer
    across, inside = found.groups(fabric)
    while True:
        group = _best(answer.events, across, fabric)
        if group is None:
            return answer
        _explain(group, answer, found, fabric, inside)


def _bad_rails(found: Tally) -> list[int]:
    """Rails on which nearly all pairs are bad, while the others are well."""
    pairs = {judged.look.hosts for judged in found.looks if judged.rails}
    if len(pairs) < LEAST_PAIRS or len(found.rails) < 2:
        return []
    bad: dict[int, set[tuple[str, str]]] = {}
    for event in found.events:
        bad.setdefault(event.rail, set()).add(event.hosts)
    shares = {rail: len(bad.get(rail, ())) / len(pairs) for rail in found.rails}
    high = [rail for rail, share in shares.items() if share >= RAIL_SHARE]
    rest = [share for rail, share in shares.items() if rail not in high]
    return sorted(high) if rest and max(rest) < OTHERS_SHARE else []


def _best(
    events: Iterable[BadLook], across: Mapping[str, set[str]], fabric: SwitchFabric
) -> _Group | None:
    """The switch with the largest share of bad hosts; of equal ones the largest."""
    hosts: dict[str, dict[int, set[str]]] = {}
    peers: dict[str, set[str]] = {}
    for event in events:
        chains = {host: tuple(fabric.above(host)) for host in event.hosts}
        for host in event.blamed:
            others = chains[event.partner(host)]
            own = chains[host]
            for level, switch in enumerate(own):
                if switch in others:
                    break
                hosts.setdefault(switch, {}).setdefault(event.rail, set()).add(host)
                if level < len(others):
                    peers.setdefault(switch, set()).add(others[level])
    found = [
        group
        for switch, by_rail in hosts.items()
        if (group := _group(switch, by_rail, across, peers.get(switch, set()))) is not None
    ]
    return max(found, key=lambda one: (one.share, one.bad, one.switch), default=None)


def _group(
    switch: str,
    by_rail: Mapping[int, set[str]],
    across: Mapping[str, set[str]],
    peers: set[str],
) -> _Group | None:
    """A switch with enough bad hosts below it; `by_rail`: these hosts by their rails."""
    bad = set[str]().union(*by_rail.values())
    measured = across.get(switch, bad)
    least = GROUP_SHARE * len(measured)
    outside = sum(len(hosts) for other, hosts in across.items() if other in peers)
    if len(bad) < max(LEAST_HOSTS, least) or outside < LEAST_HOSTS:
        return None
    whole = [rail for rail, hosts in by_rail.items() if len(hosts) >= least]
    rail = whole[0] if len(whole) == 1 and whole[0] >= 0 else None
    if rail is not None and len(by_rail[rail]) < ONE_RAIL_SHARE * sum(map(len, by_rail.values())):
        rail = None
    share = round(len(bad) / len(measured), 1)
    return _Group(switch, frozenset(measured), len(bad), share, rail, frozenset(peers))


def _explain(
    group: _Group,
    answer: Shared,
    found: Tally,
    fabric: SwitchFabric,
    inside: Mapping[str, set[int]],
) -> None:
    """Take away what the group explains, and say which of its parts is accused or open."""
    below = found.below(group.switch, fabric)
    explained = {
        event
        for event in answer.events
        if not set(below).isdisjoint(event.hosts) and group.rail in (None, event.rail)
    }
    fails = _fail(explained)
    answer.events = [event for event in answer.events if event not in explained]
    # Where all bad looks go between two groups, either may be the cause.
    rivals = [group.switch, *(group.peers if len(group.peers) == 1 else ())]
    verdicts = {name: _inside(name, found, inside, group.rail) for name in rivals}
    because = f"{group.bad} of its {len(group.hosts)} measured nodes are bad with nodes elsewhere"
    sick = next((name for name, verdict in verdicts.items() if verdict is SWITCH), None)
    name = " or ".join(rivals)
    if sick is not None:
        kind, name, below = SWITCH, sick, found.below(sick, fabric)
        because += ", and so are pairs below it"
        answer.events = [e for e in answer.events if set(below).isdisjoint(e.hosts)]
    elif set(verdicts.values()) == {UPLINKS}:
        kind, below = UPLINKS, tuple(sorted(below))
        because += "; pairs below it are well"
    else:
        answer.open.append(SwitchSuspicion(tuple(rivals), tuple(sorted(below)), group.rail))
        return
    answer.culprits.append(Culprit(kind, below, group.rail, name, because=because, fails=fails))


def _fail(events: Collection[BadLook]) -> bool:
    """Whether most of these looks did not finish, or brought wrong data."""
    return 2 * sum(event.fails for event in events) > len(events)


def _inside(
    switch: str, found: Tally, inside: Mapping[str, set[int]], rail: int | None
) -> CulpritKind | None:
    """What the pairs below a switch say: SWITCH, UPLINKS, or None where it stays open."""
    numbers = inside.get(switch, set())
    bad_numbers = {event.number for event in found.events if rail in (None, event.rail)}
    pairs: dict[tuple[str, ...], bool] = {}
    for number in numbers:
        pair = tuple(sorted(found.looks[number].look.hosts))
        pairs[pair] = pairs.get(pair, False) or number in bad_numbers
    if len(pairs) < LEAST_INSIDE:
        return None
    share = sum(pairs.values()) / len(pairs)
    return SWITCH if share >= INSIDE_BAD else UPLINKS if share <= INSIDE_GOOD else None


@dataclass(slots=True)
class _HostRecord:
    """One host with the events that nothing else explains."""

    host: str
    events: dict[int, list[BadLook]] = field(default_factory=dict)

    def partners(self, *rails: int) -> set[str]:
        return {event.partner(self.host) for rail in rails for event in self.events[rail]}

    def looks(self, rail: int) -> int:
        return len({event.number for event in self.events[rail]})

    @property
    def numbers(self) -> set[int]:
        return {event.number for own in self.events.values() for event in own}

    @property
    def weight(self) -> tuple[int, int, int]:
        """How much speaks against it: partners, looks, rails."""
        partners = max((len(self.partners(rail)) for rail in self.events), default=0)
        return partners, len(self.numbers), len(self.events)


def localise(judgements: Judgements, fabric: SwitchFabric) -> Localisation:
    """Name culprits, suspects and what is known to be good."""
    found = tally(judgements)
    answer = shared(found, fabric)
    excused = {event.place for event in found.events} - {event.place for event in answer.events}
    cases = _cases(answer.events)
    culprits = [*answer.culprits, *_accuse(cases, found, excused)]
    suspects = [
        suspicion
        for case in cases.values()
        if (suspicion := _suspicion(case, found, excused, culprits)) is not None
    ]
    paths = _paths(suspects, cases, found)
    on_paths = _hosts(paths)
    suspects = [suspicion for suspicion in suspects if suspicion.host not in on_paths]
    doubted = _hosts(culprits) | _hosts(answer.open)
    return Localisation(
        culprits=(*culprits, *paths),
        suspects=tuple(sorted(suspects, key=lambda one: one.host)),
        switches=tuple(answer.open),
        good=found.measured - doubted - {suspicion.host for suspicion in suspects},
    )


def _hosts(parts: Iterable[Culprit | SwitchSuspicion]) -> set[str]:
    return {host for part in parts for host in part.hosts}


def _accuse(
    cases: Mapping[str, _HostRecord], found: Tally, excused: set[tuple[int, int]]
) -> Iterator[Culprit]:
    """Settle the cases, the heaviest first: what it explains no longer accuses its partners."""
    left = dict(cases)
    while left:
        host = max(left, key=lambda name: (left[name].weight, name))
        case = left.pop(host)
        if case.weight[0] < LEAST_PARTNERS:
            return
        strong = {r for r in case.events if len(case.partners(r)) >= LEAST_PARTNERS}
        proven = {r for r in strong if decided(*_counts(case, r, found, excused)) == SICK}
        yield from _accused(case, proven, found)
        for event in (event for rail in strong for event in case.events[rail]):
            excused.add(event.place)
            _drop(left, event.partner(host), event)
        left = {name: one for name, one in left.items() if one.events}


def _cases(events: Iterable[BadLook]) -> dict[str, _HostRecord]:
    cases: dict[str, _HostRecord] = {}
    for event in events:
        for host in event.blamed:
            own = cases.setdefault(host, _HostRecord(host)).events
            own.setdefault(event.rail, []).append(event)
    return cases


def _drop(cases: dict[str, _HostRecord], host: str, event: BadLook) -> None:
    """Take an event that is explained away from the other host."""
    case = cases.get(host)
    if case is None or event.rail not in case.events:
        return
    case.events[event.rail] = [one for one in case.events[event.rail] if one is not event]
    if not case.events[event.rail]:
        del case.events[event.rail]


def _counts(
    case: _HostRecord, rail: int, found: Tally, excused: set[tuple[int, int]]
) -> tuple[int, int]:
    """Bad and good looks at one rail of a host, after the first bad one."""
    bad_numbers = {event.number for event in case.events[rail]}
    start = min(bad_numbers)
    bad = good = 0
    for number in found.by_host[case.host]:
        if number <= start or not found.covers(number, rail) or (number, rail) in excused:
            continue
        if number in bad_numbers:
            bad += 1
        else:
            good += found.looks[number].look.finished
    return bad, good


def _accused(case: _HostRecord, proven: set[int], found: Tally) -> list[Culprit]:
    """One culprit for the node, or one for each of its links."""
    if not proven:
        return []
    host = case.host
    whole = proven & {UNFINISHED, TOGETHER}
    links = proven - {UNFINISHED, TOGETHER}
    rails = {
        rail
        for number in found.by_host[host]
        for rail in found.looks[number].rails
        if rail is not None
    }
    if whole or len(links) >= max(2, NODE_SHARE * len(rails)) or len(rails) == 1:
        words = {UNFINISHED: "no result", TOGETHER: "all rails at once"}
        what = ", ".join(words[rail] for rail in sorted(whole)) or f"{len(links)} rails"
        because = f"{what}: {_told(case, min(proven))}"
        return [Culprit(NODE, (host,), because=because, fails=_fails(case, proven))]
    return [
        Culprit(
            LINK,
            (host,),
            rail,
            direction=_direction(case, rail),
            because=_told(case, rail),
            fails=_fails(case, {rail}),
        )
        for rail in sorted(links)
    ]


def _fails(case: _HostRecord, rails: Iterable[int]) -> bool:
    return any(event.fails for rail in rails for event in case.events[rail])


def _told(case: _HostRecord, rail: int) -> str:
    events = case.events[rail]
    low = [event.gbs for event in events if event.gbs is not None]
    shown = f"bad in {case.looks(rail)} looks with {first(sorted(case.partners(rail)), 3)}"
    return f"{shown}, {figures(low)}" if low else shown


def _direction(case: _HostRecord, rail: int) -> Direction | None:
    events = [event for event in case.events[rail] if None not in event.senders]
    if not events or len(events) < len(case.events[rail]):
        return None
    sent = sum(event.senders == {case.host} for event in events)
    received = sum(case.host not in event.senders for event in events)
    for count, word in ((sent, Direction.SENDING), (received, Direction.RECEIVING)):
        if count >= ONE_WAY_SHARE * len(events):
            return word
    return None


def _suspicion(
    case: _HostRecord, found: Tally, excused: set[tuple[int, int]], culprits: Iterable[Culprit]
) -> Suspicion | None:
    """What stays open about a host; None where it is accused, acquitted or explained."""
    accused = {c.rail for c in culprits if c.kind in (NODE, LINK) and c.hosts == (case.host,)}
    if None in accused:  # the node as a whole
        return None
    counted = {
        rail: _counts(case, rail, found, excused - {event.place for event in case.events[rail]})
        for rail in case.events
        if rail not in accused
    }
    rails = {rail: counts for rail, counts in counted.items() if _is_open(case, rail, counts)}
    if not rails:
        return None
    partners = case.partners(*rails)
    return Suspicion(
        host=case.host,
        rails=tuple(rails),
        bad=max(map(case.looks, rails)),
        looks=len(found.by_host[case.host]),
        since=max(map(sum, rails.values())),
        bad_since=max(rails.values())[0],
        again=partners.pop() if len(partners) == 1 else "",
    )


def _is_open(case: _HostRecord, rail: int, counts: tuple[int, int]) -> bool:
    verdict = decided(*counts)
    return verdict == OPEN or (verdict == SICK and len(case.partners(rail)) < LEAST_PARTNERS)


def _paths(
    suspects: Iterable[Suspicion], cases: Mapping[str, _HostRecord], found: Tally
) -> list[Culprit]:
    """Pairs that are bad again and again although each end is acquitted by looks with others."""
    again = {suspicion.host: suspicion for suspicion in suspects if suspicion.again}
    answer = []
    for host, suspicion in again.items():
        other = suspicion.again
        if host > other or other not in again or again[other].again != host:
            continue
        numbers = [n for n in found.by_host[host] if other in found.looks[n].look.hosts]
        bad = cases[host].numbers
        proven = decided(len(bad) - 1, len(numbers) - len(bad)) == SICK
        if proven and all(_well_with_others(cases[one], found) for one in (host, other)):
            because = f"bad in {len(bad)} of {len(numbers)} looks"
            fails = _fails(cases[host], cases[host].events)
            answer.append(Culprit(PATH, (host, other), because=because, fails=fails))
    return answer


def _well_with_others(case: _HostRecord, found: Tally) -> bool:
    """Whether its looks with all but its one bad partner acquit it."""
    partners, start = case.partners(*case.events), min(case.numbers)
    good = [
        number
        for number in found.by_host[case.host]
        if number > start
        and found.looks[number].look.finished
        and partners.isdisjoint(found.looks[number].look.hosts)
    ]
    return decided(0, len(good)) == WELL
