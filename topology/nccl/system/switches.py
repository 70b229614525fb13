"""Broadcom switches that are one chip but show as two levels (graph/topo.cc:getBcmGen)."""

from __future__ import annotations

from ..nodes import System, SystemLink, SystemNode
from ..versions import Version

GEN4 = 0x1000C0101000A000
GEN5 = 0x1000C03010000000


def generation(device: int, level: int, version: Version) -> int:
    """4 or 5 for such a switch at that level (0 parent, 1 child), else 0."""
    family = device & 0xFFFFFFFFFFFFF000
    if family == GEN4:
        return 4
    return 5 if version.pex_gen5 and family == GEN5 | level << 12 else 0


def flatten_switches(system: System, version: Version) -> None:
    """Dissolve child switches into their parent: GPUs under them become PIX, not PXB."""
    done: set[int] = set()
    while True:
        parent = next(
            (
                node
                for node in system.nodes["PCI"]
                if id(node) not in done and generation(node.device, 0, version)
            ),
            None,
        )
        if parent is None:
            return
        _absorb(system, parent, version)
        # The library marks the parent with an id that no longer matches.
        parent.device |= 0xFFFF
        done.add(id(parent))


def _absorb(system: System, parent: SystemNode, version: Version) -> None:
    gen = generation(parent.device, 0, version)
    children = [
        link.to
        for link in parent.links
        if link.to.kind == "PCI"
        and generation(link.to.device, 1, version) == gen
        and (version.pex_gen5 or link.to.device == parent.device)
    ]
    parent.links = [link for link in parent.links if link.to not in children]
    for child in children:
        for link in child.links:
            if link.to is parent:
                continue
            parent.links.append(SystemLink(link.kind, link.bandwidth_gbs, link.to))
            back = next((back_link for back_link in link.to.links if back_link.to is child), None)
            if back is not None:
                back.to = parent
        system.remove(child)
