"""Finds the culprits behind bad looks at pairs: what is shared first, then nodes and links.

A pair accuses both of its ends, so that a suspect is looked at again with a partner that is known
to be good, as Azure's guides do by hand: bad with two partners is the node or its
link, and the first partner is cleared with it. How many looks that takes is `sequential`'s rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .culprits import (
    LINK,
    NODE,
    PATH,
    RECEIVING,
    SENDING,
    Culprit,
    Localisation,
    Suspicion,
    figures,
)
from .fabric import SwitchFabric
from .judging import Judgements
from .sequential import OPEN, SICK, WELL, decided
from .switches import shared
from .tally import TOGETHER, UNFINISHED, BadLook, Tally, tally

LEAST_PARTNERS = 2
NODE_SHARE = 0.6
"""A node is accused instead of its links when at least so many of its rails are bad, and two."""
ONE_WAY_SHARE = 0.9
"""Share of the bad looks in which only one direction is bad, for "sending only"."""


@dataclass(slots=True)
class _Case:
    """One host with the events that nothing else explains."""

    host: str
    events: dict[int, list[BadLook]] = field(default_factory=dict)

    def partners(self, rail: int) -> set[str]:
        return {event.partner(self.host) for event in self.events[rail]}

    @property
    def weight(self) -> tuple[int, int, int]:
        """How much speaks against it: partners, looks, rails."""
        partners = max((len(self.partners(rail)) for rail in self.events), default=0)
        return (
            partners,
            len({e.number for own in self.events.values() for e in own}),
            len(self.events),
        )


def localise(judgements: Judgements, fabric: SwitchFabric) -> Localisation:
    """Name culprits, suspects and what is known to be good."""
    found = tally(judgements)
    answer = shared(found, fabric)
    culprits = list(answer.culprits)
    excused = {(event.number, event.rail) for event in found.events} - {
        (event.number, event.rail) for event in answer.events
    }
    cases = _cases(answer.events)
    settled: list[_Case] = []
    # The heaviest first: what it explains no longer accuses its partners.
    while cases:
        host = max(cases, key=lambda name: (cases[name].weight, name))
        case = cases.pop(host)
        if case.weight[0] < LEAST_PARTNERS:
            cases[host] = case
            break
        proven = {rail for rail in case.events if _verdict(case, rail, found, excused) == SICK}
        proven = {rail for rail in proven if len(case.partners(rail)) >= LEAST_PARTNERS}
        strong = {rail for rail in case.events if len(case.partners(rail)) >= LEAST_PARTNERS}
        settled.append(case)
        culprits += _accused(case, proven, found)
        for rail in strong if not proven else proven | (strong & case.events.keys()):
            for event in case.events[rail]:
                excused.add((event.number, event.rail))
                _drop(cases, event.partner(host), event)
        cases = {name: one for name, one in cases.items() if one.events}
    named = {culprit.hosts[0] for culprit in culprits if culprit.kind in (NODE, LINK)}
    suspects = [
        suspicion
        for case in (*settled, *cases.values())
        if (suspicion := _suspicion(case, found, excused, culprits)) is not None
    ]
    by_host = {case.host: case for case in (*settled, *cases.values())}
    paths = _paths(suspects, by_host, found)
    culprits += paths
    on_paths = {host for culprit in paths for host in culprit.hosts}
    suspects = [suspicion for suspicion in suspects if suspicion.host not in on_paths]
    named = {culprit.hosts[0] for culprit in culprits if culprit.kind in (NODE, LINK)}
    open_below = {host for suspicion in answer.open for host in suspicion.hosts}
    group = {host for culprit in answer.culprits for host in culprit.hosts}
    doubted = named | {suspicion.host for suspicion in suspects} | open_below | group
    return Localisation(
        culprits=tuple(culprits),
        suspects=tuple(sorted(suspects, key=lambda one: one.host)),
        switches=tuple(answer.open),
        good=found.measured - doubted,
    )


def _cases(events: Iterable[BadLook]) -> dict[str, _Case]:
    cases: dict[str, _Case] = {}
    for event in events:
        for host in event.blamed:
            own = cases.setdefault(host, _Case(host)).events
            own.setdefault(event.rail, []).append(event)
    return cases


def _drop(cases: dict[str, _Case], host: str, event: BadLook) -> None:
    """Take an event that is explained away from the other host."""
    case = cases.get(host)
    if case is None or event.rail not in case.events:
        return
    case.events[event.rail] = [one for one in case.events[event.rail] if one is not event]
    if not case.events[event.rail]:
        del case.events[event.rail]


def _counts(case: _Case, rail: int, found: Tally, excused: set[tuple[int, int]]) -> tuple[int, int]:
    """Bad and good looks at one rail of a host, after the first bad one."""
    first = min(event.number for event in case.events[rail])
    bad_numbers = {event.number for event in case.events[rail]}
    bad = good = 0
    for number in found.by_host[case.host]:
        if number <= first or not found.covers(number, rail) or (number, rail) in excused:
            continue
        unfinished = not found.looks[number].look.finished
        if number in bad_numbers:
            bad += 1
        elif not unfinished:
            good += 1
    return bad, good


def _verdict(case: _Case, rail: int, found: Tally, excused: set[tuple[int, int]]) -> str:
    return decided(*_counts(case, rail, found, excused))


def _accused(case: _Case, proven: set[int], found: Tally) -> list[Culprit]:
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


def _fails(case: _Case, rails: Iterable[int]) -> bool:
    return any(event.fails for rail in rails for event in case.events[rail])


def _told(case: _Case, rail: int) -> str:
    events = case.events[rail]
    numbers = {event.number for event in events}
    low = [event.gbs for event in events if event.gbs is not None]
    partners = sorted(case.partners(rail))
    more = f" and {len(partners) - 3} more" if len(partners) > 3 else ""
    shown = f"bad in {len(numbers)} looks with {', '.join(partners[:3])}{more}"
    return f"{shown}, {figures(low)}" if low else shown


def _direction(case: _Case, rail: int) -> str:
    events = [event for event in case.events[rail] if None not in event.senders]
    if not events or len(events) < len(case.events[rail]):
        return ""
    sent = sum(event.senders == {case.host} for event in events)
    received = sum(case.host not in event.senders for event in events)
    for count, word in ((sent, SENDING), (received, RECEIVING)):
        if count >= ONE_WAY_SHARE * len(events):
            return word
    return ""


def _suspicion(
    case: _Case, found: Tally, excused: set[tuple[int, int]], culprits: Iterable[Culprit]
) -> Suspicion | None:
    """What stays open about a host; None where it is accused, acquitted or explained."""
    named = [c for c in culprits if c.kind in (NODE, LINK) and c.hosts == (case.host,)]
    if any(culprit.kind == NODE for culprit in named):
        return None
    accused = {culprit.rail for culprit in named}
    rails = []
    bad = since = bad_since = 0
    for rail in case.events:
        if rail in accused:
            continue
        counts = _counts(case, rail, found, excused - {(e.number, rail) for e in case.events[rail]})
        verdict = decided(*counts)
        if verdict == OPEN or (verdict == SICK and len(case.partners(rail)) < LEAST_PARTNERS):
            rails.append(rail)
            bad = max(bad, len({event.number for event in case.events[rail]}))
            since, bad_since = max(since, sum(counts)), max(bad_since, counts[0])
    if not rails:
        return None
    partners = set[str]().union(*(case.partners(rail) for rail in rails))
    return Suspicion(
        host=case.host,
        rails=tuple(rails),
        bad=bad,
        looks=len(found.by_host[case.host]),
        since=since,
        bad_since=bad_since,
        again=partners.pop() if len(partners) == 1 else "",
    )


def _paths(
    suspects: Iterable[Suspicion], cases: Mapping[str, _Case], found: Tally
) -> list[Culprit]:
    """Pairs that are bad again and again although each end is acquitted by looks with others."""
    again = {suspicion.host: suspicion for suspicion in suspects if suspicion.again}
    answer = []
    for host, suspicion in again.items():
        other = suspicion.again
        if host > other or other not in again or again[other].again != host:
            continue
        numbers = [n for n in found.by_host[host] if other in found.looks[n].look.hosts]
        bad = {e.number for rail in cases[host].events for e in cases[host].events[rail]}
        proven = decided(len(bad) - 1, len(numbers) - len(bad)) == SICK
        if proven and all(_well_with_others(cases[one], found) for one in (host, other)):
            because = f"bad in {len(bad)} of {len(numbers)} looks"
            fails = _fails(cases[host], cases[host].events)
            answer.append(Culprit(PATH, (host, other), because=because, fails=fails))
    return answer


def _well_with_others(case: _Case, found: Tally) -> bool:
    """Whether its looks with all but its one bad partner acquit it."""
    bad = {event.number for events in case.events.values() for event in events}
    partners = set[str]().union(*(case.partners(rail) for rail in case.events))
    first = min(bad)
    good = [
        number
        for number in found.by_host[case.host]
        if number > first
        and found.looks[number].look.finished
        and partners.isdisjoint(found.looks[number].look.hosts)
    ]
    return decided(0, len(good)) == WELL
