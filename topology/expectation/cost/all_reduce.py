"""What an all-reduce over all GPUs reaches: on a healthy node of this kind, and here."""

from __future__ import annotations

import msgspec

from ...flags.what_if.changes import BEFORE
from ...hardware.specs import BoardLinks, PublishedFigure, Sku
from ...model import quantities
from ...model.severity import FigureBasis
from ...model.snapshot import Measurement
from ...model.units import figure
from ...nccl.prediction import P2P, Prediction
from ...node import Node
from ...wiring.gpu_names import gpu_label
from .. import collectives
from ..collective_figures import published
from ..judge import Judge
from ..judgement import ESTIMATE, TYPICAL, Band, band
from ..links import SAME, mesh_links_down
from ..modelled import COLLECTIVE, modelled, overlooked, ring_gbs, rings_left
from ..over_pcie import OverPcie, narrowed, over_pcie_here
from ..repaired import repaired
from ..variables import choice_at
from ..ways import PCIE_TYPES, TakenWay, way_of_rings
from .cost import PREDICTED, Cost

WHAT = "all-reduce 1 GiB"
LARGE_BYTES = 1 << 30
_RINGS = "rings by the library's own count"
_KINDS = {"ring": "the rings", "tree": "the trees", "nvls": "NVLS"}
"""Algorithm -> whose channels its graph has."""
_FLOOR = (
    "NCCL's search found no ring at any rate of its table: the 0.1 GB/s that it prints then is the "
    "floor of the table, no forecast."
)
OTHER_LINKS = (0.45, 2.2)
"""Links of one count carry 14 to 50 GB/s each by model, where 25 are assumed; a pair of H100 on a
bridge has been seen at half of that (NVIDIA/nccl issue 1161)."""
BRIDGED = ("nvlink4", 0.48, "a pair on bridges, NVIDIA/nccl issue 1161, January 2024")
"""Links of a board on bridges -> share of the model's figure that was seen: 115 of 240 GB/s."""
SPREAD = 1.15
"""From this ratio on, what others measured makes the figure a range."""


class _Figures(msgspec.Struct, frozen=True):
    """What is known without a measurement, and from where."""

    healthy: float | None = None
    here: float | None = None
    basis: FigureBasis = ESTIMATE
    source: str = ""
    least: float | None = None
    because: str = ""
    low: float | None = None
    high: float | None = None
    notes: tuple[str, ...] = ()


def all_reduce_cost(node: Node, judge: Judge) -> Cost | None:
    """The cost of 1 GiB over all GPUs; None where nothing is known, or nothing is predicted."""
    prediction = node.prediction
    if prediction is None or prediction.failure or prediction.ranks < 2:
        return None
    typical = _typical(prediction, judge)
    found = _ranged(_figures(prediction, judge, typical), prediction, judge)
    missing = _missing(judge)
    measured = _measured(node, judge)
    if measured is not None:
        sure = typical is not None and typical.basis != ESTIMATE
        return Cost(
            what=WHAT,
            healthy=typical.healthy if typical is not None and sure else found.healthy,
            here=measured.value,
            basis=FigureBasis(measured.basis),
            sources=sources_of(typical if sure else None, measured),
            missing=missing,
        )
    if found.healthy is None and found.here is None:
        return None
    return Cost(
        what=WHAT,
        healthy=found.healthy,
        here=found.here,
        least=found.least,
        because=found.because,
        basis=found.basis,
        sources=(found.source,) if found.source else (),
        missing=missing,
        low=found.low,
        high=found.high,
        notes=found.notes,
    )


def _ranged(found: _Figures, here: Prediction, judge: Judge) -> _Figures:
    """The figure as a range: over PCIe from the links, else from what others measured.

    What was not told makes it wider, and never another one.
    """
    if here.by_nvls_alone:
        return found
    over = over_pcie_here(judge.variables, judge.node, None, here)
    if over is not None:
        return _over(found, over, moved=_lost_links(judge, here))
    if found.here is None or here.library.is_rccl or here.graphs.ring is None:
        return found
    if found.healthy is None or found.here < SAME * found.healthy:
        return found
    low = high = found.here
    sku, count = _sku(judge), len(judge.node.machine.gpus)
    if sku is None:
        low, high = low * OTHER_LINKS[0], high * OTHER_LINKS[1]
        note = "which GPUs these are is not told: the links of one model are twice as fast"
        return msgspec.structs.replace(found, low=low, high=high, basis=ESTIMATE, notes=(note,))
    known = [(one.measured, one.source) for one in _whole_nodes(sku, count, here)]
    if (sku.fabric, sku.link_kind) == (BoardLinks.BRIDGE, BRIDGED[0]):
        known.append((low * BRIDGED[1], BRIDGED[2]))
    low = min(low, *(measured for measured, _ in known), low)
    high = max(high, *(measured for measured, _ in known), high)
    if high < low * SPREAD:
        return found
    said = "; ".join(f"{figure(measured)} GB/s ({source})" for measured, source in known)
    return msgspec.structs.replace(
        found, low=low, high=high, notes=(f"others measured {said} on such a node",)
    )


def _whole_nodes(sku: Sku, count: int, here: Prediction) -> list[PublishedFigure]:
    """All-reduces over as many GPUs of this model, by the algorithm predicted or one not told."""
    choice = choice_at(here, COLLECTIVE, LARGE_BYTES)
    algorithm = "" if choice is None else choice.algorithm
    return [
        one
        for one in sku.expected("allreduce_busbw")
        if one.gpus == count and one.algorithm in ("", algorithm)
    ]


def _over(found: _Figures, over: OverPcie, *, moved: bool) -> _Figures:
    """The figures with those of the slots; NCCL's floor is no figure.

    `moved`: whether a healthy node has fast links instead, whose figure then stands.
    """
    share = 1.0
    if found.healthy and found.here is not None:
        share = min(1.0, found.here / found.healthy)
    notes = [f"From the links: {over.because}."]
    if over.floor:
        notes.insert(0, _FLOOR)
    if over.remedies:
        notes.append(f"What helped others: {'; '.join(over.remedies)}.")
    return msgspec.structs.replace(
        found,
        healthy=found.healthy if moved else over.gbs / share,
        here=over.gbs,
        least=None,
        basis=ESTIMATE,
        source=over.source,
        low=over.low,
        high=over.high,
        notes=tuple(notes),
    )


def _typical(here: Prediction, judge: Judge) -> Band | None:
    """What others measured on whole nodes of this model; None where nobody did."""
    gpus, sku = judge.node.machine.gpus, _sku(judge)
    if sku is None or any(judge.node.devices.sku(gpu) != sku for gpu in gpus):
        return None
    whole = judge.variables.healthy(judge.variables.here, None)
    choice = choice_at(whole or here, COLLECTIVE, LARGE_BYTES)
    algorithm = None if choice is None else choice.algorithm
    found = published(sku, "allreduce_busbw", len(gpus), algorithm, LARGE_BYTES)
    return None if found is None else band(found[0], "GB/s", found[1], found[2])


def _missing(judge: Judge) -> tuple[str, ...]:
    """The links that are not as they should be, as clauses."""
    machine = judge.node.machine
    fixed = repaired(machine)
    few = () if fixed is None else zip(machine.gpus, fixed.gpus, strict=True)
    nvlinks = tuple(
        f"{gpu_label(gpu)} has {len(gpu.nvlinks_up)} of {len(whole.nvlinks_up)} NVLinks up"
        for gpu, whole in few
        if len(gpu.nvlinks_up) < len(whole.nvlinks_up)
    )
    return (*nvlinks, *mesh_links_down(machine.gpus))


def _figures(here: Prediction, judge: Judge, typical: Band | None) -> _Figures:
    whole = judge.variables.healthy(judge.variables.here, None)
    now = modelled(here, LARGE_BYTES)
    if whole is None or whole.failure:
        return _Figures(here=now, basis=PREDICTED, source=collectives.MODEL)
    healthy = modelled(whole, LARGE_BYTES)
    if healthy is None or now is None or overlooked(whole, here, LARGE_BYTES):
        return _by_rings(whole, here, typical)
    if here.by_nvls_alone:
        return _by_nvls(healthy, now, judge, here)
    if _moved(whole, here):
        return _Figures(healthy)
    ring = here.graphs.ring
    over_slots = ring is not None and ring.type_intra in PCIE_TYPES
    narrow = narrowed(judge.node, [gpu.address for gpu in judge.node.machine.gpus])
    narrow = narrow if over_slots else 1.0
    guess = narrow < 1 or (ring is not None and ring.estimate is not None)
    because = "" if guess else _in_steps(whole, here)
    basis = ESTIMATE if guess else PREDICTED
    return _Figures(healthy, now * narrow, basis, collectives.MODEL, because=because)


def _in_steps(whole: Prediction, here: Prediction) -> str:
    """The search takes a channel's speed from a list, so a little less bandwidth costs a step."""
    both = [choice_at(prediction, COLLECTIVE, LARGE_BYTES) for prediction in (whole, here)]
    kinds = {"" if choice is None else choice.algorithm.lower() for choice in both}
    if len(kinds) != 1 or (kind := kinds.pop()) not in _KINDS:
        return ""
    before, after = getattr(whole.graphs, kind), getattr(here.graphs, kind)
    if before is None or after is None or before.channels != after.channels:
        return ""
    if after.bw_intra >= before.bw_intra:
        return ""
    return (
        f"the library's speed per channel goes in fixed steps, for {_KINDS[kind]} here from "
        f"{before.channels} channels of {figure(before.bw_intra)} GB/s to {figure(after.bw_intra)}"
    )


def _by_nvls(healthy: float, now: float, judge: Judge, here: Prediction) -> _Figures:
    """Nobody knows whether NVLS comes up without P2P; at least there is what rings give."""
    slow = over_pcie_here(judge.variables, judge.node, None, here)
    least = None if slow is None else slow.gbs
    return _Figures(healthy, now, PREDICTED, collectives.MODEL, least)


def _lost_links(judge: Judge, here: Prediction) -> bool:
    """Whether a healthy node with the defaults has fast links where this one has none."""
    whole = judge.variables.healthy(judge.variables.here, None)
    if whole is None or whole.failure:
        return False
    return way_of_rings(whole) is TakenWay.LINKS and way_of_rings(here) is not TakenWay.LINKS


def _by_rings(whole: Prediction, here: Prediction, made: Band | None) -> _Figures:
    """Where RCCL's own model is blind to a loss, or says nothing: by what its rings lose.

    A healthy node has what the model gives, else what others measured, else the rings' own figure.
    """
    rings, model = ring_gbs(whole), modelled(whole, LARGE_BYTES)
    if rings is None:
        return _Figures()
    healthy = model or (rings if made is None else made.healthy)
    both = _RINGS if model is None else f"{collectives.MODEL}; {_RINGS}"
    if _moved(whole, here):
        return _Figures(healthy, source=both)
    share = rings_left(whole, here) or 1.0
    if model is not None:
        return _Figures(healthy, healthy * share, ESTIMATE, both)
    sure = made is not None and share == 1.0 and made.basis != ESTIMATE
    source = _RINGS if made is None else made.source if sure else f"{made.source}; {_RINGS}"
    return _Figures(healthy, healthy * share, TYPICAL if sure else ESTIMATE, source)


def _sku(judge: Judge) -> Sku | None:
    gpus = judge.node.machine.gpus
    return judge.node.devices.sku(gpus[0]) if gpus else None


def _measured(node: Node, judge: Judge) -> Measurement | None:
    """The all-reduce of 1 GiB over all GPUs that was measured here."""
    everyone = node.snapshot.machine.gpus
    found = [
        figure
        for figure in node.snapshot.measurements
        if figure.quantity == quantities.ALL_REDUCE
        and figure.credible
        and not figure.details.get(BEFORE)
        and figure.bytes_per_copy == LARGE_BYTES
        and (group := collectives.group_of(judge.node, figure)) is not None
        and group.count == len(everyone)
    ]
    return found[-1] if found else None


def sources_of(made: Band | None, measured: Measurement | None) -> tuple[str, ...]:
    """Where the healthy figure and the measured one come from."""
    found = () if made is None else (made.source,)
    return found if measured is None else (*found, measured.source)


def _moved(whole: Prediction, here: Prediction) -> bool:
    """Whether pairs lose P2P that they would have on a healthy node with the defaults."""
    then = {(pair.src_bus_id, pair.dst_bus_id): pair.transport for pair in here.pairs}
    return any(
        pair.p2p and then.get((pair.src_bus_id, pair.dst_bus_id), P2P) != P2P
        for pair in whole.pairs
    )
