"""Small charts from block characters: a line of bars, and an area over several lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gputop.live.recent import LINKS
from gputop.widgets.spans import Line

if TYPE_CHECKING:
    from gputop.live.recent import Recent
    from gputop.topology.model.machine import Gpu

SPARK_SECONDS = 60.0
BLOCKS = " ▁▂▃▄▅▆▇█"
"""From an empty to a full cell, in eighths."""


def spark(values: Sequence[float | None], top: float, ink: str) -> Line:
    """One cell a value, from 0 to `top`; a thin line for 0, blank where nothing is known.

    The fullest is seven eighths high, so that lines one above the other stay apart.
    """
    signs: list[str] = []
    for value in values:
        if value is None:
            signs.append(" ")
            continue
        share = min(max(value / top, 0.0), 1.0) if top > 0 else 0.0
        signs.append(BLOCKS[max(round(share * 7), 1)])
    rest = all(sign in " ▁" for sign in signs)
    return (("".join(signs), "bar-rest" if rest else ink),)


def links_past(gpu: Gpu, recent: Recent, width: int, ink: str) -> Line:
    """Traffic over its links in the last minute, both ways, up to what the links can carry."""
    bins = recent.bins(gpu.address, LINKS, width, SPARK_SECONDS)
    return spark(bins.values, link_bytes(gpu) or recent.most(LINKS), ink)


def link_bytes(gpu: Gpu) -> float:
    """Bytes a second that all links of a GPU signal, both ways; 0.0 where that is not known."""
    rates = [link.raw_gbs for link in gpu.nvlinks if link.active]
    rates += [link.raw_gbs for link in gpu.xgmi if link.active is not False]
    return 2e9 * sum(rate for rate in rates if rate is not None)


def area(values: Sequence[float | None], top: float, height: int, ink: str) -> tuple[Line, ...]:
    """An area chart of so many lines, the highest first."""
    eighths = [
        None if value is None else max(round(min(max(value / top, 0.0), 1.0) * height * 8), 1)
        for value in values
    ]
    if not eighths:
        return ((),) * height
    return tuple(
        (
            (
                "".join(
                    " " if full is None else BLOCKS[min(max(full - row * 8, 0), 8)]
                    for full in eighths
                ),
                ink,
            ),
        )
        for row in range(height - 1, -1, -1)
    )


def ceiling(most: float) -> float:
    """The top of a chart: 1, 2 or 5 times a power of ten, so that it seldom changes."""
    if most <= 0:
        return 1.0
    power = 1.0
    while power < most:
        power *= 10
    while power / 10 >= most:
        power /= 10
    return next(step * power / 10 for step in (1, 2, 5, 10) if step * power / 10 >= most)
