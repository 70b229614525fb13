"""Rails: the NICs of one name on all hosts, and which of them talk to each other."""

from collections.abc import Iterator, Sequence

from .bound import fastest
from .node import HostView
from .records import ChannelEnd, HostRing, HostTree, Rail

Hop = tuple[str, str]
"""Name of the NIC that sends, and of the one that receives."""


def ring_hops(ring: HostRing) -> Iterator[tuple[ChannelEnd, ChannelEnd]]:
    """Each crossing of a ring: where it leaves a node and where it enters the next."""
    for place, stop in enumerate(ring.stops):
        yield stop.sends, ring.stops[(place + 1) % len(ring.stops)].receives


def tree_hops(tree: HostTree) -> Iterator[tuple[ChannelEnd, ChannelEnd]]:
    """Each connection of a tree, the child's end first."""
    for place in tree.places:
        if place.parent is not None and place.up is not None:
            above = tree.places[place.parent]
            yield place.up, above.down[above.children.index(place.node)]


def aligned(rings: Sequence[HostRing], trees: Sequence[HostTree]) -> bool:
    """Whether all crossings join NICs of one name."""
    hops = (hop for ring in rings for hop in ring_hops(ring))
    more = (hop for tree in trees for hop in tree_hops(tree))
    return all(one.nic == other.nic for found in (hops, more) for one, other in found)


def rails(
    kinds: Sequence[HostView],
    rings: Sequence[HostRing],
    trees: Sequence[HostTree],
    missing: Sequence[tuple[int, str]],
) -> tuple[Rail, ...]:
    """A rail for each NIC of a host that lacks none; `kinds`: the domains of that host."""
    by_ring: dict[str, dict[str, None]] = {}
    channels: dict[str, list[int]] = {}
    for ring in rings:
        for one, other in ring_hops(ring):
            by_ring.setdefault(one.nic, {})[other.nic] = None
        for nic in dict.fromkeys(stop.sends.nic for stop in ring.stops):
            channels.setdefault(nic, []).extend(ring.channels)
    by_tree: dict[str, dict[str, None]] = {}
    for tree in trees:
        for one, other in tree_hops(tree):
            by_tree.setdefault(one.nic, {})[other.nic] = None
            by_tree.setdefault(other.nic, {})[one.nic] = None
    names = sorted({(number, name) for kind in kinds for number, name in kind.names.items()})
    return tuple(
        Rail(
            rail=place,
            nic=nic,
            gbs=max(fastest(kind.view.nets, number) for kind in kinds),
            ranks=tuple(
                sorted(
                    kind.places[int(rank)]
                    for kind in kinds
                    for rank, nets in kind.view.local_nets.items()
                    if number in nets
                )
            ),
            ring_channels=tuple(sorted(channels.get(nic, ()))),
            ring_to=tuple(by_ring.get(nic, ())),
            tree_to=tuple(by_tree.get(nic, ())),
            missing_on=tuple(sorted(host for host, name in missing if name == nic)),
        )
        for place, (number, nic) in enumerate(names)
    )
