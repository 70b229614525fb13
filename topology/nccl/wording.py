"""Words for nodes and paths in explanations."""

from functools import cache

from ..hardware.terms import library_terms
from .nodes import CPU, GPU, NET, NIC, NVS, PCI, LinkKind, PathType, SystemNode, SystemPath
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
"""Templates of VendorTerms."""


def meaning(version: Version, path: PathType) -> str:
    """The meaning of a path type: "PHB, PCIe and a CPU's host bridge"."""
    return _meaning(version.library, path)


@cache
def _meaning(library: str, path: PathType) -> str:
    return library_terms(library).fill(MEANINGS[path])


def gbs(value: float) -> str:
    """A bandwidth with at most one decimal, two below 10: "24", "370.8", "1.25"."""
    return (
        f"{value:.1f}".removesuffix(".0") if value >= 10 else f"{value:.2f}".rstrip("0").rstrip(".")
    )


def message_size(size_bytes: int) -> str:
    """A size as "4 MiB"; one that is no whole number of a unit stays in bytes."""
    for unit, step in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= step and size_bytes % step == 0:
            return f"{size_bytes // step} {unit}"
    return f"{size_bytes} B"


def name(node: SystemNode, version: Version) -> str:
    """A node in the words of the field."""
    if node.kind is GPU:
        return f"GPU {node.rank}"
    if node.kind is CPU:
        return f"CPU of NUMA node {_numa(node)}" if _numa(node) >= 0 else "CPU"
    if node.kind is NET:
        return node.name or f"NIC {node.dev}"
    return {PCI: "PCIe switch", NVS: "NVSwitch", NIC: "NIC"}[node.kind]


class PathWords:
    """Puts the paths of one system in words; keeps the words that many paths share."""

    def __init__(self, version: Version) -> None:
        self._version = version
        self.types = [version.name_of(kind) for kind in PathType]
        """By path type, as the library prints it."""
        self._names: dict[int, str] = {}
        self._links: dict[tuple[LinkKind, float], str] = {}

    def way(self, src: SystemNode, path: SystemPath) -> str:
        """The nodes of a path: "GPU 0 - PCIe switch - GPU 1"."""
        known = self._names
        try:
            return " - ".join([known[id(src)], *[known[id(link.to)] for link in path.links]])
        except KeyError:
            for node in (src, *(link.to for link in path.links)):
                known[id(node)] = name(node, self._version)
            return self.way(src, path)

    def narrowest(self, path: SystemPath) -> str:
        """The link that sets the bandwidth: "PCI 24 GB/s"."""
        if not path.links:
            return ""
        least = path.links[0]
        for link in path.links:
            if link.bandwidth_gbs < least.bandwidth_gbs:
                least = link
        key = least.kind, least.bandwidth_gbs
        words = self._links.get(key)
        if words is None:
            kind = self._version.path_names.get(least.kind, least.kind)
            words = self._links[key] = f"{kind} {gbs(least.bandwidth_gbs)} GB/s"
        return words


def _numa(cpu: SystemNode) -> int:
    number = cpu.ident & (1 << 56) - 1
    return -1 if number >> 55 else number
