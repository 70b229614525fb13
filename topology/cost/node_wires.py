"""The wires of groups of ranks on a node or on equal nodes, from what the node is known to give."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

from ..expectation.calls.kinds import CollectiveKind, bus_share
from ..expectation.calls.times import EACH_RANK_S, FIXED_S, CallTime, TimesOfCalls
from ..expectation.links import link_of_pair
from ..expectation.ways import TakenWay
from ..hardware.specs import BoardLinks
from ..model.severity import FigureBasis
from ..node import Node
from ..wiring.wires import WireKind
from .wires import NETWORK, SIZES, GroupWire, alone

KINDS = (
    CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.ALL_TO_ALL, CollectiveKind.SEND,
)  # fmt: skip
"""What layouts need."""
WAYS = {
    TakenWay.PCIE: "PCIe",
    TakenWay.HOST: "the host's memory",
    TakenWay.NETWORK: "NICs of the host itself",
}
NAMES = {WireKind.NVLINK: "NVLink", WireKind.NVSWITCH: "NVLink", WireKind.XGMI: "xGMI"}
NETWORK_LATENCY_S, EACH_NODE_S = 30e-6, 4e-6
"""A small all-reduce between nodes over InfiniBand or RoCE by a tree, and what a level adds."""
NETWORK_HOP_S, LINK_HOP_S = 14e-6, 3.4e-6
"""What a ring waits at each hop between and inside hosts: the library's own for its protocol Simple
(tuning.cc, hwLat); a gather or a scatter has a hop for each rank."""
NETWORK_SHARE = 0.92
"""Of the rate of the NICs: 46 of 50 GB/s for each 400 Gbit/s port."""


class NodeWires:
    """What joins the GPUs of `nodes` equal nodes; ranks count node by node."""

    def __init__(self, node: Node, nodes: int = 1) -> None:
        self.node, self.nodes = node, nodes
        self.gpus = node.machine.gpus
        self._times = TimesOfCalls(node)
        self._inside = cache(self._group)
        self._slowest: dict[tuple[int, int], list[str]] = {}

    @property
    def each(self) -> int:
        """GPUs of a node."""
        return len(self.gpus)

    @property
    def domain(self) -> int:
        """GPUs that NVLink joins at most, over the nodes there are: a rack of MNNVL, else a node.

        Whether the nodes are of one rack and its clique is up, nobody tells here.
        """
        sku = self.node.devices.sku(self.gpus[0])
        size = 0 if sku is None or sku.fabric is not BoardLinks.SWITCHED else sku.world_size or 0
        return max(self.each, min(size, self.each * self.nodes))

    @property
    def nics_gbs(self) -> float | None:
        """All NICs of a node together, one way; None where no rate is known."""
        rates = [
            port.rate_gbit / 8
            for device in self.node.machine.rdma
            for port in device.ports
            if port.rate_gbit
        ]
        return sum(rates) or None

    def of(self, ranks: int, stride: int) -> GroupWire | None:
        """What joins ranks 0, stride, 2 * stride and so on; None where it is not known."""
        if ranks < 2:
            return alone()
        if ranks * stride <= self.each:
            return self._inside(ranks, stride)
        return self._between(ranks, stride)

    def slowest(self, ranks: int, stride: int) -> list[str]:
        """PCI addresses of the group in a node that the others wait for; [] where not known."""
        self.of(ranks, stride)
        return self._slowest.get((ranks, stride), [])

    def _between(self, ranks: int, stride: int) -> GroupWire | None:
        """Over nodes: each group has its share of the NICs, and no more than the links inside.

        A ring leaves a node once for each of its GPUs there, so all their NICs carry one part each.
        An all-to-all sends what is for other nodes from every GPU: its own NIC carries all of it.
        """
        if ranks * stride <= self.domain:
            return self._in_rack(ranks)
        if self.nics_gbs is None:
            return None
        own = NETWORK_SHARE * self.nics_gbs * 1e9 / self.each
        joined = max(1, self.domain // stride)
        rate = own * joined
        inside = self.of(joined, stride) if joined > 1 else None
        if inside is not None:
            rate = min(rate, _plateau(inside))
        hosts = -(-ranks // joined)
        latency = NETWORK_LATENCY_S + EACH_NODE_S * hosts.bit_length()
        ring = latency + NETWORK_HOP_S * (hosts - 1) + LINK_HOP_S * (ranks - hosts)
        leaves = (ranks - joined) / (ranks - 1)
        rates = {
            CollectiveKind.ALL_REDUCE: (rate, latency),
            CollectiveKind.ALL_GATHER: (rate, ring),
            CollectiveKind.REDUCE_SCATTER: (rate, ring),
            CollectiveKind.ALL_TO_ALL: (min(rate, own / leaves), latency),
            CollectiveKind.SEND: (own, latency),
        }
        return GroupWire(
            name=NETWORK,
            ranks=ranks,
            curves={kind: _with_latency(*known, ranks, kind) for kind, known in rates.items()},
            latency_s=latency,
            basis=FigureBasis.ESTIMATE,
            source=f"{self.nics_gbs:.0f} GB/s of NICs in a node, shared by the groups",
        )

    def _in_rack(self, ranks: int) -> GroupWire | None:
        """Over the trays of a rack: what one tray reaches, or the whole rack where that is less."""
        inside = self._inside(self.each, 1) if self.each > 1 else None
        sku = self.node.devices.sku(self.gpus[0])
        whole = [
            one.measured
            for one in ([] if sku is None else sku.expected("allreduce_busbw"))
            if one.gpus == self.domain
        ]
        known = [*whole, *([] if inside is None else [_plateau(inside) / 1e9])]
        if not known:
            return None
        latency = FIXED_S + EACH_RANK_S * ranks.bit_length() * 2
        rate = min(known) * 1e9
        return GroupWire(
            name="NVLink of the rack",
            ranks=ranks,
            curves={CollectiveKind.ALL_REDUCE: _with_latency(rate, latency, ranks)},
            latency_s=latency,
            basis=FigureBasis.ESTIMATE,
            source="what others measured in a tray and over a rack",
            most=max(known) / min(known),
        )

    def _group(self, ranks: int, stride: int) -> GroupWire | None:
        """In one node: what joins the group that is slowest while all groups do the same."""
        groups = [*map(self._addresses, self._groups(ranks, stride))]
        every = groups if len(groups) > 1 else []
        slowest: CallTime | None = None
        addresses: list[str] = []
        for group in groups:
            call = self._times.of(group, CollectiveKind.ALL_REDUCE, SIZES[-1], every)
            if call is None:
                return None
            if slowest is None or call.us > slowest.us:
                slowest, addresses = call, group
        if slowest is None:
            return None
        self._slowest[ranks, stride] = addresses
        curves = {kind: self._curve(addresses, kind, every) for kind in KINDS}
        return GroupWire(
            name=WAYS.get(slowest.way) or self._name(addresses),
            ranks=ranks,
            curves={kind: curve for kind, curve in curves.items() if curve},
            latency_s=slowest.fixed_us / 1e6,
            basis=slowest.basis,
            source=slowest.source,
            least=slowest.us / slowest.high_us,
            most=slowest.us / slowest.low_us,
        )

    def _curve(
        self, addresses: list[str], kind: CollectiveKind, every: list[list[str]]
    ) -> tuple[tuple[int, float], ...]:
        """(size, bus bandwidth in bytes/s) of one kind of call."""
        calls = ((size, self._times.of(addresses, kind, size, every)) for size in SIZES)
        return tuple((size, call.busbw_gbs * 1e9) for size, call in calls if call is not None)

    def _name(self, addresses: list[str]) -> str:
        """The fast links of its pairs, by the first kind."""
        order = [gpu.address for gpu in self.gpus]
        found = (self._link(one, two) for one, two in pairwise(map(order.index, addresses)))
        return min((name for name in found if name), default="fast links")

    def _all_groups(self, ranks: int, stride: int) -> list[range]:
        """All groups of a layout by the places of their GPUs."""
        block = ranks * stride
        return [
            range(start + first, start + block, stride)
            for start in range(0, self.each - block + 1, block)
            for first in range(stride)
        ]

    def _groups(self, ranks: int, stride: int) -> list[range]:
        """All groups, or one where all are alike and share no link: behind switches."""
        devices = self.node.devices
        sku = devices.sku(self.gpus[0])
        every = self._all_groups(ranks, stride)
        switched = sku is not None and sku.fabric is BoardLinks.SWITCHED
        alike = switched and not any(devices.links_missing(gpu) for gpu in self.gpus)
        return every[:1] if alike else every

    def _addresses(self, group: range) -> list[str]:
        return [self.gpus[place].address for place in group]

    def _link(self, one: int, other: int) -> str:
        sku = self.node.devices.sku(self.gpus[one])
        if sku is None:
            return ""
        link = link_of_pair(self.node, self.gpus[one], self.gpus[other], sku)
        return "" if link is None else NAMES.get(link.kind, "")


def _plateau(wire: GroupWire) -> float:
    """Bytes/s of bus bandwidth of a large all-reduce."""
    return wire.curves[CollectiveKind.ALL_REDUCE][-1][1]


def _with_latency(
    rate: float, latency: float, ranks: int, kind: CollectiveKind = CollectiveKind.ALL_REDUCE
) -> tuple[tuple[int, float], ...]:
    """The bus bandwidth that a rate and a latency give at each size."""
    share = bus_share(kind, ranks)
    return tuple((size, size * share / (latency + size * share / rate)) for size in SIZES)
