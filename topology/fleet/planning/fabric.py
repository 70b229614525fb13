"""The network between nodes: which leaf switch a node hangs on, and what stands above it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ...model.gathered import gathered

MOST_LEVELS = 16
"""More switches above each other are a circle, or no network."""


@dataclass(frozen=True, slots=True)
class SwitchFabric:
    """Leaf switches, the switches above them, and where that was read."""

    source: str = ""
    """What was read: a path; "" where nothing is known."""
    leaf_of: Mapping[str, str] = field(default_factory=dict)
    """Host -> its leaf switch, or its block where a file lists blocks."""
    parent_of: Mapping[str, str] = field(default_factory=dict)
    """Switch -> the switch above it."""
    word: str = "leaf"
    """What a group of hosts is called, for people; a file may list blocks."""
    assumption: str = ""
    """Why the leaves may be wrong, as a sentence; "" where a file names them."""

    def leaf(self, host: str) -> str | None:
        """The leaf switch of a host; None where it is unknown."""
        return self.leaf_of.get(host)

    def above(self, host: str) -> Iterator[str]:
        """Every switch above a host, the nearest first."""
        switch = self.leaf_of.get(host)
        while switch is not None:
            yield switch
            switch = self.parent_of.get(switch)

    def distance(self, first: str, second: str) -> int | None:
        """Levels up to the first switch that both hosts share: 1 is one leaf; None is unknown.

        Hosts that share none are farther apart than any that do.
        """
        one, other = self.leaf_of.get(first), self.leaf_of.get(second)
        if one is None or other is None:
            return None
        if one == other:
            return 1
        others = set(self.above(second))
        for level, switch in enumerate(self.above(first), 1):
            if switch in others:
                return level
        return MOST_LEVELS + 1

    def below(self, hosts: Iterable[str]) -> dict[str, list[str]]:
        """Every switch -> those of these hosts that are below it."""
        return gathered((switch, host) for host in hosts for switch in self.above(host))


def fabric_of(
    source: str,
    nodes: Mapping[str, Iterable[str]],
    children: Mapping[str, Iterable[str]],
    word: str = "leaf",
) -> SwitchFabric:
    """A network from the nodes and the switches below each switch; ValueError where it is no tree.

    A switch may have nodes and switches below it, as Slurm allows.
    """
    leaf_of: dict[str, str] = {}
    for switch, hosts in nodes.items():
        for host in hosts:
            other = leaf_of.setdefault(host, switch)
            if other != switch:
                raise ValueError(f"{host} hangs on two switches, {other} and {switch}")
    parent_of: dict[str, str] = {}
    for switch, lower in children.items():
        for child in lower:
            other = parent_of.setdefault(child, switch)
            if other != switch:
                raise ValueError(f"switch {child} is below two switches, {other} and {switch}")
    for switch in parent_of:
        _climb(switch, parent_of)
    if not leaf_of:
        raise ValueError("names no node below any switch")
    return SwitchFabric(source=source, leaf_of=leaf_of, parent_of=parent_of, word=word)


def _climb(switch: str, parent_of: Mapping[str, str]) -> None:
    """Raise ValueError where the switches above this one never end."""
    above: str | None = switch
    for _ in range(MOST_LEVELS):
        above = parent_of.get(above) if above is not None else None
        if above is None:
            return
    raise ValueError(f"switch {switch} has more than {MOST_LEVELS} switches above it, or a circle")
