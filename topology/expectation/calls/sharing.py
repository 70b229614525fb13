"""How much longer links are busy where several groups of GPUs run a collective at the same time.

Each collective is taken apart into flows between two GPUs, by the library's rings where it goes by
rings, and each flow is laid on the links of the pair's path. A link of two directions counts twice,
and the links of a GPU to all NVSwitches as one.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from ...node import Node
from ...wiring.gpu_names import gpu_label
from ...wiring.paths import Path
from ...wiring.wires import WireKind
from .kinds import CollectiveKind, bus_share

Orders = Callable[[Sequence[str]], tuple[tuple[int, ...], ...]]
"""Rings of a group: each an order of its ranks."""
Link = tuple[str, str]
"""One direction of a link, from and to; of a GPU on switches its address and a direction."""
OUT, IN = "out", "in"
IN_RINGS = (
    CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.BROADCAST, CollectiveKind.REDUCE,
)  # fmt: skip


SAME = 1.001
"""Factors up to here are rounding."""


class Slower(msgspec.Struct, frozen=True, kw_only=True):
    """What other groups leave of the fullest link of one group."""

    factor: float = 1.0
    """How many times as long that link is busy as for this group alone."""
    where: str = ""
    link_gbs: float | None = None
    """Its rate one way; None where it is not known."""
    busy: float = 0.0
    """Bytes of all groups on it for each byte that this group's busiest rank sends."""
    unsure: int = 1
    """Groups that meet on a link whose rate is not known, such as that of two sockets."""


def slower(
    node: Node,
    orders: Orders,
    gpus: Sequence[str],
    others: Sequence[Sequence[str]],
    collective: CollectiveKind,
) -> Slower:
    """Compare what a group lays on its links with what all groups do."""
    if not others:
        return Slower()
    rates: dict[Link, float | None] = {}
    own = _loads(node, orders, gpus, collective, rates)
    everything, meeting = dict(own), Counter(own.keys())
    for other in others:
        loads = _loads(node, orders, other, collective, rates)
        for link, load in loads.items():
            everything[link] = everything.get(link, 0.0) + load
        meeting.update(loads.keys())

    def busy(loads: dict[Link, float], link: Link) -> float:
        return loads[link] / (rates[link] or math.inf)

    rated = [link for link in own if rates[link]]
    unsure = max((meeting[link] for link in own if not rates[link]), default=1)
    if not rated:
        return Slower(unsure=unsure)
    fullest = max(rated, key=lambda link: busy(everything, link))
    factor = busy(everything, fullest) / max(busy(own, link) for link in rated)
    if factor <= SAME:
        return Slower(unsure=unsure)
    wire = bus_share(collective, len(gpus))
    return Slower(
        unsure=unsure,
        factor=factor,
        where=_name(node, fullest),
        link_gbs=rates[fullest],
        busy=everything[fullest] / wire,
    )


def reach_gbs(
    node: Node, gpus: Sequence[str], collective: CollectiveKind, share: Mapping[WireKind, float]
) -> float | None:
    """Bus bandwidth that the links give sends that go straight from GPU to GPU; not of rings.

    `share`: what sends reach of the rate of a link of each kind. None where some rate is unknown.
    """
    loads: dict[Link, float] = defaultdict(float)
    speeds: dict[Link, float] = {}
    for src, dst, part in _flows(lambda _: (), gpus, collective):
        path = node.pairs.path(src, dst)
        if path is None or path.payload_gbs is None:
            return None
        for link, rate in _links(path, src, dst):
            if rate is not None:
                loads[link] += part
                speeds[link] = rate * share.get(path.kind, 1.0)
    slowest = max((loads[link] / speeds[link] for link in loads), default=0.0)
    return bus_share(collective, len(gpus)) / slowest if slowest else None


def _loads(
    node: Node,
    orders: Orders,
    gpus: Sequence[str],
    collective: CollectiveKind,
    rates: dict[Link, float | None],
) -> dict[Link, float]:
    """Bytes on each link for each byte of the size."""
    found: dict[Link, float] = defaultdict(float)
    for src, dst, share in _flows(orders, gpus, collective):
        for link, rate in _links(node.pairs.path(src, dst), src, dst):
            found[link] += share
            rates[link] = rate
    return found


def _flows(
    orders: Orders, gpus: Sequence[str], collective: CollectiveKind
) -> Iterator[tuple[str, str, float]]:
    """Source, destination and bytes for each byte of the size."""
    ranks = len(gpus)
    if collective in IN_RINGS:
        rings = [ring for ring in orders(gpus) if len(ring) == ranks]
        for ring in rings:
            share = bus_share(collective, ranks) / len(rings)
            yield from (
                (gpus[one], gpus[other], share) for one, other in pairwise([*ring, ring[0]])
            )
    elif collective is CollectiveKind.ALL_TO_ALL:
        yield from (
            (one, other, 1 / ranks) for one in gpus for other in gpus if one != other
        )  # fmt: skip
    elif collective is CollectiveKind.SEND:
        yield gpus[0], gpus[1], 1.0
    elif collective is CollectiveKind.EXCHANGE:
        yield from ((one, other, 1.0) for one, other in pairwise([*gpus, gpus[0]]))
    elif collective is CollectiveKind.GATHER:
        yield from ((one, gpus[0], 1 / ranks) for one in gpus[1:])
    else:
        yield from ((gpus[0], one, 1 / ranks) for one in gpus[1:])


def _links(path: Path | None, src: str, dst: str) -> Iterator[tuple[Link, float | None]]:
    if path is None:
        yield from (((src, OUT), None), ((dst, IN), None))
    elif path.kind is WireKind.NVSWITCH:
        yield from (((src, OUT), path.payload_gbs), ((dst, IN), path.payload_gbs))
    else:
        for (one, other), wire in zip(pairwise(path.nodes), path.wires, strict=False):
            yield (one, other), wire.payload_gbs


def _name(node: Node, link: Link) -> str:
    """The link for people: "GPU0 to GPU1", "the NVLinks of GPU0"."""
    one, other = (_label(node, end) for end in link)
    return f"the links of {one}" if link[1] in (OUT, IN) else f"{one} to {other}"


def _label(node: Node, end: str) -> str:
    gpu = node.devices.gpu(end)
    return end if gpu is None else gpu_label(gpu)
