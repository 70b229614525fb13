"""What pairs of nodes prove, as findings beside those about the nodes themselves."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from ...model.page import Fact, Fix
from ...model.severity import BROKEN, CANNOT_TELL, NOTICE, SLOW
from ..finding import PAIRS, SHARED, FleetFinding, finding
from ..planning.culprits import LINK, NODE, PATH, RAIL, SWITCH, Culprit
from ..planning.links import FleetLinks
from ..record import one_line

_FROM = "measurements of pairs"
_OWN = (NODE, LINK)
"""Kinds of culprits that are part of one node."""
_WAITS = "A collective over all nodes goes at the pace of the slowest link."
_STOPS = "A job over these nodes hangs, ends or computes with wrong data."


def accused(links: FleetLinks, folder: str) -> Iterator[FleetFinding]:
    """The findings; `folder`: where the pairs' files lie."""
    again = Fix(
        text="Measure it once more with other partners",
        command=f"gputop fleet plan {shlex.quote(folder)}",
    )
    kinds: dict[tuple[object, ...], list[Culprit]] = {}
    for culprit in links.found.culprits:
        # Of parts that several nodes share each is a finding of its own.
        own = () if culprit.kind in _OWN else (culprit.switch, culprit.hosts)
        key = (culprit.kind, culprit.rail, culprit.direction, culprit.fails, *own)
        kinds.setdefault(key, []).append(culprit)
    for members in kinds.values():
        yield _culprits(members, again)
    yield from _wrong(links, again)
    yield from _open(links, again)


def _culprits(members: list[Culprit], again: Fix) -> FleetFinding:
    first = members[0]
    is_own = first.kind in _OWN
    return finding(
        f"net-{first.kind}",
        BROKEN if first.fails else SLOW,
        PAIRS if is_own else SHARED,
        _title(first),
        {host for culprit in members for host in culprit.hosts},
        evidence=[
            Fact(
                what=culprit.hosts[0] if is_own else culprit.said,
                value=culprit.because,
                source=_FROM,
            )
            for culprit in members
        ],
        disproof="looks with other partners that are well",
        impact=_STOPS if first.fails else _WAITS,
        fix=[again],
    )


def _title(culprit: Culprit) -> str:
    """What is wrong, without the name of a node that has it."""
    rail = "" if culprit.rail is None else f"rail {culprit.rail}"
    one_way = f", {culprit.direction} only" if culprit.direction else ""
    bad = "measurements do not finish, or data arrives wrong" if culprit.fails else "too slow"
    if culprit.kind == NODE:
        return f"between nodes, with several partners: {bad}"
    if culprit.kind == LINK:
        return f"between nodes, {rail} (NIC, cable or switch port){one_way}: {bad}"
    if culprit.kind == SWITCH:
        at = f" {rail}," if rail else ""
        return f"switch {culprit.switch},{at} or what the nodes below it share: {bad}"
    if culprit.kind == RAIL:
        return f"{rail} of all nodes, its switches or how its NICs are set up: {bad}"
    if culprit.kind == PATH:
        return f"the path between these two, which are well with others: {bad}"
    return f"{culprit.said}: {bad}"


def _wrong(links: FleetLinks, again: Fix) -> Iterator[FleetFinding]:
    """Wrong data between nodes of which none is accused."""
    named = {host for culprit in links.found.culprits for host in culprit.hosts}
    pairs = [hosts for hosts in links.wrong if named.isdisjoint(hosts)]
    if pairs:
        yield finding(
            "net-wrong-data",
            BROKEN,
            SHARED,
            "data arrived wrong between them; which of them is to blame is not known",
            {host for hosts in pairs for host in hosts},
            evidence=[
                Fact(what=" and ".join(hosts), value="wrong data", source=_FROM) for hosts in pairs
            ],
            disproof="looks with other partners that are well",
            impact=_STOPS,
            fix=[again],
        )


def _open(links: FleetLinks, again: Fix) -> Iterator[FleetFinding]:
    """What is not decided: nobody is accused, and nobody is called healthy."""
    found = links.found
    if found.suspects:
        yield finding(
            "net-suspect",
            CANNOT_TELL,
            PAIRS,
            "bad between nodes; whether it or its partner is to blame is not known",
            (one.host for one in found.suspects),
            evidence=[
                Fact(what=one.host, value=f"bad in {one.bad} of {one.looks} looks", source=_FROM)
                for one in found.suspects
            ],
            impact="More looks tell who is to blame.",
            fix=[again],
        )
    for switch in found.switches:
        rail = "" if switch.rail is None else f", rail {switch.rail}"
        yield finding(
            "net-suspect-switch",
            CANNOT_TELL,
            SHARED,
            f"switch {' or '.join(switch.switches)}{rail}, or its uplinks: bad with others",
            switch.hosts,
            impact="Pairs below the switch tell it from its uplinks.",
            fix=[again],
        )
    for look in links.wide:
        yield finding(
            "net-unfinished",
            CANNOT_TELL,
            SHARED,
            f"a measurement of {len(look.hosts)} nodes {look.status}: "
            f"{one_line(look.why or 'no reason given', 200)}",
            look.hosts,
            impact="Pairs of them tell who is to blame.",
        )
    if links.doubts:
        yield _doubts(links.doubts, undecided=links.undecided)


def _doubts(doubts: Iterable[str], *, undecided: bool) -> FleetFinding:
    first, *more = doubts
    return finding(
        "net-doubt",
        CANNOT_TELL if undecided else NOTICE,
        SHARED,
        f"figures between nodes: {first}",
        (),
        evidence=[Fact(what="doubt", value=text, source=_FROM) for text in more],
        impact="These figures neither accuse nor acquit anybody.",
    )
