"""A fleet in one line, and the signs of its nodes."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.terminal.clean import clean
from gputop.topology.fleet.finding import HEALTHY, SHARED, FleetFinding
from gputop.topology.fleet.fleet import Fleet
from gputop.topology.model.severity import BROKEN, CANNOT_TELL, SLOW, NodeState, Verdict

ORDER = (NodeState.MISSING, NodeState.BROKEN, *list(NodeState)[2:-1])
_SHARED = {BROKEN: "broken", SLOW: "slow", CANNOT_TELL: "not known to be well"}


def verdict_line(fleet: Fleet) -> str:
    """The answer in one line."""
    sign, _ = fleet.verdict.shown[:2]
    total = len(fleet.hosts)
    if not total:
        return f"{sign} cannot tell: no node has written into {clean(fleet.folder, 200)}"
    bad = [
        f"{count} {state.word}" for state, count in fleet.counts.items()
        if count and state != HEALTHY
    ]  # fmt: skip
    nodes = f"{total} node{'s' * (total != 1)}"
    healthy = fleet.counts[HEALTHY]
    if not bad:
        shared = _shared(fleet)
        unread = not shared and fleet.verdict is not Verdict.HEALTHY
        doubt = ", and not every file could be read" if unread else shared
        return f"{sign} {nodes} healthy{doubt}{_asked(fleet)}"
    first = bad[0].split(" ", 1)
    head = f"{first[0]} of {nodes} {first[1]}"
    return f"{sign} {', '.join([head, *bad[1:]])}; {healthy} healthy{_shared(fleet)}{_asked(fleet)}"


def by_state(fleet: Fleet) -> list[tuple[NodeState, tuple[str, ...]]]:
    """The nodes that are not healthy, state by state, first those that say nothing themselves."""
    named = [(state, tuple(fleet.hosts_in(state))) for state in ORDER]
    return [(state, hosts) for state, hosts in named if hosts]


def sign_of(fleet: Fleet, hosts: Sequence[str], item: FleetFinding) -> str:
    """The sign of a finding: that of its nodes, where they are odd and nothing worse."""
    odd = item.severity.counts and {fleet.states.get(host) for host in hosts} == {NodeState.ODD}
    return NodeState.ODD.sign if odd else item.severity.sign


def _shared(fleet: Fleet) -> str:
    """What joins the nodes, where pairs found it bad."""
    found = {item.severity for item in fleet.findings if item.scope is SHARED}
    for severity, word in _SHARED.items():
        if severity in found:
            return f"; what joins the nodes is {word}"
    return ""


def _asked(fleet: Fleet) -> str:
    return "" if fleet.expected else "; --nodes LIST would tell which are missing"
