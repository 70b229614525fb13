"""What the looks accuse, as records and as sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...model.severity import Word
from ..hosts import fold


class CulpritKind(Word):
    """What is bad."""

    NODE = "node"
    LINK = "link"
    """The NIC, cable or switch port of one rail."""
    SWITCH = "switch"
    UPLINKS = "uplinks"
    RAIL = "rail"
    PATH = "path"
    AT_SCALE = "only at scale"


class Direction(Word):
    """The way in which alone it is bad."""

    SENDING = "sending"
    RECEIVING = "receiving"


NODE, LINK, SWITCH = CulpritKind.NODE, CulpritKind.LINK, CulpritKind.SWITCH
UPLINKS, RAIL, PATH = CulpritKind.UPLINKS, CulpritKind.RAIL, CulpritKind.PATH
AT_SCALE = CulpritKind.AT_SCALE
_SAID = {
    NODE: "node {host}",
    LINK: "{host}, {rail}: its NIC, cable or switch port{one_way}",
    SWITCH: "switch {switch}{on_rail}, or something that the nodes below it share: {hosts}",
    UPLINKS: "uplinks of switch {switch}{on_rail}",
    RAIL: "{rail} of all nodes: its switches, or how its NICs are set up",
    PATH: "the path between {ends}: each is well with others",
    AT_SCALE: "node {hosts}, in larger jobs only",
}


@dataclass(frozen=True, slots=True)
class Culprit:
    """The smallest set of parts that explains bad looks."""

    kind: CulpritKind
    hosts: tuple[str, ...] = ()
    """The host; the hosts at the ends of a path; those below a switch."""
    rail: int | None = None
    switch: str = ""
    """Its name; "a or b" where these looks cannot tell two switches apart."""
    direction: Direction | None = None
    fails: bool = False
    """Whether looks at it do not finish, or data arrives wrong; else it is slow."""
    because: str = ""
    """The counts and figures behind it."""

    @property
    def said(self) -> str:
        """What it is, for people."""
        rail = "" if self.rail is None else f"rail {self.rail}"
        return _SAID[self.kind].format(
            host=self.hosts[0] if self.hosts else "",
            hosts=fold(self.hosts),
            ends=" and ".join(self.hosts),
            rail=rail,
            on_rail=f", {rail}" if rail else "",
            switch=self.switch,
            one_way=f", {self.direction} only" if self.direction else "",
        )


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
