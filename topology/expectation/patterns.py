"""What the shape of a matrix shows: one GPU's link, a border, one path, or a common cause.

Each pair is compared with pairs of its own kind, so that a cube mesh with one and two NVLinks, or
bridges beside PCIe, is no pattern.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from statistics import median

import msgspec

from ..model import quantities
from ..model.page import SIMULATED
from ..model.severity import Word
from ..model.snapshot import Measurement, NodeSnapshot
from ..model.units import figure as three
from ..nccl.prediction import Prediction
from ..node import Node
from ..wiring.codes import UNKNOWN
from ..wiring.graph import gpu_numa
from .judge import Judge
from .judgement import LOW, Judgement
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
UNPLACED = 0.75
"""Share of a good pair below which one is low where nothing tells which pairs are alike: pairs
across sockets or switches lose up to a fifth, and are well."""

# Shapes in a matrix of good and low cells; knows no figures and no machine.
Edge = tuple[str, str]
"""From, to."""
TEXTS: dict[str, str] = {
    "all": "All pairs are low ({range}): something common to all, not one link: power or clocks, "
    "the fabric, the host, or another job.",
    "gpu": "Everything to and from {one} is low ({range}{beside}): that GPU's own link, not the "
    "paths.",
    "way": "Everything to and from {one} is low ({range}{beside}): its own link, or a way that the "
    "others do not take (another socket or switch); its host copies and the topology tell which.",
    "sends": "All that {one} sends is low ({range}), what it receives is not: one direction of "
    "that GPU's link.",
    "receives": "All that {one} receives is low ({range}), what it sends is not: one direction of "
    "that GPU's link.",
    "pair": "{one} to {other} alone is low ({range}): that path in that direction.",
    "both ways": "{one} and {other} alone are low, both ways ({range}): the path of that pair.",
    "scattered": "{count} of {of} pairs are low ({range}) without a pattern: measure again, with "
    "nothing else on the GPUs.",
}
FEW = 3
"""Up to this many single pairs are named one by one; more count as scattered."""


class PatternKind(Word):
    """Which cells of a matrix are low.

    gpu: a row and its column; sends: a row; receives: a column; block: all pairs of a group, or
    between two; pair: a cell, or both of its pair; scattered: more than a few single ones.
    """

    GPU = "gpu"
    SENDS = "sends"
    RECEIVES = "receives"
    BLOCK = "block"
    PAIR = "pair"
    SCATTERED = "scattered"
    ALL = "all"


class LowCells(msgspec.Struct, frozen=True, kw_only=True):
    """A set of low cells."""

    kind: PatternKind
    devices: tuple[str, ...]
    edges: tuple[Edge, ...]
    sides: tuple[tuple[str, ...], ...] = ()
    """For a block: the two groups between which all low pairs lie, or the group that holds them."""


def read(
    cells: AbstractSet[Edge],
    low: AbstractSet[Edge],
    kinds: Mapping[Edge, str],
    *,
    blocks: bool = True,
) -> list[LowCells]:
    """Find the shapes of the low cells among all measured ones; each low cell is in one shape.

    `blocks`: whether `kinds` really shows which pairs are alike.
    """
    if not low:
        return []
    devices = sorted({device for edge in cells for device in edge})
    if low == set(cells) and len(cells) > 2:
        return [LowCells(kind=PatternKind.ALL, devices=tuple(devices), edges=tuple(sorted(low)))]
    found = []
    left = set(low)
    for shape in _whole_gpus(devices, cells, low):
        found.append(shape)
        left -= {edge for edge in left if shape.devices[0] in edge}
    for shape in _half_gpus(devices, cells, left):
        found.append(shape)
        left -= set(shape.edges)
    if blocks:
        for shape in _blocks(cells, left, kinds):
            found.append(shape)
            left -= set(shape.edges)
    singles = _singles(left, cells - low)
    # Where it is not known which pairs are alike, many low ones may simply be of another kind.
    return found + [single for single in singles if blocks or single.kind is PatternKind.PAIR]


def _whole_gpus(
    devices: list[str], cells: AbstractSet[Edge], low: AbstractSet[Edge]
) -> list[LowCells]:
    """GPUs with nothing but low cells in row and column."""
    found = []
    for device in devices:
        mine = {edge for edge in cells if device in edge}
        sends = {edge for edge in mine if edge[0] == device}
        partners = {other for edge in mine for other in edge} - {device}
        both = len(sends) > 1 and len(mine - sends) > 1
        if both and len(partners) > 1 and mine <= low:
            found.append(
                LowCells(kind=PatternKind.GPU, devices=(device,), edges=tuple(sorted(mine)))
            )
    return found


def _half_gpus(
    devices: list[str], cells: AbstractSet[Edge], low: AbstractSet[Edge]
) -> list[LowCells]:
    """GPUs whose whole row, or whole column, is low."""
    found = []
    for place, kind in ((0, PatternKind.SENDS), (1, PatternKind.RECEIVES)):
        for device in devices:
            mine = {edge for edge in cells if edge[place] == device}
            back = {edge for edge in low if edge[1 - place] == device}
            if len(mine) > 1 and mine <= low and not back:
                found.append(LowCells(kind=kind, devices=(device,), edges=tuple(sorted(mine))))
    return found


def _blocks(
    cells: AbstractSet[Edge], low: AbstractSet[Edge], kinds: Mapping[Edge, str]
) -> list[LowCells]:
    """Groups of one kind whose pairs are all low: within a group, or between two groups."""
    found = []
    for kind in sorted(set(kinds.values())):
        mine = {edge for edge in low if kinds[edge] == kind}
        pairs = {frozenset(edge) for edge in mine if (edge[1], edge[0]) in mine}
        measured = {frozenset(edge) for edge in cells if kinds[edge] == kind}
        for part in _components(pairs):
            inside = {pair for pair in pairs if pair <= part}
            sides = _sides(part, inside)
            if len(inside) < 2 or not _full(sides, inside, measured):
                continue
            edges = tuple(sorted(edge for edge in mine if frozenset(edge) in inside))
            found.append(
                LowCells(
                    kind=PatternKind.BLOCK, devices=tuple(sorted(part)), edges=edges, sides=sides
                )
            )
    return found


def _full(
    sides: tuple[tuple[str, ...], ...],
    inside: AbstractSet[frozenset[str]],
    measured: AbstractSet[frozenset[str]],
) -> bool:
    """Whether it is one group, or all measured pairs between two sides of two or more are low."""
    if len(sides) < 2:
        return bool(sides)
    left, right = sides
    across = {frozenset((a, b)) for a in left for b in right} & measured
    return min(len(left), len(right)) > 1 and across == inside


def _components(pairs: AbstractSet[frozenset[str]]) -> list[set[str]]:
    found: list[set[str]] = []
    for pair in sorted(pairs, key=sorted):
        joined = set(pair)
        apart = []
        for component in found:
            if component & joined:
                joined |= component
            else:
                apart.append(component)
        found = [*apart, joined]
    return found


def _sides(
    part: AbstractSet[str], inside: AbstractSet[frozenset[str]]
) -> tuple[tuple[str, ...], ...]:
    """One group where all pairs are low, two where all low pairs lie between them, else none."""
    if len(inside) == len(part) * (len(part) - 1) // 2:
        return (tuple(sorted(part)),)
    side = {min(part): True}
    queue = [min(part)]
    for device in queue:
        for pair in sorted(inside, key=sorted):
            if device not in pair:
                continue
            other = next(iter(pair - {device}))
            if other not in side:
                side[other] = not side[device]
                queue.append(other)
            elif side[other] == side[device]:
                return ()
    left = tuple(sorted(device for device in part if side.get(device)))
    return (left, tuple(sorted(set(part) - set(left))))


def _singles(left: AbstractSet[Edge], good: AbstractSet[Edge]) -> list[LowCells]:
    """Single pairs, where both GPUs are good with another partner; else a link may be the cause."""
    pairs = sorted({tuple(sorted(edge)) for edge in left})
    if len(pairs) > FEW:
        devices = tuple(sorted({device for edge in left for device in edge}))
        return [LowCells(kind=PatternKind.SCATTERED, devices=devices, edges=tuple(sorted(left)))]
    found = []
    for a, b in pairs:
        if not all(any(end in edge for edge in good) for end in (a, b)):
            continue
        edges = tuple(sorted({(a, b), (b, a)} & set(left)))
        found.append(LowCells(kind=PatternKind.PAIR, devices=edges[0], edges=edges))
    return found


class FigurePattern(msgspec.Struct, frozen=True, kw_only=True):
    """Something that several figures have in common."""

    kind: PatternKind
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
        pair = figure.src and figure.dst and figure.src != figure.dst
        sound = figure.credible and 0 <= (figure.value or 0) < math.inf
        if figure.quantity == quantity and pair and sound:
            key = (figure.variant, figure.bytes_per_copy, figure.engine, figure.unit)
            grouped.setdefault(key, []).append(index)
    return [members for members in grouped.values() if len(members) > 2]


def _of_matrix(
    figures: Sequence[Measurement],
    indices: list[int],
    names: Mapping[str, str],
    node: Node | None,
    judgements: Sequence[Judgement],
) -> list[FigurePattern]:
    values: dict[Edge, float] = {}
    kinds: dict[Edge, str] = {}
    low: set[Edge] = set()
    for index in indices:
        src, dst = figures[index].src or "", figures[index].dst or ""
        values[src, dst] = figures[index].value or 0.0
        kinds[src, dst] = node.pairs.kind(src, dst) if node is not None else ""
        if index < len(judgements) and judgements[index].verdict == LOW:
            low.add((src, dst))
    placed = node is not None and UNKNOWN not in kinds.values()
    limit = BEHIND if placed or node is None else UNPLACED
    for kind in set(kinds.values()):
        edges = [edge for edge in values if kinds[edge] == kind]
        ordered = sorted(values[edge] for edge in edges)
        good = ordered[min(len(ordered) - 1, math.ceil(GOOD_PAIRS * len(ordered)) - 1)]
        low |= {edge for edge in edges if values[edge] < limit * good}
    shapes = read(set(values), low, kinds, blocks=placed)
    quantity = figures[indices[0]].quantity
    made_up = any(figures[index].simulated for index in indices)
    return [
        FigurePattern(
            kind=shape.kind,
            devices=shape.devices,
            text=_marked(
                _text(shape, names, values, low, node, owns=_owns(shape, kinds, low, node)), made_up
            ),
            quantity=quantity,
        )
        for shape in shapes
    ]


def _owns(
    shape: LowCells, kinds: Mapping[Edge, str], low: AbstractSet[Edge], node: Node | None
) -> bool:
    """Whether it is the GPU's own link: its host copies are low too, or like pairs are good."""
    if shape.kind is not PatternKind.GPU or node is None:
        return shape.kind is PatternKind.GPU
    mine = {kinds[edge] for edge in shape.edges}
    good = {kind for edge, kind in kinds.items() if edge not in low}
    return (UNKNOWN not in mine and mine <= good) or bool(host_low(node, shape.devices[0]))


def host_low(node: Node, device: str) -> str:
    """How much slower copies between a GPU and its host are than those of the others, else ""."""
    for quantity in (quantities.HOST_TO_DEVICE, quantities.DEVICE_TO_HOST, quantities.STAGED):
        mine: list[float] = []
        others: list[float] = []
        for figure in node.snapshot.measurements:
            if figure.quantity == quantity and figure.value is not None:
                (mine if device in (figure.src, figure.dst) else others).append(figure.value)
        if mine and others and median(mine) < UNPLACED * median(others):
            here, there = (f"{three(median(values))} GB/s" for values in (mine, others))
            return f"{here}, the others {there}: its own link to the host carries less"
    return ""


def _marked(text: str, made_up: bool) -> str:
    return f"{text.rstrip('.')} ({SIMULATED})." if made_up else text


def _text(
    shape: LowCells,
    names: Mapping[str, str],
    values: Mapping[Edge, float],
    low: set[Edge],
    node: Node | None,
    *,
    owns: bool,
) -> str:
    range_ = _range([values[edge] for edge in shape.edges])
    if shape.kind is PatternKind.BLOCK:
        return _block(shape, names, range_, node)
    who = [names.get(device, device) for device in shape.devices]
    rest = _range([values[edge] for edge in values if edge not in low])
    both = shape.kind is PatternKind.PAIR and len(shape.edges) == 2
    kind = "way" if shape.kind is PatternKind.GPU and not owns else shape.kind
    return TEXTS["both ways" if both else kind].format(
        one=who[0],
        other=who[-1],
        range=range_,
        beside=f"; other pairs reach {rest}" if rest else "",
        count=len(shape.edges),
        of=len(values),
    )


def _block(shape: LowCells, names: Mapping[str, str], range_: str, node: Node | None) -> str:
    sides = [", ".join(names.get(device, device) for device in side) for side in shape.sides]
    if len(sides) == 1:
        return f"All pairs among {sides[0]} are low ({range_}): the switch or bridge they share."
    where = "the bridge, switch or border between the two groups"
    if node is not None:
        near = [
            {gpu_numa(gpu) for device in side if (gpu := node.devices.gpu(device)) is not None}
            for side in shape.sides
        ]
        if near[0] and near[1] and None not in near[0] | near[1] and not near[0] & near[1]:
            first, second = (
                ", ".join(map(str, sorted(nodes, key=lambda numa: numa or 0))) for nodes in near
            )
            where = f"the border between NUMA nodes {first} and {second}"
    return f"All pairs between {sides[0]} and {sides[1]} are low ({range_}): {where}."


def _range(values: list[float]) -> str:
    if not values:
        return ""
    low, high = three(min(values)), three(max(values))
    return f"{low} GB/s" if low == high else f"{low} to {high} GB/s"
