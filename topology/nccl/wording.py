"""Words for nodes and paths in explanations."""

from __future__ import annotations

from functools import cache

from ..hardware.words import library_words
from .nodes import PathType, SystemNode, SystemPath
from .versions import Version

MEANINGS = {
    PathType.LOC: "the same GPU",
    PathType.NVL: "{link} all the way",
    PathType.NVB: "{link} through another GPU",
    PathType.C2C: "the chip-to-chip link",
    PathType.PIX: "at most one PCIe switch",
    PathType.PXB: "several PCIe switches and no CPU",
    PathType.P2C: "chip-to-chip to the CPU, then PCIe",
    PathType.PXN: "an {link} neighbour that sits next to the NIC",
    PathType.PHB: "PCIe and a CPU's host bridge",
    PathType.SYS: "the link between NUMA nodes",
    PathType.NET: "the network",
    PathType.DIS: "no way",
}
"""Templates of Words."""


def meaning(version: Version, path: PathType) -> str:
    """What a path type says: "PHB, PCIe and a CPU's host bridge"."""
    return _meaning(version.library, path)


@cache
def _meaning(library: str, path: PathType) -> str:
    return library_words(library).say(MEANINGS[path])


def gbs(value: float) -> str:
    """A bandwidth with at most one decimal: "24", "370.8"."""
    return f"{value:.1f}".removesuffix(".0")


def name(node: SystemNode, version: Version) -> str:
    """A node in the words of the field."""
    if node.kind == "GPU":
        return f"GPU {node.rank}"
    if node.kind == "CPU":
        return f"CPU of NUMA node {_numa(node)}" if _numa(node) >= 0 else "CPU"
    if node.kind == "NET":
        return node.name or f"NIC {node.dev}"
    return {"PCI": "PCIe switch", "NVS": "NVSwitch", "NIC": "NIC"}[node.kind]


def way(src: SystemNode, path: SystemPath, version: Version) -> str:
    """The nodes of a path: "GPU 0 - PCIe switch - GPU 1"."""
    return " - ".join([name(src, version), *(name(link.to, version) for link in path.links)])


def narrowest(path: SystemPath, version: Version) -> str:
    """The link that sets the bandwidth: "PCI 24 GB/s"."""
    if not path.links:
        return ""
    link = min(path.links, key=lambda link: link.bandwidth_gbs)
    kind = version.path_names.get(link.kind, link.kind)
    return f"{kind} {gbs(link.bandwidth_gbs)} GB/s"


def _numa(cpu: SystemNode) -> int:
    number = cpu.ident & (1 << 56) - 1
    return -1 if number >> 55 else number
