"""A measure of pairs: the values of all cells, computed together, and their heat."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from gputop.topology.model.page import SIMULATED

if TYPE_CHECKING:
    from gputop.topology.model.snapshot import Measurement, NodeSnapshot
    from gputop.topology.report import Report

SELF = "·"
HEATS = 6


class Value(msgspec.Struct, frozen=True):
    """One cell: a number, or a word where there is no number."""

    number: float | None = None
    word: str = ""
    ink: str = ""


Pair = tuple[str, str]


class Measure(msgspec.Struct, frozen=True):
    """One property of every ordered pair; `values` computes all cells together."""

    id: str
    title: str
    unit: str
    """Unit or alphabet, as the caption says it."""
    values: Callable[[Report, tuple[str, ...]], dict[Pair, Value]]
    less_is_better: bool = False
    nics: bool = False
    """Whether NICs have rows and columns too."""
    about: str = ""
    """"nccl" when the library's questions come first beside it."""
    width: int = 5
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
        and found.device_kind != "cpu"
        and (variant is None or found.variant == variant)
    }


def heats(values: dict[Pair, Value], less_is_better: bool) -> dict[Pair, str]:
    """The background of every number: the best value gets the theme's brightest one."""
    numbers = [value.number for value in values.values() if value.number is not None]
    if not numbers:
        return {}
    least, most = min(numbers), max(numbers)
    inks: dict[Pair, str] = {}
    for pair, value in values.items():
        if value.number is None:
            continue
        if less_is_better:
            share = least / value.number if value.number > 0 else 1.0
        else:
            share = value.number / most if most > 0 else 0.0
        inks[pair] = f"heat-{min(int(share * (HEATS - 1) + 0.5), HEATS - 1)}"
    return inks
