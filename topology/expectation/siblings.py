"""Compares figures of one kind with each other, without a table."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from ..model.snapshot import Measurement
from ..node import Node
from ..wiring.codes import UNKNOWN
from .judgement import TIMES

BEHIND = 0.92
"""Share of the siblings' median below which a figure stands out; 5 % is normal."""
LEAST = 3
"""Of two figures neither is known to be the odd one."""


def behind(node: Node, figures: Sequence[Measurement]) -> dict[int, str]:
    """Index of a figure -> "8 % under its siblings' median (396 GB/s)"."""
    groups: dict[tuple[object, ...], list[tuple[int, float]]] = {}
    for index, figure in enumerate(figures):
        key = _key(node, figure)
        if key is not None and figure.value is not None:
            groups.setdefault(key, []).append((index, figure.value))
    found = {}
    for members in groups.values():
        if len(members) < LEAST:
            continue
        middle = median(value for _, value in members)
        unit = figures[members[0][0]].unit or ""
        for index, value in members:
            if said := _said(value, middle, unit):
                found[index] = said
    return found


def _said(value: float, middle: float, unit: str) -> str:
    """By how much a figure is worse than the median of its kind; "" where it is not."""
    share = value / middle if middle > 0 else 1.0
    if _is_time(unit) and value > 0:
        share = middle / value
    if share >= BEHIND:
        return ""
    side = "over" if _is_time(unit) else "under"
    part = f"{100 * abs(value - middle) / middle:.0f} %"
    return f"{part} {side} its siblings' median ({middle:.4g} {unit})"


def _is_time(unit: str) -> bool:
    return unit in TIMES


def _key(node: Node, figure: Measurement) -> tuple[object, ...] | None:
    """The key that siblings share; None for a figure without siblings."""
    if figure.src is None or figure.on_cpu or figure.wrong:
        return None
    gpu = node.devices.gpu(figure.src)
    if gpu is None:
        return None
    kind = gpu.name
    if figure.dst is not None:
        other = node.devices.gpu(figure.dst)
        if other is None:
            return None
        letters = node.pairs.kind(figure.src, figure.dst)
        if letters == UNKNOWN:
            return None  # pairs across sockets or switches are slower, and are well
        kind = f"{letters} {gpu.name} {other.name}"
    return (
        figure.quantity,
        figure.variant,
        figure.bytes_per_copy,
        figure.unit,
        figure.engine,
        kind,
    )
