"""What the shape of a matrix shows: one GPU's link, a border, one path, or a common cause.

Each pair is compared with pairs of its own kind, so that a cube mesh with one and two NVLinks, or
bridges beside PCIe, is no pattern.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from ..model import quantities
from ..model.page import SIMULATED
from ..model.snapshot import Measurement, NodeSnapshot
from ..model.units import figure as three
from ..nccl.prediction import Prediction
from ..wiring.graph import gpu_numa
from .judge import Judge
from .judgement import LOW, Judgement
from .node import JudgedNode
from .shapes import Edge, LowCells, read
from .siblings import BEHIND

QUANTITIES = (
    quantities.WRITE,
    quantities.READ,
    quantities.KERNEL_WRITE,
    quantities.KERNEL_READ,
    quantities.BOTH_WAYS,
)
"""In the order of reading: a pattern is reported once, for the first quantity that shows it.
Without concurrent_bandwidth: simultaneous copies compete by design, and the hub of all to one is no
sick GPU."""
GOOD_PAIRS = 0.9
"""The quantile of a kind's figures that stands for a good pair: a sick GPU takes a third of
them."""


class FigurePattern(msgspec.Struct, frozen=True, kw_only=True):
    """Something that several figures have in common."""

    kind: str
    """"gpu" (row and column), "sends" (a row), "receives" (a column), "block", "pair" (a cell),
    "scattered" or "all"."""
    devices: tuple[str, ...]
    """Addresses of the GPUs that it is about."""
    text: str
    """A sentence for people; it says where figures are simulated."""
    quantity: str = ""


def patterns(
    figures: Sequence[Measurement],
    names: Mapping[str, str],
    snapshot: NodeSnapshot | None = None,
    *,
    prediction: Prediction | None = None,
    judgements: Sequence[Judgement] | None = None,
) -> tuple[FigurePattern, ...]:
    """Read the matrices among figures; `names`: address -> name for people.

    With `snapshot` pairs are grouped by relation and held against their bands (`judgements`, in
    the order of `figures`, saves doing that again). Without it nobody knows which pairs are
    alike: then blocks, which a mesh or bridges would show too, are not read.
    """
    node = None
    if snapshot is not None:
        judge = Judge(snapshot, prediction)
        node = judge.node
        judgements = judgements or judge.judge(figures)
    found: list[FigurePattern] = []
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for quantity in QUANTITIES:
        for indices in _matrices(figures, quantity):
            for pattern in _of_matrix(figures, indices, names, node, judgements or ()):
                if (pattern.kind, pattern.devices) not in seen:
                    seen.add((pattern.kind, pattern.devices))
                    found.append(pattern)
    return tuple(found)


def _matrices(figures: Sequence[Measurement], quantity: str) -> list[list[int]]:
    grouped: dict[tuple[object, ...], list[int]] = {}
    for index, figure in enumerate(figures):
        value = figure.value
        if (
            figure.quantity == quantity
            and figure.src
            and figure.dst
            and figure.src != figure.dst
            and value is not None
            and math.isfinite(value)
            and value >= 0
            and figure.verdict != "wrong-data"
            and figure.device_kind != "cpu"
        ):
            key = (figure.variant, figure.bytes_per_copy, figure.engine, figure.unit)
            grouped.setdefault(key, []).append(index)
    return [members for members in grouped.values() if len(members) > 2]


def _of_matrix(
    figures: Sequence[Measurement],
    indices: list[int],
    names: Mapping[str, str],
    node: JudgedNode | None,
    judgements: Sequence[Judgement],
) -> list[FigurePattern]:
    values: dict[Edge, float] = {}
    kinds: dict[Edge, str] = {}
    low: set[Edge] = set()
    for index in indices:
        src, dst = figures[index].src or "", figures[index].dst or ""
        values[src, dst] = figures[index].value or 0.0
        kinds[src, dst] = node.kind(src, dst) if node is not None else ""
        if index < len(judgements) and judgements[index].verdict == LOW:
            low.add((src, dst))
    for kind in set(kinds.values()):
        edges = [edge for edge in values if kinds[edge] == kind]
        ordered = sorted(values[edge] for edge in edges)
        good = ordered[min(len(ordered) - 1, math.ceil(GOOD_PAIRS * len(ordered)) - 1)]
        low |= {edge for edge in edges if values[edge] < BEHIND * good}
    shapes = read(set(values), low, kinds, blocks=node is not None)
    quantity = figures[indices[0]].quantity
    made_up = any(figures[index].simulated for index in indices)
    return [
        FigurePattern(
            kind=shape.kind,
            devices=shape.devices,
            text=_marked(_text(shape, names, values, low, node), made_up),
            quantity=quantity,
        )
        for shape in shapes
    ]


def _marked(text: str, made_up: bool) -> str:
    return f"{text.rstrip('.')} ({SIMULATED})." if made_up else text


def _text(
    shape: LowCells,
    names: Mapping[str, str],
    values: Mapping[Edge, float],
    low: set[Edge],
    node: JudgedNode | None,
) -> str:
    who = [names.get(device, device) for device in shape.devices]
    range_ = _range([values[edge] for edge in shape.edges])
    if shape.kind == "all":
        return (
            f"All pairs are low ({range_}): something common to all, not one link: power or "
            "clocks, the fabric, the host, or another job."
        )
    if shape.kind == "gpu":
        rest = _range([values[edge] for edge in values if edge not in low])
        beside = f"; other pairs reach {rest}" if rest else ""
        return (
            f"Everything to and from {who[0]} is low ({range_}{beside}): that GPU's own link, not "
            "the paths."
        )
    if shape.kind in ("sends", "receives"):
        verb, other = ("sends", "receives") if shape.kind == "sends" else ("receives", "sends")
        return (
            f"All that {who[0]} {verb} is low ({range_}), what it {other} is not: one direction "
            "of that GPU's link."
        )
    if shape.kind == "block":
        return _block(shape, names, range_, node)
    if shape.kind == "pair":
        if len(shape.edges) == 2:
            return (
                f"{who[0]} and {who[1]} alone are low, both ways ({range_}): the path of that pair."
            )
        return f"{who[0]} to {who[1]} alone is low ({range_}): that path in that direction."
    return (
        f"{len(shape.edges)} of {len(values)} pairs are low ({range_}) without a pattern: measure "
        "again, with nothing else on the GPUs."
    )


def _block(shape: LowCells, names: Mapping[str, str], range_: str, node: JudgedNode | None) -> str:
    sides = [", ".join(names.get(device, device) for device in side) for side in shape.sides]
    if len(sides) == 1:
        return f"All pairs among {sides[0]} are low ({range_}): the switch or bridge they share."
    where = "the bridge, switch or border between the two groups"
    if node is not None:
        near = [
            {gpu_numa(gpu) for device in side if (gpu := node.gpu(device)) is not None}
            for side in shape.sides
        ]
        if near[0] and near[1] and None not in near[0] | near[1] and not near[0] & near[1]:
            first, second = (
                ", ".join(str(numa) for numa in sorted(nodes, key=lambda numa: numa or 0))
                for nodes in near
            )
            where = f"the border between NUMA nodes {first} and {second}"
    return f"All pairs between {sides[0]} and {sides[1]} are low ({range_}): {where}."


def _range(values: list[float]) -> str:
    if not values:
        return ""
    low, high = three(min(values)), three(max(values))
    return f"{low} GB/s" if low == high else f"{low} to {high} GB/s"
