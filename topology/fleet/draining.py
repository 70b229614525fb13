"""Lines for the administrator: which nodes to take out of service, and why. Nothing runs them."""

from __future__ import annotations

import re
import shlex

import msgspec

from ..diagnosis.finding import BROKEN, SLOW
from .finding import MISSING, ODD, FleetFinding
from .fleet import Fleet
from .hosts import fold

_WORD = re.compile(r"[^A-Za-z0-9_-]")
_MOST_IDS = 3
_LONGEST_REASON = 100
SEVERE = (BROKEN, MISSING)
SLIGHT = (SLOW, ODD)


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes to be drained for one reason."""

    hosts: tuple[str, ...]
    state: str
    """"broken", "missing", "slow" or "odd"."""
    reason: str
    command: str
    """A line for a shell; names of hosts and the reason hold nothing that a shell obeys."""


def drains(fleet: Fleet, *, slight: bool = False) -> tuple[Drain, ...]:
    """One line for each reason; `slight`: for slow and odd nodes too."""
    found: dict[tuple[str, str], list[str]] = {}
    for host in fleet.hosts_in(*SEVERE, *(SLIGHT if slight else ())):
        state = fleet.states[host]
        found.setdefault((state, _reason(state, fleet.by_host.get(host, ()))), []).append(host)
    return tuple(
        Drain(hosts=tuple(hosts), state=state, reason=reason, command=_command(hosts, reason))
        for (state, reason), hosts in found.items()
    )


def _reason(state: str, findings: tuple[FleetFinding, ...]) -> str:
    if state == MISSING:
        return "gputop: no answer"
    wanted = BROKEN if state == BROKEN else SLOW
    ids = dict.fromkeys(_WORD.sub("-", item.id) for item in findings if item.severity == wanted)
    named = " ".join(list(ids)[:_MOST_IDS]) or state
    return f"gputop: {named}"[:_LONGEST_REASON]


def _command(hosts: list[str], reason: str) -> str:
    # Brackets are a pattern to a shell, so the list is quoted where it has some.
    names = shlex.quote(f"NodeName={fold(hosts)}")
    return f'scontrol update {names} State=DRAIN Reason="{reason}"'
