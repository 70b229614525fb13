"""Accuses what many nodes share: a rail of all nodes, a switch, the uplinks of a switch.

One node in a leaf is bad by chance or by itself; most nodes of one leaf are not. Looks across the
border of a switch show that it or its uplinks are bad, looks inside tell which: SuperBench (Xiong
et al., USENIX ATC 2024) and Azure's guide to slow NCCL jobs tell links within a rack from those
between racks the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .culprits import RAIL, SWITCH, UPLINKS, Culprit, SwitchSuspicion
from .fabric import SwitchFabric
from .tally import BadLook, Tally

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
    found = []
    for switch, by_rail in hosts.items():
        bad = set[str]().union(*by_rail.values())
        measured = across.get(switch, bad)
        outside = sum(len(group) for other, group in across.items() if other in peers[switch])
        if len(bad) < max(LEAST_HOSTS, GROUP_SHARE * len(measured)) or outside < LEAST_HOSTS:
            continue
        whole = [r for r, group in by_rail.items() if len(group) >= GROUP_SHARE * len(measured)]
        rail = whole[0] if len(whole) == 1 and whole[0] >= 0 else None
        links = sum(map(len, by_rail.values()))
        if rail is not None and len(by_rail[rail]) < ONE_RAIL_SHARE * links:
            rail = None
        share = round(len(bad) / len(measured), 1)
        group = frozenset(measured)
        found.append(_Group(switch, group, len(bad), share, rail, frozenset(peers[switch])))
    return max(found, key=lambda one: (one.share, one.bad, one.switch), default=None)


def _explain(
    group: _Group,
    answer: Shared,
    found: Tally,
    fabric: SwitchFabric,
    inside: Mapping[str, set[int]],
) -> None:
    """Take away what the group explains, and say which of its parts is accused or open."""
    below = {host for host in found.by_host if group.switch in fabric.above(host)}
    explained = [
        event
        for event in answer.events
        if not below.isdisjoint(event.hosts) and group.rail in (None, event.rail)
    ]
    fails = _fail(explained)
    taken = set(map(id, explained))
    answer.events = [event for event in answer.events if id(event) not in taken]
    rivals = [group.switch]
    if len(group.peers) == 1:
        # All bad looks go between two groups: either may be the cause.
        rivals += sorted(group.peers)
    verdicts = {name: _inside(name, found, inside, group.rail) for name in rivals}
    because = f"{group.bad} of its {len(group.hosts)} measured nodes are bad with nodes elsewhere"
    sick = [name for name, verdict in verdicts.items() if verdict == SWITCH]
    if sick:
        hosts = [host for host in found.by_host if sick[0] in fabric.above(host)]
        because += ", and so are pairs below it"
        answer.events = [e for e in answer.events if set(hosts).isdisjoint(e.hosts)]
        answer.culprits.append(
            Culprit(SWITCH, tuple(hosts), group.rail, sick[0], because=because, fails=fails)
        )
    elif all(verdict == UPLINKS for verdict in verdicts.values()):
        because += "; pairs below it are well"
        name = " or ".join(rivals)
        answer.culprits.append(
            Culprit(UPLINKS, tuple(sorted(below)), group.rail, name, because=because, fails=fails)
        )
    else:
        answer.open.append(SwitchSuspicion(tuple(rivals), tuple(sorted(below)), group.rail))


def _fail(events: Sequence[BadLook]) -> bool:
    """Whether most of these looks did not finish, or brought wrong data."""
    return 2 * sum(event.fails for event in events) > len(events)


def _inside(
    switch: str, found: Tally, inside: Mapping[str, set[int]], rail: int | None
) -> str | None:
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
