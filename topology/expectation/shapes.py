"""Shapes in a matrix of good and low cells; knows no figures and no machine."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import msgspec

Edge = tuple[str, str]
"""From, to."""
FEW = 3
"""Up to this many single pairs are named one by one; more count as scattered."""


class LowCells(msgspec.Struct, frozen=True, kw_only=True):
    """A set of low cells."""

    kind: str
    """As `patterns.Pattern.kind`."""
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
        return [LowCells(kind="all", devices=tuple(devices), edges=tuple(sorted(low)))]
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
    return found + [single for single in singles if blocks or single.kind == "pair"]


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
            found.append(LowCells(kind="gpu", devices=(device,), edges=tuple(sorted(mine))))
    return found


def _half_gpus(
    devices: list[str], cells: AbstractSet[Edge], low: AbstractSet[Edge]
) -> list[LowCells]:
    """GPUs whose whole row, or whole column, is low."""
    found = []
    for place, kind in ((0, "sends"), (1, "receives")):
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
            if len(inside) < 2 or not sides:
                continue
            if len(sides) == 2 and not _full(sides, inside, measured):
                continue
            edges = tuple(sorted(edge for edge in mine if frozenset(edge) in inside))
            found.append(
                LowCells(kind="block", devices=tuple(sorted(part)), edges=edges, sides=sides)
            )
    return found


def _full(
    sides: tuple[tuple[str, ...], ...],
    inside: AbstractSet[frozenset[str]],
    measured: AbstractSet[frozenset[str]],
) -> bool:
    """Whether every measured pair of this kind between two sides of two or more is low."""
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
        return [LowCells(kind="scattered", devices=devices, edges=tuple(sorted(left)))]
    found = []
    for a, b in pairs:
        if not all(any(end in edge for edge in good) for end in (a, b)):
            continue
        edges = tuple(sorted({(a, b), (b, a)} & set(left)))
        found.append(LowCells(kind="pair", devices=edges[0], edges=edges))
    return found
