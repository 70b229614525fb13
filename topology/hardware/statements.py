"""What each source says of a model, fact by fact, and how many of them bear a figure out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from .specs import own_skus, table

SAME = 0.03
"""Sources that differ by less say the same: 989 and 989.5, 7.67 and 7.7."""
ENOUGH = 2
"""Sources that bear a figure out; with fewer it is marked."""


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of a data sheet, as one source has it."""

    key: str
    """Key of specs.toml; "tflops.bf16" of one in a table."""
    value: float
    source: str


class Backing(msgspec.Struct, frozen=True, kw_only=True):
    """What the sources say of one figure."""

    agree: tuple[str, ...] = ()
    differ: tuple[Statement, ...] = ()

    @property
    def enough(self) -> bool:
        """Whether two sources bear it out."""
        return len(self.agree) >= ENOUGH


@cache
def statements(sku: str) -> tuple[Statement, ...]:
    """All that sources say of a model of specs.toml."""
    said: dict[str, dict[str, float]] = table("statements")["sku"].get(sku, {})
    names = table("specs")["sources"]
    return tuple(
        Statement(key=key, value=float(value), source=names[source].split(" (")[0])
        for source, facts in said.items()
        for key, value in facts.items()
    )


def backing(sku: str, key: str, value: Any) -> Backing:
    """Who agrees with a figure of specs.toml, and who does not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return Backing()
    said = [one for one in statements(sku) if one.key == key]
    near = [one for one in said if abs(one.value - value) <= SAME * max(abs(value), 1e-9)]
    return Backing(
        agree=tuple(dict.fromkeys(one.source for one in near)),
        differ=tuple(one for one in said if one not in near),
    )


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """How many sourced figures there are."""

    stated: int
    """Facts of data sheets, one for each source."""
    measured: int
    """Figures that somebody measured, or sets as a pass line."""
    borne_out: int
    """Facts of specs.toml that two sources bear out."""
    single: int
    """Facts of specs.toml that one source bears out."""


def counted() -> Counted:
    """Count all of them."""
    backed = [backing(sku, key, value) for sku in own_skus() for key, value in figures_of(sku)]
    return Counted(
        stated=sum(len(statements(sku)) for sku in own_skus()),
        measured=sum(len(model.figures) for model in own_skus().values()),
        borne_out=sum(one.enough for one in backed),
        single=sum(len(one.agree) == 1 for one in backed),
    )


def figures_of(sku: str) -> Iterator[tuple[str, float]]:
    """Every figure of a model's data sheet in specs.toml, by key."""
    for key, value in table("specs")["sku"][sku].items():
        if key == "tflops":
            yield from ((f"tflops.{kind}", rate) for kind, rate in value.items())
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield key, value
