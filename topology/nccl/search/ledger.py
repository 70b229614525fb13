"""A ledger of what channels take of every link, in one number; taking a path is one addition.

Every link that a search has looked at has a field of bits in the number, in MB/s, with a guard bit
on top. A path is a number too: the speed in the fields of its links. When what is taken is
subtracted from what there is, a cleared guard bit says that a link has too little. As numbers do
not change, going back is free. A link gets its field when it is first needed.

NCCL keeps 32-bit floats and rounds them to MB/s after each step (search.cc:SUB_ROUND). Whole
MB/s give the same answers: every speed it tries is one, also halved, doubled, an eighth or
with six fifths for PCI, and each compares in 32 bits as it does here (tests check that).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from ..nodes import (
    CPU,
    GPU,
    NET,
    NVLINK,
    NVS,
    PCIE,
    CpuArch,
    CpuVendor,
    PathType,
    System,
    SystemLink,
    SystemNode,
    SystemPath,
)

Carried = tuple[list[SystemLink], list[SystemLink], list[SystemLink]]
"""Links as they stand in a Route."""


@dataclass(slots=True, frozen=True)
class Route:
    """The places of a path's links in the ledger."""

    plain: tuple[int, ...]
    """Links that carry the speed itself."""
    dear: tuple[int, ...]
    """PCI links of GPUs that meet inside an Intel CPU: six fifths (INTEL_P2P_OVERHEAD)."""
    eighth: tuple[int, ...]
    """Ways back from an old GPU, which carry an eighth of what comes in."""

    def need(self, speed: int) -> int:
        """The number that the path adds to the ledger at a speed in MB/s."""
        need = 0
        for places, share in zip((self.plain, self.dear, self.eighth), shares(speed), strict=True):
            for place in places:
                need += share << place
        return need


class Ledger:
    """The fields of the links that a search has needed so far."""

    def __init__(self, system: System, *, kinds_apart: bool = True) -> None:
        """`kinds_apart`: as versions.toml has it."""
        self._system, self._kinds_apart = system, kinds_apart
        every = (
            link.bandwidth_gbs
            for nodes in (*system.nodes.values(), system.withdrawn)
            for node in nodes
            for link in node.links
        )
        self._width = max(21, round(max(every, default=0.0) * 1000).bit_length() + 1)
        self._guard_bit = 1 << self._width - 1
        self._places: dict[int, int] = {}
        """By link: where its field begins."""
        self.guard = 0
        """All guard bits."""
        self.full = 0
        """All guard bits, and what there is of each link."""

    def fits(self, taken: int) -> bool:
        """Whether no link gives more than it has."""
        guard = self.guard
        return (self.full - taken) & guard == guard

    def mask(self, links: Iterable[SystemLink]) -> int:
        """The fields of the given links."""
        most = self._guard_bit - 1
        return sum(most << self._place(link) for link in links)

    def whole_gbs(self, taken: int, link: SystemLink) -> int:
        """The rest of a link, in whole GB/s."""
        left = (self.full - taken) >> self._place(link)
        return (left & self._guard_bit - 1) // 1000

    def route(self, path: SystemPath, start: SystemNode) -> Route:
        """A path out of `start`."""
        plain, dear, eighth = self.carried(path, start)
        place = self._place
        return Route(tuple(map(place, plain)), tuple(map(place, dear)), tuple(map(place, eighth)))

    def carried(self, path: SystemPath, start: SystemNode) -> Carried:
        """The links that a path out of `start` takes of (search.cc:followPath)."""
        plain: list[SystemLink] = []
        dear: list[SystemLink] = []
        eighth: list[SystemLink] = []
        overhead = is_dear(path, start)
        for link in path.links:
            (dear if overhead and link.kind is PCIE else plain).append(link)
            back = self.backs.get(id(link))
            if back is None:
                continue
            if link.to.kind is GPU and link.to.sm < 80 and start.kind is not GPU:
                eighth.append(back)
            if link.to.kind is CPU and self._both_ways(link.to) and link.kind is NVLINK:
                plain.append(back)
        return plain, dear, eighth

    def _both_ways(self, cpu: SystemNode) -> bool:
        """Whether NVLink to a CPU is used both ways at once; up to 2.18 to any."""
        return cpu.arch == CpuArch.POWER or not self._kinds_apart

    def _place(self, link: SystemLink) -> int:
        place = self._places.get(id(link))
        if place is None:
            place = self._places[id(link)] = self._width * len(self._places)
            self.guard |= self._guard_bit << place
            self.full |= self._guard_bit + round(link.bandwidth_gbs * 1000) << place
        return place

    @cached_property
    def backs(self) -> dict[int, SystemLink]:
        """The other direction of each link where it counts: same ends, same kind (findRevLink)."""
        nodes = self._system.nodes
        # Old GPUs are asked about by ways that begin at a NIC or an NVSwitch, POWER CPUs by all.
        old = self._system.min_sm < 80 and (nodes[NET] or nodes[NVS])
        if not old and not any(self._both_ways(cpu) for cpu in nodes[CPU]):
            return {}
        first: dict[tuple[int, int, str], SystemLink] = {}
        devices = (*nodes.values(), self._system.withdrawn)
        every = [(node, link) for some in devices for node in some for link in node.links]
        for node, link in every:
            first.setdefault((id(node), id(link.to), self._kind(link)), link)
        found = {}
        for node, link in every:
            back = first.get((id(link.to), id(node), self._kind(link)))
            if back is not None:
                found[id(link)] = back
        return found

    def _kind(self, link: SystemLink) -> str:
        return link.kind if self._kinds_apart else ""


def shares(speed: int) -> tuple[int, int, int]:
    """The shares of a speed that plain, dear and eighth links carry."""
    return speed, speed * 6 // 5, speed // 8


def is_dear(path: SystemPath, start: SystemNode) -> bool:
    """Whether the PCI links of a path carry six fifths: of GPUs that meet inside an Intel CPU."""
    return start.kind is GPU and path.type is PathType.PHB and _meets_intel(path)


def _meets_intel(path: SystemPath) -> bool:
    return any(
        link.to.kind is CPU and link.to.arch == CpuArch.X86 and link.to.vendor == CpuVendor.INTEL
        for link in path.links
    )


class Lanes:
    """All links of a system by number: of many GPUs there are too many for one whole number."""

    def __init__(self, system: System, ledger: Ledger) -> None:
        self._ledger = ledger
        devices = (*system.nodes.values(), system.withdrawn)
        every = [link for nodes in devices for node in nodes for link in node.links]
        self._numbers = {id(link): number for number, link in enumerate(every)}
        self.full = [round(link.bandwidth_gbs * 1000) for link in every]
        """What there is of each link, in MB/s."""

    def need(self, path: SystemPath, start: SystemNode, speed: int) -> tuple[tuple[int, int], ...]:
        """The links that a path out of `start` takes of at a speed, as (link, MB/s)."""
        numbers = self._numbers
        if not (self._ledger.backs or is_dear(path, start)):
            if len(path.links) == 1:
                return ((numbers[id(path.links[0])], speed),)
            plain = {numbers[id(link)]: speed for link in path.links}
            if len(plain) == len(path.links):
                return tuple(plain.items())
        found: dict[int, int] = {}
        carried = self._ledger.carried(path, start)
        for links, share in zip(carried, shares(speed), strict=True):
            for link in links:
                number = numbers[id(link)]
                found[number] = found.get(number, 0) + share
        return tuple(found.items())

    def numbers(self, links: Iterable[SystemLink]) -> tuple[int, ...]:
        """The numbers of these links."""
        return tuple(self._numbers[id(link)] for link in links)
