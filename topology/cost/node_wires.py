"""The wires of groups of ranks on a node or on equal nodes, from what the node is known to give."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

from ..expectation.collectives import group_of
from ..expectation.judge import Judge
from ..expectation.judgement import Band
from ..expectation.links import link_of_pair
from ..hardware.specs import BoardLinks
from ..model import quantities
from ..model.severity import FigureBasis
from ..model.snapshot import Measurement
from ..node import Node
from ..wiring.wires import WireKind
from .wires import SIZES, CollectiveKind, GroupWire, alone, bus_share

QUANTITIES = {
    CollectiveKind.ALL_REDUCE: quantities.ALL_REDUCE,
    CollectiveKind.ALL_GATHER: quantities.ALL_GATHER,
    CollectiveKind.REDUCE_SCATTER: quantities.REDUCE_SCATTER,
    CollectiveKind.ALL_TO_ALL: quantities.ALL_TO_ALL,
    CollectiveKind.SEND: quantities.SEND_RECEIVE_ALL,
}
NAMES = {WireKind.NVLINK: "NVLink", WireKind.NVSWITCH: "NVLink", WireKind.XGMI: "xGMI"}
INSIDE_LATENCY_S, EACH_RANK_S = 12e-6, 1e-6
"""A small all-reduce of two GPUs on NVLink and what each further rank adds, launch included (H200,
nccl-tests: 1 MiB in 16 us over two, 26 us over four)."""
STAGED_LATENCY_S = 25e-6
"""The same through the memory of the host."""
OF_LINKS = 0.75
"""Of a board's links that an all-reduce reaches on the bus: rings of those that were measured, from
MI300X to B200, reach 0.65 to 0.85."""
NETWORK_LATENCY_S, EACH_NODE_S = 30e-6, 4e-6
"""The same between nodes over InfiniBand or RoCE, by a tree."""
NETWORK_SHARE = 0.92
"""Of the rate of the NICs: 46 of 50 GB/s for each 400 Gbit/s port."""
SHM_GBS = 25.5
"""All-reduce over four H200 (PCIe 5.0 x16), NCCL 2.28.9 with NCCL_P2P_DISABLE=1; two reach 28.4."""


class NodeWires:
    """What joins the GPUs of `nodes` equal nodes; ranks count node by node."""

    def __init__(self, node: Node, nodes: int = 1) -> None:
        self.node, self.nodes = node, nodes
        self.gpus = node.machine.gpus
        self._judge = Judge(node.snapshot, node.prediction)
        self._inside = cache(self._group)

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

    def _between(self, ranks: int, stride: int) -> GroupWire | None:
        """Over nodes: each group has its share of the NICs, and no more than the links inside."""
        if ranks * stride <= self.domain:
            return self._in_rack(ranks)
        if self.nics_gbs is None:
            return None
        in_node = max(1, self.each // stride)
        rate = NETWORK_SHARE * self.nics_gbs * in_node / self.each
        if in_node > 1:
            inside = self._inside(in_node, stride)
            if inside is not None:
                rate = min(rate, _plateau(inside) / 1e9)
        hosts = -(-ranks // in_node)
        return GroupWire(
            name="the network",
            ranks=ranks,
            curves={CollectiveKind.ALL_REDUCE: ((SIZES[-1], rate * 1e9),)},
            latency_s=NETWORK_LATENCY_S + EACH_NODE_S * hosts.bit_length(),
            basis=FigureBasis.ESTIMATE,
            source=f"{self.nics_gbs:.0f} GB/s of NICs in a node, shared by the groups",
        )

    def _by_links(self, name: str, ranks: int, latency: float) -> GroupWire | None:
        """From the data sheet of the links, where nobody measured a collective over them."""
        sku = self.node.devices.sku(self.gpus[0])
        if sku is None or not sku.total_gbs:
            return None
        most = sku.total_gbs
        if sku.fabric is BoardLinks.POINT_TO_POINT and sku.pair_gbs:
            most = min(most, (ranks - 1) * sku.pair_gbs)
        return GroupWire(
            name=name,
            ranks=ranks,
            curves={
                CollectiveKind.ALL_REDUCE: _with_latency(OF_LINKS * most * 1e9, latency, ranks)
            },
            latency_s=latency,
            basis=FigureBasis.ESTIMATE,
            source=f"{OF_LINKS:.0%} of the links of {sku.name}",
            least=0.65 / OF_LINKS,
            most=0.85 / OF_LINKS,
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
        latency = INSIDE_LATENCY_S + EACH_RANK_S * ranks.bit_length() * 2
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
        """In one node: what joins the group that is joined worst, for which the others wait."""
        if (measured := self._measured(ranks)) is not None and stride == 1:
            return measured
        groups = self._groups(ranks, stride)
        names = {self._link(one, other) for group in groups for one, other in pairwise(group)}
        if "PCIe" in names or self._staged:
            return self._over_pcie(ranks, stride)
        over = min(names)
        known = [(self._reach(self._addresses(group)), self._addresses(group)) for group in groups]
        addresses = min(known)[1]
        latency = INSIDE_LATENCY_S + EACH_RANK_S * (ranks - 2)
        curves: dict[CollectiveKind, tuple[tuple[int, float], ...]] = {}
        plateau = self._band(addresses, CollectiveKind.ALL_REDUCE, SIZES[-1])
        if plateau is None:
            return self._by_links(over, ranks, latency)
        for collective in QUANTITIES:
            curve = self._curve(addresses, collective)
            if curve:
                curves[collective] = curve
        if CollectiveKind.ALL_REDUCE not in curves:
            curves[CollectiveKind.ALL_REDUCE] = _with_latency(_here(plateau), latency, ranks)
        return GroupWire(
            name=over,
            ranks=ranks,
            curves=curves,
            latency_s=latency,
            basis=plateau.basis,
            source=plateau.source,
            least=_share(plateau.low, plateau.healthy),
            most=_share(plateau.high, plateau.healthy),
        )

    def _groups(self, ranks: int, stride: int) -> list[range]:
        """All groups of a layout by the places of their GPUs; one where all are alike."""
        devices, block = self.node.devices, ranks * stride
        sku = devices.sku(self.gpus[0])
        switched = sku is not None and sku.fabric is BoardLinks.SWITCHED
        if switched and not any(devices.links_missing(gpu) for gpu in self.gpus):
            return [range(0, block, stride)]
        return [
            range(start + first, start + block, stride)
            for start in range(0, self.each - block + 1, block)
            for first in range(stride)
        ]

    def _addresses(self, group: range) -> list[str]:
        return [self.gpus[place].address for place in group]

    def _reach(self, addresses: list[str]) -> float:
        """Bytes/s of a large all-reduce of this group; 0 where it is not known."""
        band = self._band(addresses, CollectiveKind.ALL_REDUCE, SIZES[-1])
        return 0.0 if band is None else _here(band)

    def _measured(self, ranks: int) -> GroupWire | None:
        """What collectives over so many GPUs reached here; None without two sizes of all-reduce.

        Collectives that were not measured follow the all-reduce; nothing else is mixed in.
        """
        kinds = {quantity: kind for kind, quantity in QUANTITIES.items()}
        found: dict[CollectiveKind, dict[int, float]] = {}
        simulated = False
        for one in self.node.snapshot.measurements:
            kind, size = kinds.get(one.quantity), one.bytes_per_copy
            if kind is None or not size or not one.value or not one.credible:
                continue
            group = group_of(self.node, one)
            if group is None or group.count != ranks:
                continue
            found.setdefault(kind, {})[size] = one.value * 1e9
            simulated |= one.simulated
        if len(found.get(CollectiveKind.ALL_REDUCE, ())) < 2:
            return None
        word = FigureBasis.SIMULATED if simulated else FigureBasis.MEASURED
        curves = {kind: tuple(sorted(sizes.items())) for kind, sizes in found.items()}
        smallest, rate = curves[CollectiveKind.ALL_REDUCE][0]
        share = bus_share(CollectiveKind.ALL_REDUCE, ranks)
        return GroupWire(
            name=self._link(0, 1),
            ranks=ranks,
            curves=curves,
            latency_s=min(INSIDE_LATENCY_S, smallest * share / rate),
            basis=word,
            source=f"collectives measured here ({word})",
        )

    def _curve(
        self, addresses: list[str], collective: CollectiveKind
    ) -> tuple[tuple[int, float], ...]:
        found = ((size, self._band(addresses, collective, size)) for size in SIZES)
        return tuple((size, _here(band)) for size, band in found if band is not None)

    def _band(self, addresses: list[str], collective: CollectiveKind, size: int) -> Band | None:
        figure = Measurement(
            probe="collectives",
            quantity=QUANTITIES[collective],
            bytes_per_copy=size,
            details={"devices": addresses},
        )
        return self._judge.expected(figure).band

    def _over_pcie(self, ranks: int, stride: int) -> GroupWire | None:
        """By PCIe or the host's memory; groups that lie across each other share its bridges."""
        addresses = [gpu.address for gpu in self.gpus[: ranks * stride : stride]]
        band = self._band(addresses, CollectiveKind.ALL_REDUCE, SIZES[-1])
        if band is None and not self._staged:
            return None
        rate = SHM_GBS if band is None or self._staged else band.healthy
        return GroupWire(
            name="the host's memory" if self._staged else "PCIe",
            ranks=ranks,
            curves={CollectiveKind.ALL_REDUCE: _with_latency(rate * 1e9 / stride, 25e-6, ranks)},
            latency_s=STAGED_LATENCY_S,
            basis=FigureBasis.ESTIMATE,
            source="measured on four H200" if band is None or self._staged else band.source,
            least=1.0 if band is None else _share(band.low, band.healthy),
            most=1.0 if band is None else _share(band.high, band.healthy),
        )

    @property
    def _staged(self) -> bool:
        """Whether NCCL is told to leave P2P out."""
        values = {one.name: one.value for one in self.node.snapshot.environment}
        return values.get("NCCL_P2P_DISABLE") == "1"

    def _link(self, one: int, other: int) -> str:
        sku = self.node.devices.sku(self.gpus[one])
        if sku is None or other >= len(self.gpus):
            return "PCIe"
        link = link_of_pair(self.node, self.gpus[one], self.gpus[other], sku)
        return "PCIe" if link is None else NAMES.get(link.kind, "PCIe")


def _here(band: Band) -> float:
    """Bytes/s that are left here, of a band."""
    return (band.healthy if band.reach is None else band.reach) * 1e9


def _plateau(wire: GroupWire) -> float:
    """Bytes/s of bus bandwidth of a large all-reduce."""
    return wire.curves[CollectiveKind.ALL_REDUCE][-1][1]


def _with_latency(rate: float, latency: float, ranks: int) -> tuple[tuple[int, float], ...]:
    """The bus bandwidth that a rate and a latency give at each size."""
    share = bus_share(CollectiveKind.ALL_REDUCE, ranks)
    return tuple((size, size * share / (latency + size * share / rate)) for size in SIZES)


def _share(value: float | None, of: float) -> float:
    return 1.0 if value is None or not of else value / of
