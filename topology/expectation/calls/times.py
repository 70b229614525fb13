"""How long one call of a collective takes: measured, else from tables, else from the links.

The time of a size that no curve holds is a fixed part, the bytes at the bandwidth of large
messages, and the way up to that bandwidth:

    time = fixed + bytes / bandwidth + min(WAY_UP_S, WAY_UP * bytes / bandwidth)

The constants are those of two and four H200 under NCCL 2.28.9. With them the model meets the
curves of all-to-all, send and receive, all-gather and broadcast there within 14 % from 4 MiB on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise

import msgspec

from ...flags.what_if.changes import BEFORE
from ...hardware.specs import LOOK, Sku
from ...model.machine import Gpu
from ...model.severity import FigureBasis
from ...model.snapshot import Measurement
from ...nccl.prediction import Prediction
from ...node import Node
from ...wiring.codes import UNKNOWN
from ...wiring.wires import WireKind
from ..collectives import Participants, narrowest, send_gbs
from ..judge import Judge
from ..judgement import ESTIMATE, Band
from ..links import PCIE
from ..over_pcie import OverPcie, over_pcie_here
from ..variables import choice_at
from ..ways import TakenWay, way_of_pairs, way_of_rings
from .kinds import QUANTITIES, CollectiveKind, bus_share
from .sharing import IN_RINGS, Slower, reach_gbs, slower

FIXED_S, EACH_RANK_S = 12e-6, 1e-6
"""A small call of two GPUs on NVLink, and what each further rank adds: 12 us with nccl-tests."""
STAGED_FIXED_S = 25e-6
"""The same over PCIe and the memory of the host."""
WAY_UP_S, WAY_UP = 30e-6, 0.5
EAGER_US = 65.0
"""What a call costs the host in eager PyTorch 2.11 (two H200 in a VM); no call is shorter there."""
LARGE = 1 << 30
SATURATED = 0.8
"""Of the line rate of NVLink, what two communicators reach together: 360 of 450 GB/s on two H200,
with all-reduce, all-to-all and exchange alike."""
OF_LINKS = {
    CollectiveKind.ALL_REDUCE: 0.76,
    CollectiveKind.ALL_GATHER: 0.73,
    CollectiveKind.REDUCE_SCATTER: 0.73,
    CollectiveKind.BROADCAST: 0.81,
    CollectiveKind.REDUCE: 0.82,
    CollectiveKind.ALL_TO_ALL: 0.76,
    CollectiveKind.SEND: 0.82,
    CollectiveKind.EXCHANGE: 0.80,
    CollectiveKind.GATHER: 0.82,
    CollectiveKind.SCATTER: 0.70,
}
"""Of the line rate of fast links: two and four H200, 1 GiB, nccl-tests and PyTorch."""
OF_ALL_REDUCE = {CollectiveKind.ALL_TO_ALL: 0.83, CollectiveKind.SEND: 1.28}
"""Over PCIe, of the bus bandwidth of an all-reduce: 28.4, 23.5 and 36.4 GB/s on two H200 with
NCCL_P2P_DISABLE=1. Other collectives are taken to be like the all-reduce."""
OF_MESH = {WireKind.XGMI: 0.7, WireKind.NVLINK: 0.8, WireKind.PCIE: 0.7}
"""Of the line rate, what sends reach where each pair has its own link: 42 to 48 of 64 GB/s on
MI300X (AMD's blog on xGMI and RCCL; AzNHC)."""
ON_LINKS = "a share of the links' rate, as on H200"
ON_MESH = "the links of the pairs, each at the share that others measured"
ON_ALL_REDUCE = "a share of what an all-reduce reaches over PCIe, as on H200"
WIDE = 1.3
"""How far off an estimate may be, either way."""
UNTOLD = 1.5
"""The same where only the model is told: four H100 without switches reach 314 GB/s, eight 400."""


class CallTime(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a collective by a group of GPUs."""

    collective: CollectiveKind
    bytes: int
    """As nccl-tests counts the size."""
    ranks: int
    us: float
    low_us: float
    high_us: float
    fixed_us: float
    """Of it, what a call of no bytes takes."""
    busbw_gbs: float
    algbw_gbs: float
    """The size over the time."""
    basis: FigureBasis
    source: str
    way: TakenWay
    """What the slowest hop goes over."""
    communicators: int = 1
    """Groups that run such a call at the same time, this one included."""
    slower: float = 1.0
    """How many times as long the fullest link is busy as for this group alone."""
    shared: str = ""
    """The link that they share; "" where none."""


class _Rate(msgspec.Struct, frozen=True):
    """Bus bandwidth of large messages, bytes/s, with its range."""

    large: float
    low: float
    high: float
    basis: FigureBasis
    source: str


class TimesOfCalls:
    """The times of calls on one node; keeps what its judge predicted."""

    def __init__(self, node: Node, judge: Judge | None = None) -> None:
        self.node = node
        self.judge = Judge(node.snapshot, node.prediction) if judge is None else judge

    def of(
        self,
        gpus: Sequence[str],
        collective: CollectiveKind,
        size: int,
        beside: Sequence[Sequence[str]] = (),
    ) -> CallTime | None:
        """The time of one call by these GPUs; None where nothing is known of what joins them.

        `gpus`: addresses in the order of ranks. `beside`: the other groups that run such a call at
        the same time; one of the same GPUs is another communicator over them.
        """
        group = self._group(gpus)
        if len(group) < 2 or size <= 0:
            return None
        rate = self._rate(group, collective)
        if rate is None:
            return None
        more = slower(self.node, self._orders, list(gpus), beside, collective)
        wire = size * bus_share(collective, len(group))
        curve = self._curve(group, collective)
        alone = _on_curve(curve, size, wire) or self._modelled(group, wire, rate.large)
        seconds = self._shared(group, wire, alone, rate, more)
        scale = seconds / alone
        return CallTime(
            collective=collective,
            bytes=size,
            ranks=len(group),
            us=seconds * 1e6,
            low_us=min(seconds, alone * scale * rate.large / rate.high) * 1e6,
            high_us=max(seconds, alone * scale * more.unsure * rate.large / rate.low) * 1e6,
            fixed_us=self._fixed(group) * 1e6,
            busbw_gbs=wire / seconds / 1e9,
            algbw_gbs=size / seconds / 1e9,
            basis=rate.basis,
            source=rate.source,
            way=self._way(group, collective),
            communicators=1 + len(beside),
            slower=more.factor,
            shared=more.where,
        )

    def uneven(self, gpus: Sequence[str], sent: Sequence[Sequence[int]]) -> CallTime | None:
        """An all-to-all in which rank i sends `sent[i][j]` bytes to rank j: the busiest rank's."""
        ranks = range(len(gpus))
        out = [sum(sent[one][other] for other in ranks if other != one) for one in ranks]
        into = [sum(sent[other][one] for other in ranks if other != one) for one in ranks]
        busiest = max([*out, *into], default=0)
        share = bus_share(CollectiveKind.ALL_TO_ALL, len(gpus)) if len(gpus) > 1 else 0.0
        return self.of(gpus, CollectiveKind.ALL_TO_ALL, round(busiest / share)) if share else None

    def _group(self, gpus: Sequence[str]) -> tuple[Gpu, ...]:
        found = [self.node.devices.gpu(address) for address in gpus]
        return tuple(gpu for gpu in found if gpu is not None)

    @cached_property
    def _everyone(self) -> tuple[str, ...]:
        return tuple(gpu.address for gpu in self.node.machine.gpus)

    def _orders(self, gpus: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """The rings of a group, each an order of its ranks; the ranks' own where none is known."""
        made = self._prediction(self._group(gpus))
        ring = None if made is None else made.graphs.ring
        if ring is None or not ring.orders:
            return (tuple(range(len(gpus))),)
        return ring.orders

    def _fixed(self, group: Sequence[Gpu]) -> float:
        if self._by_host(group):
            return STAGED_FIXED_S + EACH_RANK_S * (len(group) - 2)
        return FIXED_S + EACH_RANK_S * (len(group) - 2)

    def _modelled(self, group: Sequence[Gpu], wire: float, large: float) -> float:
        moved = wire / large
        return self._fixed(group) + moved + min(WAY_UP_S, WAY_UP * moved)

    def _shared(
        self, group: Sequence[Gpu], wire: float, alone: float, rate: _Rate, more: Slower
    ) -> float:
        """Groups that share links to switches fill them, which one of them alone does not."""
        if more.factor <= 1:
            return alone
        if self._by_host(group) or not self._switched(group) or not more.link_gbs:
            return alone + (more.factor - 1) * wire / rate.large
        by_this_one = rate.large * more.busy / more.factor
        full = max(SATURATED * more.link_gbs * 1e9, by_this_one)
        return max(alone, self._fixed(group) + WAY_UP_S + more.busy * wire / full)

    def _by_host(self, group: Sequence[Gpu]) -> bool:
        """Whether some pair goes without fast links: it has none, or NCCL takes P2P from it."""
        sku = self._sku(group)
        link = None if sku is None else narrowest(self.node, _participants(group), sku)
        if link is None or link.kind is PCIE:
            return True
        made = self._prediction(group)
        return made is not None and way_of_pairs(made) is not TakenWay.LINKS

    def _prediction(self, group: Sequence[Gpu]) -> Prediction | None:
        """What the library decides for these GPUs under the variables set here."""
        variables = self.judge.variables
        made = variables.with_variables(variables.here, self._some(group))
        return None if made is None or made.failure else made

    def _some(self, group: Sequence[Gpu]) -> tuple[str, ...] | None:
        addresses = tuple(gpu.address for gpu in group)
        return None if addresses == self._everyone else addresses

    def _way(self, group: Sequence[Gpu], collective: CollectiveKind) -> TakenWay:
        made = self._prediction(group)
        if made is None:
            return TakenWay.PCIE if self._by_host(group) else TakenWay.LINKS
        return way_of_rings(made) if collective in IN_RINGS else way_of_pairs(made)

    def _sku(self, group: Sequence[Gpu]) -> Sku | None:
        models = [self.node.devices.sku(gpu) for gpu in group]
        return models[0] if all(one == models[0] for one in models) else None

    def _rate(self, group: tuple[Gpu, ...], collective: CollectiveKind) -> _Rate | None:
        """The bandwidth of large messages; no wider than the links, and wide where none is told."""
        found = self._found(group, collective)
        if found is None or found.basis is FigureBasis.MEASURED:
            return found
        if self._untold(group) and self._over(group) is None:
            return _Rate(
                found.large, found.low / UNTOLD, found.high * UNTOLD, ESTIMATE, found.source
            )
        sku = self._sku(group)
        line = None if sku is None else send_gbs(self.node, _participants(group), sku)
        if not line or self._by_host(group) or not self._by_gpus(group, collective):
            return found
        most = max(line * 1e9, found.large)
        return msgspec.structs.replace(found, high=min(found.high, most))

    def _over(self, group: Sequence[Gpu]) -> OverPcie | None:
        """What the slots give, where no fast links join these GPUs or nothing tells of them."""
        return over_pcie_here(self.judge.variables, self.node, self._some(group))

    def _untold(self, group: Sequence[Gpu]) -> bool:
        """Whether nothing tells how some two of them are joined."""
        first = group[0].address
        return any(self.node.pairs.kind(first, gpu.address) == UNKNOWN for gpu in group[1:])

    def _by_gpus(self, group: Sequence[Gpu], collective: CollectiveKind) -> bool:
        """Whether GPUs alone do it: switches that add up carry more than their links do."""
        made = self._prediction(group)
        choice = None if made is None else choice_at(made, "AllReduce", LARGE)
        summed = choice is None or choice.algorithm.startswith("NVLS")
        return not (summed and collective is CollectiveKind.ALL_REDUCE)

    def _found(self, group: tuple[Gpu, ...], collective: CollectiveKind) -> _Rate | None:
        if (measured := self._measured(group, collective)) is not None:
            value = max(rate for _, rate in measured) * 1e9
            return _Rate(value, value * LOOK, value / LOOK, FigureBasis.MEASURED, "measured here")
        if self._by_host(group):
            return self._over_pcie(group, collective)
        if collective not in IN_RINGS and not self._switched(group):
            return self._by_pairs(group, collective)
        like = (
            CollectiveKind.BROADCAST if collective is CollectiveKind.REDUCE else collective
        )  # a reduce goes the way of a broadcast back
        band = self._band(group, like, None)
        if band is not None and band.healthy > 0:
            now = band.healthy if band.reach is None else band.reach
            share = now / band.healthy
            basis = band.basis if like is collective else ESTIMATE
            wide = WIDE if basis == ESTIMATE else 1.0
            low, high = min(band.low, band.healthy / wide), max(band.high, band.healthy * wide)
            return _Rate(now * 1e9, low * share * 1e9, high * share * 1e9, basis, band.source)
        return self._by_links(group, collective)

    def _switched(self, group: Sequence[Gpu]) -> bool:
        """Whether the same links lead to every other GPU; a mesh has some for each pair."""
        sku = self._sku(group)
        link = None if sku is None else narrowest(self.node, _participants(group), sku)
        return link is not None and link.switched

    def _by_pairs(self, group: tuple[Gpu, ...], collective: CollectiveKind) -> _Rate | None:
        addresses = [gpu.address for gpu in group]
        reach = reach_gbs(self.node, addresses, collective, OF_MESH)
        if reach is None:
            return None
        value = reach * 1e9
        return _Rate(value, value / WIDE, value * WIDE, ESTIMATE, ON_MESH)

    def _by_links(self, group: tuple[Gpu, ...], collective: CollectiveKind) -> _Rate | None:
        sku = self._sku(group)
        each = None if sku is None else send_gbs(self.node, _participants(group), sku)
        if not each:
            return None
        value = OF_LINKS[collective] * each * 1e9
        return _Rate(value, value / WIDE, value * WIDE, ESTIMATE, ON_LINKS)

    def _over_pcie(self, group: tuple[Gpu, ...], collective: CollectiveKind) -> _Rate | None:
        over = self._over(group)
        if over is None:
            return self._without_range(group, collective)
        share = OF_ALL_REDUCE.get(collective, 1.0)
        source = over.source if share == 1.0 else f"{ON_ALL_REDUCE}; {over.source}"
        low, now, high = (rate * share * 1e9 for rate in (over.low, over.gbs, over.high))
        return _Rate(now, low, high, ESTIMATE, source)

    def _without_range(self, group: tuple[Gpu, ...], collective: CollectiveKind) -> _Rate | None:
        """Where some pairs go over PCIe and the rings do not, or RCCL counts its own."""
        if collective not in IN_RINGS:
            return self._by_pairs(group, collective)
        band = self._band(group, CollectiveKind.ALL_REDUCE, None)
        if band is None or band.healthy <= 0:
            return self._by_links(group, collective)
        now = band.healthy if band.reach is None else band.reach
        return _Rate(now * 1e9, band.low * 1e9, band.high * 1e9, ESTIMATE, band.source)

    def _curve(
        self, group: tuple[Gpu, ...], collective: CollectiveKind
    ) -> tuple[tuple[int, float], ...]:
        """(size, bus bandwidth in GB/s) as measured here, else as tables have it."""
        measured = self._measured(group, collective)
        if measured is not None:
            return measured
        if self._by_host(group) or collective not in QUANTITIES:
            return ()
        sizes = (1 << power for power in (20, 22, 24, 26, 28, 30))
        found = ((size, self._band(group, collective, size)) for size in sizes)
        return tuple(
            (size, band.healthy if band.reach is None else band.reach)
            for size, band in found
            if band is not None
        )

    def _measured(
        self, group: tuple[Gpu, ...], collective: CollectiveKind
    ) -> tuple[tuple[int, float], ...] | None:
        wanted = {gpu.address for gpu in group}
        found: dict[int, float] = {}
        for figure in self.node.snapshot.measurements:
            if figure.quantity != QUANTITIES.get(collective) or not figure.credible:
                continue
            if figure.details.get(BEFORE):  # measured under other variables
                continue
            named = figure.details.get("devices", figure.details.get("gpus"))
            gpus = set(named) if isinstance(named, list | tuple) else set(self._everyone)
            if gpus == wanted and figure.bytes_per_copy and figure.value:
                found[figure.bytes_per_copy] = figure.value
        return tuple(sorted(found.items())) or None

    def _band(
        self, group: Sequence[Gpu], collective: CollectiveKind, size: int | None
    ) -> Band | None:
        quantity = QUANTITIES.get(collective)
        if quantity is None:
            return None
        figure = Measurement(
            probe="collectives",
            quantity=quantity,
            bytes_per_copy=size or LARGE,
            details={"devices": [gpu.address for gpu in group]},
        )
        return self.judge.expected(figure).band


def _participants(group: Sequence[Gpu]) -> Participants:
    return Participants(
        count=len(group), gpus=tuple(group), addresses=tuple(gpu.address for gpu in group)
    )


def _on_curve(curve: Sequence[tuple[int, float]], size: int, wire: float) -> float | None:
    """Seconds by a curve of bus bandwidth, between two of its sizes by logs; None beside it."""
    if len(curve) < 2 or size < curve[0][0]:
        return None
    share = wire / size
    times = [(at, at * share / (rate * 1e9)) for at, rate in curve]
    last, seconds = times[-1]
    if size >= last:
        return seconds * size / last
    for (low, below), (high, above) in pairwise(times):
        if size <= high:
            part = math.log(size / low) / math.log(high / low)
            return math.exp(math.log(below) + part * math.log(above / below))
    return None


def at_sizes(
    times: TimesOfCalls, gpus: Sequence[str], sizes: Sequence[int]
) -> Mapping[CollectiveKind, tuple[CallTime, ...]]:
    """All collectives of a group at some sizes; those of which nothing is known are left out."""
    found = {
        collective: tuple(
            one
            for size in sizes
            if (one := times.of(gpus, collective, size)) is not None
        )
        for collective in CollectiveKind
    }  # fmt: skip
    return {collective: rows for collective, rows in found.items() if rows}
