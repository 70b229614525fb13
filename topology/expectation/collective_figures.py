"""What a collective reached on a model, from its published figures, and what that lets estimate."""

from __future__ import annotations

import math
from itertools import pairwise

from ..hardware.specs import BoardLinks, PublishedFigure, Sku, skus
from ..model.severity import FigureBasis
from .judgement import BEST, ESTIMATE, TYPICAL
from .links import PCIE, LinkRates

Reached = tuple[float, FigureBasis, str, str]
"""A figure, its basis, its source and what it is of."""
LARGE_BYTES = 1 << 30
"""Without a curve the published figure is that of a very large message."""


def published(
    sku: Sku, quantity: str, count: int, algorithm: str | None, size: int | None
) -> Reached | None:
    """Healthy figure, basis, source and description, from the model's own entries."""
    fit = [
        figure
        for figure in sku.expected(quantity)
        if figure.gpus == count and _same(figure.algorithm, algorithm)
    ]
    # Typical before best; within each, a curve is worth more than one figure.
    fit.sort(key=lambda figure: (figure.kind is BEST, not figure.curve))
    for figure in fit:
        value = _at(figure, size)
        if value is not None:
            what = f"{_named(figure.algorithm)}, {count} GPUs"
            return value, figure.kind, figure.source, what
    return None


def _named(algorithm: str) -> str:
    names = {"RING": "Ring", "P2P": "send and receive", "": "measured"}
    return names.get(algorithm, algorithm)


def _same(of_entry: str, algorithm: str | None) -> bool:
    """Whether an entry is of this algorithm; trees and rings reach the same plateau on a node."""
    if not of_entry or algorithm is None:
        return not of_entry
    ring = ("RING", "TREE")
    return of_entry == algorithm or (of_entry in ring and algorithm in ring)


def _at(figure: PublishedFigure, size: int | None) -> float | None:
    """The published figure at a message size; None where it does not cover that size."""
    if not figure.curve:
        least = figure.from_bytes or LARGE_BYTES
        return figure.measured if size is None or size >= least else None
    if size is None or size >= figure.curve[-1][0]:
        return figure.curve[-1][1]
    for (low, below), (high, above) in pairwise(figure.curve):
        if low <= size <= high:
            part = math.log(size / low) / math.log(high / low)
            return below + part * (above - below)
    return None


def estimated(
    sku: Sku,
    quantity: str,
    count: int,
    algorithm: str | None,
    size: int | None,
    link: LinkRates | None,
) -> Reached | None:
    """An estimate from another number of GPUs on a mesh, or another model with the same links."""
    if link is None or link.kind is PCIE or not sku.total_gbs:
        return None
    if sku.fabric is BoardLinks.POINT_TO_POINT and sku.pair_gbs and sku.world_size:
        return _mesh(sku, quantity, count, size)
    for other in (sku, *skus().values()):
        if (other.link_kind, other.fabric) != (sku.link_kind, sku.fabric) or not other.total_gbs:
            continue
        for figure in _estimable(other, quantity):
            near = figure.gpus == count or other is sku
            value = _at(figure, size) if near and _same(figure.algorithm, algorithm) else None
            if value is not None and figure.algorithm:
                share = value / other.total_gbs
                where = f"{_named(figure.algorithm)}, {figure.gpus} GPUs on {other.name}"
                return share * sku.total_gbs, ESTIMATE, figure.source, where
    return None


def _estimable(sku: Sku, quantity: str) -> list[PublishedFigure]:
    """Figures in the order of the table that are a share of the model's links."""
    return [
        figure
        for figure in sku.figures
        if figure.quantity == quantity and figure.kind in (TYPICAL, BEST) and figure.fraction
    ]


def _mesh(sku: Sku, quantity: str, count: int, size: int | None) -> Reached | None:
    """On a full mesh n GPUs can use n - 1 links each (ROCm/rccl pull request 1270)."""
    assert sku.pair_gbs is not None
    for figure in _estimable(sku, quantity):
        if figure.gpus and figure.fraction and _at(figure, size) is not None:
            healthy = figure.fraction * (count - 1) * sku.pair_gbs
            what = f"{count - 1} link{'s' * (count != 2)} of {sku.pair_gbs:g} GB/s"
            return healthy, ESTIMATE, f"{figure.source}, {figure.gpus} GPUs", what
    return None
