"""What is left of every link, in one whole number; taking a path is one subtraction.

Every link has a field of bits in the number, in MB/s, with a guard bit on top. A path is a
number too: the speed in the fields of its links. After the subtraction a cleared guard bit
says that a link had too little. As numbers do not change, going back is free.

NCCL keeps 32-bit floats and rounds them to MB/s after each step (search.cc:SUB_ROUND). Whole
MB/s give the same answers: every speed it tries is one, also halved, doubled, an eighth or
with six fifths for PCI, and each compares in 32 bits as it does here (tests check that).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..nodes import PathType, System, SystemLink, SystemNode, SystemPath


@dataclass(slots=True, frozen=True)
class Route:
    """A path as the search sees it: unit numbers over the links."""

    type: int
    hops: int
    plain: int
    """Links that carry the speed itself."""
    dear: int
    """PCI links of GPUs that meet inside an Intel CPU: six fifths (INTEL_P2P_OVERHEAD)."""
    eighth: int
    """Ways back from an old GPU, which carry an eighth of what comes in."""

    def need(self, speed: int) -> int:
        """What the path takes at a speed in MB/s."""
        need = self.plain * speed
        if self.dear:
            need += self.dear * (speed * 6 // 5)
        if self.eighth:
            need += self.eighth * (speed // 8)
        return need


class Ledger:
    """The fields of the links that the given kinds of paths use."""

    def __init__(self, system: System, *, nets: bool, switches: bool) -> None:
        links: dict[int, SystemLink] = {}
        for path in _paths(system, nets=nets, switches=switches):
            for link in path.links:
                links[id(link)] = link
        self._back = _ways_back(system, links) if _needs_ways_back(system) else {}
        for link in self._back.values():
            links[id(link)] = link
        left = [round(link.bandwidth_gbs * 1000) for link in links.values()]
        width = max(21, max(left, default=0).bit_length() + 1)
        self._unit = {key: 1 << width * place for place, key in enumerate(links)}
        self._most = (1 << width - 1) - 1
        # Written as binary digits, as sums of such numbers would be squares of their length.
        guard = 1 << width - 1
        self.guard = int(f"{guard:b}" * len(left) or "0", 2)
        """All guard bits."""
        self.full = int("".join(f"{guard + one:b}" for one in reversed(left)) or "0", 2)
        """Nothing taken yet."""

    def mask(self, links: Iterable[SystemLink]) -> int:
        """The fields of the given links, as far as they are in the ledger."""
        return sum(self._most * self._unit.get(id(link), 0) for link in links)

    def units(self, links: Iterable[SystemLink]) -> int:
        """A unit in the field of each of these links, which are all in the ledger."""
        return sum(self._unit[id(link)] for link in links)

    def whole_gbs(self, state: int, link: SystemLink) -> int:
        """What a state leaves of a link, in whole GB/s; links outside never change."""
        unit = self._unit.get(id(link))
        if unit is None:
            return int(link.bandwidth_gbs)
        return (state >> unit.bit_length() - 1 & self._most) // 1000

    def route(self, path: SystemPath, start: SystemNode) -> Route:
        """A path out of `start` (search.cc:followPath)."""
        plain = dear = eighth = 0
        overhead = start.kind == "GPU" and path.type is PathType.PHB and _meets_intel(path)
        for link in path.links:
            unit = self._unit[id(link)]
            if overhead and link.kind == "PCI":
                dear += unit
            else:
                plain += unit
            back = self._back.get(id(link))
            if back is None:
                continue
            if link.to.kind == "GPU" and link.to.sm < 80 and start.kind != "GPU":
                eighth += self._unit[id(back)]
            if link.to.kind == "CPU" and link.to.arch == "power" and link.kind == "NVL":
                plain += self._unit[id(back)]
        return Route(int(path.type), path.hops, plain, dear, eighth)


def _paths(system: System, *, nets: bool, switches: bool) -> Iterable[SystemPath]:
    for gpu in system.nodes["GPU"]:
        yield from gpu.paths.get("GPU", ())
        if nets:
            yield from gpu.paths.get("NET", ())
        if switches:
            yield from gpu.paths.get("NVS", ())
    for net in system.nodes["NET"] if nets else ():
        yield from net.paths.get("GPU", ())
    for switch in system.nodes["NVS"] if switches else ():
        yield from switch.paths.get("GPU", ())


def _needs_ways_back(system: System) -> bool:
    return system.min_sm < 80 or any(cpu.arch == "power" for cpu in system.nodes["CPU"])


def _ways_back(system: System, links: dict[int, SystemLink]) -> dict[int, SystemLink]:
    """The other direction of each link: same ends, same kind (search.cc:findRevLink)."""
    found: dict[int, SystemLink] = {}
    for nodes in system.nodes.values():
        for node in nodes:
            for link in node.links:
                if id(link) not in links:
                    continue
                back = next(
                    (one for one in link.to.links if one.to is node and one.kind == link.kind), None
                )
                if back is not None:
                    found[id(link)] = back
    return found


def _meets_intel(path: SystemPath) -> bool:
    return any(
        link.to.kind == "CPU" and link.to.arch == "x86" and link.to.vendor == "intel"
        for link in path.links
    )
