"""What the looks accuse, as records and as sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..hosts import fold

NODE, LINK, SWITCH, UPLINKS = "node", "link", "switch", "uplinks"
RAIL, PATH, AT_SCALE = "rail", "path", "only at scale"
SENDING, RECEIVING = "sending", "receiving"


@dataclass(frozen=True, slots=True)
class Culprit:
    """The smallest set of parts that explains bad looks."""

    kind: str
    """NODE, LINK (NIC, cable or switch port of one rail), SWITCH, UPLINKS, RAIL, PATH, AT_SCALE."""
    hosts: tuple[str, ...] = ()
    """The host; the hosts at the ends of a path; those below a switch."""
    rail: int | None = None
    switch: str = ""
    """Its name; "a or b" where these looks cannot tell two switches apart."""
    direction: str = ""
    """SENDING or RECEIVING where only this one is bad."""
    fails: bool = False
    """Whether looks at it do not finish, or data arrives wrong; else it is slow."""
    because: str = ""
    """The counts and figures behind it."""

    @property
    def said(self) -> str:
        """What it is, for people."""
        rail = "" if self.rail is None else f"rail {self.rail}"
        one_way = f", {self.direction} only" if self.direction else ""
        host = self.hosts[0] if self.hosts else ""
        if self.kind == NODE:
            return f"node {host}"
        if self.kind == LINK:
            return f"{host}, {rail}: its NIC, cable or switch port{one_way}"
        if self.kind == SWITCH:
            what = f"switch {self.switch}" + (f", {rail}" if rail else "")
            return f"{what}, or something that the nodes below it share: {fold(self.hosts)}"
        if self.kind == UPLINKS:
            return f"uplinks of switch {self.switch}" + (f", {rail}" if rail else "")
        if self.kind == RAIL:
            return f"{rail} of all nodes: its switches, or how its NICs are set up"
        if self.kind == PATH:
            return f"the path between {' and '.join(self.hosts)}: each is well with others"
        return f"node {fold(self.hosts)}, in larger jobs only"


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A host that bad looks may accuse, and what was seen of it so far."""

    host: str
    rails: tuple[int, ...]
    """Rails that were bad, as the tally numbers them."""
    bad: int
    """Bad looks that nothing else explains."""
    looks: int
    """All looks at it."""
    since: int = 0
    """Looks after the first bad one."""
    bad_since: int = 0
    """Bad ones of these."""
    again: str = ""
    """The one partner with whom it was bad; "" for several."""


@dataclass(frozen=True, slots=True)
class SwitchSuspicion:
    """A switch whose nodes are bad with others; looks inside it tell it from its uplinks."""

    switches: tuple[str, ...]
    """One, or two that these looks cannot tell apart."""
    hosts: tuple[str, ...]
    """Those below, measured so far."""
    rail: int | None = None


@dataclass(frozen=True, slots=True)
class Localisation:
    """All that the looks at pairs prove and leave open."""

    culprits: tuple[Culprit, ...] = ()
    suspects: tuple[Suspicion, ...] = ()
    switches: tuple[SwitchSuspicion, ...] = ()
    good: frozenset[str] = frozenset()
    """Hosts that were measured and that nothing accuses."""


def figures(values: Sequence[float]) -> str:
    """The middle of some figures with its unit."""
    if not values:
        return "no figure"
    return f"{sorted(values)[len(values) // 2]:.3g} GB/s"
