"""Every node a cell; where there are more nodes than cells, a cell shows the worst of several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import TypeVar

from gputop.topology.fleet.finding import HEALTHY
from gputop.topology.fleet.outliers import Strip
from gputop.topology.model.severity import NodeState
from gputop.widgets.spans import Line, Span

T = TypeVar("T")
_STEPS = "▁▂▃▄▅▆"
"""Not up to a full block, which would join the rows of a list."""


def per_cell(count: int, cells: int) -> int:
    """How many nodes share a cell."""
    return max(-(-count // max(cells, 1)), 1)


def chunks(items: Sequence[T], cells: int) -> list[Sequence[T]]:
    """Items that share a cell, for at most so many cells."""
    size = per_cell(len(items), cells)
    return [items[start : start + size] for start in range(0, len(items), size)]


def shared(count: int, cells: int) -> str:
    """A clause that says what a cell stands for."""
    size = per_cell(count, cells)
    return "each cell is a node" if size == 1 else f"each cell is {size:,} nodes, the worst shown"


def state_cells(
    hosts: Sequence[str], states: Mapping[str, NodeState], cells: int, marked: frozenset[str]
) -> list[Span]:
    """A sign for each cell; cells with a marked node stand out."""
    spans = []
    for part in chunks(hosts, cells):
        lit = marked.intersection(part) if marked else ()
        state = min((states[host] for host in (lit or part)), key=lambda state: state.order)
        sign, ink, _ = state.shown
        spans.append((sign, "pick" if lit else "muted" if state == HEALTHY else ink))
    return spans


def strip_cells(strip: Strip, cells: int) -> list[Span]:
    """A bar for each cell, the taller the better, from the limit of outliers up to the best."""
    if not strip.values:
        return []
    falling, odd = strip.falling, frozenset(strip.outliers)
    pick: Callable[[Iterable[float]], float] = max if falling else min
    best = min(strip.values) if falling else max(strip.values)
    worst = max(strip.values) if falling else min(strip.values)
    low = worst if strip.limit is None else strip.limit
    spans = []
    for hosts, values in zip(chunks(strip.hosts, cells), chunks(strip.values, cells), strict=True):
        if odd and not odd.isdisjoint(hosts):
            spans.append(("▼", "bad"))
            continue
        share = (pick(values) - low) / (best - low) if best != low else 1.0
        step = min(max(int(share * len(_STEPS)), 0), len(_STEPS) - 1)
        spans.append((_STEPS[step], "muted"))
    return spans


def merged(spans: Iterable[Span]) -> Line:
    """Neighbours of one ink as one span."""
    return tuple(
        ("".join(text for text, _ in group), ink)
        for ink, group in groupby(spans, key=lambda span: span[1])
    )
