"""Topologies that the library refuses for their size, before it makes any node of them.

Source: graph/xml.cc:xmlLoadSub with its handlers for each element; graph/xml.h:xmlAddNode.
"""

from ...model.element import Element
from ..versions import Version

_INSIDE: dict[str, tuple[str, ...]] = {
    "system": ("cpu",),
    "cpu": ("pci", "nic"),
    "pci": ("pci", "gpu", "nic", "pcilink"),
    "gpu": ("nvlink", "xgmi", "c2c"),
    "nic": ("net",),
}
"""What the library keeps of the children of an element; it skips all others."""


def too_large(root: Element, version: Version) -> str | None:
    """The library's own error about a topology file; None where it reads it.

    Over several hosts of one NVLink domain it puts their files together, with room for each GPU's.
    """
    elements = 0
    hosts: set[str | None] = set()
    gpus = 0
    waiting = [root]
    while waiting:
        element = waiting.pop()
        elements += 1
        inside = _INSIDE.get(element.tag, ())
        kept = [child for child in element.children if child.tag in inside]
        if len(kept) > version.most_children:
            return f"XML parser is limited to {version.most_children} subnodes"
        if element.tag == "cpu":
            hosts.add(element.get("host_hash"))
        gpus += element.tag == "gpu"
        waiting += kept
    several = gpus if len(hosts) > 1 and version.mnnvl else 1
    if elements >= version.most_elements * max(1, several):
        return f"XML parser is limited to {version.most_elements} nodes"
    return None
