"""Lines for the administrator: which nodes to take out of service, and why. Nothing runs them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

import msgspec

from ..model.copied import may_stand
from ..model.finding import JOB, RAS_ANSWER
from ..model.severity import NodeState, Severity
from .finding import MISSING, FleetFinding
from .fleet import Fleet
from .hosts import fold

_WORD = re.compile(r"[^A-Za-z0-9_-]")
_MOST_IDS = 3
_LONGEST_REASON = 100
_LONGEST_LIST = 30_000
"""Letters; Linux takes 128 KiB for one word of a command."""
SEVERE = (NodeState.BROKEN, NodeState.MISSING)
SLIGHT = (NodeState.SLOW, NodeState.ODD)
OF_JOBS = frozenset({JOB, RAS_ANSWER})
"""Findings about a job, after whose end its node has nothing wrong."""


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes to be drained for one reason."""

    hosts: tuple[str, ...]
    state: NodeState
    reason: str
    command: str
    """A line for a shell; "" for nodes with a name that none can hold."""


def drains(fleet: Fleet, *, slight: bool = False) -> tuple[Drain, ...]:
    """One line for each reason; `slight`: for slow and odd nodes too."""
    found: dict[tuple[NodeState, str], list[str]] = {}
    for host in fleet.hosts_in(*SEVERE, *(SLIGHT if slight else ())):
        state = fleet.states[host]
        if _by_job_alone(state, fleet.by_host.get(host, ())):
            continue  # a job that hangs is ended; its node has nothing wrong
        found.setdefault((state, _reason(state, fleet.by_host.get(host, ()))), []).append(host)
    return tuple(
        Drain(hosts=part, state=state, reason=reason, command=_command(part, reason))
        for (state, reason), hosts in found.items()
        for whole in (True, False)
        for part in _parts(tuple(host for host in hosts if may_stand(host, "name") is whole))
    )


def _parts(hosts: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The hosts in as few parts as a line of a shell takes."""
    if len(hosts) < 2 or len(fold(hosts)) <= _LONGEST_LIST:
        yield from (hosts,) * bool(hosts)
        return
    half = len(hosts) // 2
    yield from _parts(hosts[:half])
    yield from _parts(hosts[half:])


def _wanted(state: NodeState) -> Severity:
    return Severity.BROKEN if state is NodeState.BROKEN else Severity.SLOW


def _by_job_alone(state: NodeState, findings: tuple[FleetFinding, ...]) -> bool:
    found = {item.id for item in findings if item.severity == _wanted(state)}
    return bool(found) and found <= OF_JOBS


def _reason(state: NodeState, findings: tuple[FleetFinding, ...]) -> str:
    if state == MISSING:
        return "gputop: no answer"
    wanted = _wanted(state)
    ids = dict.fromkeys(_WORD.sub("-", item.id) for item in findings if item.severity == wanted)
    named = " ".join(list(ids)[:_MOST_IDS]) or state
    return f"gputop: {named}"[:_LONGEST_REASON]


def _command(hosts: Sequence[str], reason: str) -> str:
    if not all(may_stand(host, "name") for host in hosts):
        return ""
    # Brackets are a pattern to a shell, so the list is quoted where it has some.
    names = shlex.quote(f"NodeName={fold(hosts)}")
    return f'scontrol update {names} State=DRAIN Reason="{reason}"'
