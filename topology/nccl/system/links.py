"""How links are joined and ordered (graph/topo.cc:ncclTopoConnectNodes, ncclTopoSort)."""

from __future__ import annotations

from ..nodes import LinkKind, SystemLink, SystemNode


def connect(
    node: SystemNode, to: SystemNode, kind: LinkKind, gbs: float, *, first: bool = False
) -> None:
    """Add a one-way link, or add bandwidth to an existing one; the widest links come first.

    `first`: there is none of this kind yet.
    """
    links = node.links
    place = len(links)
    if not first:
        known = (i for i, link in enumerate(links) if link.to is to and link.kind == kind)
        place = next(known, place)
    if place == len(links):
        links.append(SystemLink(kind, 0.0, to))
    link = links[place]
    link.bandwidth_gbs += gbs
    while place and links[place - 1].bandwidth_gbs < link.bandwidth_gbs:
        links[place] = links[place - 1]
        place -= 1
    links[place] = link


def cpu_above(node: SystemNode, came_from: SystemNode | None) -> SystemNode | None:
    """The CPU above a device, up the PCI links (graph/topo.cc:findLocalCpu)."""
    if node.kind == "CPU":
        return node
    for link in node.links:
        if link.kind == "PCI" and link.to is not came_from and link.to.kind in ("PCI", "CPU"):
            found = cpu_above(link.to, node)
            if found is not None:
                return found
    return None


def circles(node: SystemNode, *, switches_only: bool, above: tuple[SystemNode, ...] = ()) -> bool:
    """Whether the search for the CPU above a device comes back to a node that it left.

    It takes the first PCI link of each node, downwards too, to switches and CPUs only or to devices
    as well, and ends at a CPU (graph/topo.cc:findLocalCpu up to 2.25).
    """
    kinds = ("PCI", "CPU") if switches_only else ("PCI", "CPU", "GPU", "NIC")
    for link in node.links:
        if link.kind == "PCI" and link.to.kind in kinds:
            if link.to.kind == "CPU":
                return False
            below = (*above, node)
            return link.to in below or circles(link.to, switches_only=switches_only, above=below)
    return False


def parents_last(
    node: SystemNode, parent: SystemNode | None, above: tuple[SystemNode, ...] = ()
) -> bool:
    """Move the link upwards behind all others; the search tries links in order.

    False where PCI links lead round in a circle, which the library would follow for ever.
    """
    if node in above:
        return False
    if parent is not None:
        place = next(i for i, link in enumerate(node.links) if link.to is parent)
        node.links.append(node.links.pop(place))
    return all(
        parents_last(link.to, node, (*above, node))
        for link in list(node.links)
        if link.kind == "PCI" and link.to is not parent
    )
