"""What changed between two readings of a fleet."""

from __future__ import annotations

import msgspec

from ..model.severity import NodeState
from .finding import HEALTHY, FleetFinding
from .fleet import Fleet
from .hosts import in_order


class HostChange(msgspec.Struct, frozen=True, kw_only=True):
    """One node whose state is another one."""

    host: str
    before: NodeState | None
    """None where the node was not known."""
    now: NodeState | None
    """None where it is no longer known."""


class FleetChange(msgspec.Struct, frozen=True, kw_only=True):
    """The difference between two fleets."""

    worse: tuple[HostChange, ...] = ()
    """Nodes that were healthy or not known, and are not healthy; healthy ones that are gone."""
    better: tuple[HostChange, ...] = ()
    """Nodes that were not healthy and are."""
    other: tuple[HostChange, ...] = ()
    came: tuple[FleetFinding, ...] = ()
    """Findings that the earlier fleet does not have for some of their hosts; with those hosts."""
    gone: tuple[FleetFinding, ...] = ()
    """Findings that this fleet does not have for some hosts of the earlier one."""


def changed(before: Fleet, now: Fleet) -> FleetChange:
    """What is different now."""
    worse, better, other = [], [], []
    for host in in_order((*before.hosts, *now.hosts)):
        old, new = before.states.get(host), now.states.get(host)
        if old == new:
            continue
        change = HostChange(host=host, before=old, now=new)
        if (new not in (HEALTHY, None) and old in (HEALTHY, None)) or (
            new is None and old == HEALTHY
        ):
            worse.append(change)
        elif new == HEALTHY and old not in (HEALTHY, None):
            better.append(change)
        else:
            other.append(change)
    return FleetChange(
        worse=tuple(worse),
        better=tuple(better),
        other=tuple(other),
        came=tuple(_lacking(now, before)),
        gone=tuple(_lacking(before, now)),
    )


def _lacking(has: Fleet, lacks: Fleet) -> list[FleetFinding]:
    """Findings of one fleet with the hosts for which the other does not have them."""
    known = {(item.id, host) for item in lacks.findings for host in item.hosts or ("",)}
    found = []
    for item in has.findings:
        if not item.hosts and (item.id, "") not in known:
            found.append(item)
        hosts = tuple(host for host in item.hosts if (item.id, host) not in known)
        if hosts:
            found.append(msgspec.structs.replace(item, hosts=hosts))
    return found
