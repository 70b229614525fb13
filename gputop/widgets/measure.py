"""A measure of pairs: the values of all cells, computed together, and their heat."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from gputop.topology.model.page import SIMULATED

if TYPE_CHECKING:
    from gputop.topology.model.snapshot import Measurement, NodeSnapshot
    from gputop.topology.report import Report

SELF = "·"
HEATS = (0.25, 0.5, 0.7, 0.85, 0.95)
"""Shares below which a cell gets the next brighter heat: colour is for what falls behind."""
TOPOLOGY, LIBRARY, MEASURED = "Topology", "{library}", "Measured"
"""The groups of measures, as templates of Words."""


class Value(msgspec.Struct, frozen=True):
    """One cell: a number, or a word where there is no number."""

    number: float | None = None
    word: str = ""
    ink: str = ""
    """Of a word, or of a number that was judged; another number has the ink of its heat."""


Pair = tuple[str, str]


class Measure(msgspec.Struct, frozen=True):
    """One property of every ordered pair; `values` computes all cells together."""

    id: str
    title: str
    unit: str
    """Unit or alphabet, as the caption says it."""
    values: Callable[[Report, tuple[str, ...]], dict[Pair, Value]]
    more: tuple[Callable[[Report, tuple[str, ...]], dict[Pair, Value]], ...] = ()
    """What stands beneath each value where a cell has room for three lines."""
    more_told: str = ""
    """What these are, as the caption says it."""
    less_is_better: bool = False
    nics: bool = False
    """Whether NICs have rows and columns too."""
    about: str = ""
    """"nccl" when the library's questions come first beside it."""
    group: str = MEASURED
    figures: str = ""
    """The measured quantity that it shows; without a figure of it the measure is hidden."""
    quantity: str = ""
    """The measured quantity in which patterns are looked for; "" if nothing was measured."""
    probed: bool = False
    """Whether its cells are figures of a probe, which a demo simulates."""

    def made_up(self, snapshot: NodeSnapshot) -> str:
        """What a caption says of simulated cells; "" where they were measured."""
        return f" · {SIMULATED}" if self.probed and snapshot.simulated else ""


def pairs_of(addresses: tuple[str, ...]) -> list[Pair]:
    """Every ordered pair of different devices."""
    return [(a, b) for a in addresses for b in addresses if a != b]


def measured(
    snapshot: NodeSnapshot, quantity: str, variant: str | None = None
) -> dict[Pair, Measurement]:
    """Measurements of one quantity by ordered pair; figures of the CPU self-test are left out.

    `variant` picks one of several kinds of that quantity; None takes whatever there is.
    """
    return {
        (found.src, found.dst): found
        for found in snapshot.measurements
        if found.quantity == quantity
        and found.src
        and found.dst
        and not found.on_cpu
        and (variant is None or found.variant == variant)
    }


def heats(
    values: dict[Pair, Value], less_is_better: bool, healthy: Mapping[Pair, float] | None = None
) -> dict[Pair, str]:
    """The ink of every number: that of its verdict, so that a sick pair is never the calmer one.

    Without a verdict its ground is its share of what is healthy for the pair, and of its peers.
    Peers are the pairs with the same healthy figure; where it is not known, all pairs.
    """
    best: dict[float | None, float] = {}
    known = healthy or {}
    choose = min if less_is_better else max
    for pair, value in values.items():
        if value.number is not None:
            peers = known.get(pair)
            best[peers] = choose(best.get(peers, value.number), value.number)
    inks: dict[Pair, str] = {}
    for pair, value in values.items():
        if value.number is None:
            continue
        if value.ink:
            inks[pair] = value.ink
            continue
        marks = [mark for mark in (known.get(pair), best[known.get(pair)]) if mark is not None]
        share = min(_share(value.number, mark, less_is_better) for mark in marks)
        inks[pair] = f"heat-{sum(share < step for step in HEATS)}"
    return inks


def _share(number: float, mark: float, less_is_better: bool) -> float:
    if less_is_better:
        return mark / number if number > 0 else 1.0
    return number / mark if mark > 0 else 0.0
