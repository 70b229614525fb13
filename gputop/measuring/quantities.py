"""The quantities that the probes of this version declare, found by the keys of figures.

Tables, plots, heat maps and history take titles, units and the way a figure is read from here.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from gputop.probes.protocol.quantity import Quantity
from gputop.terminal.clean import clean

if TYPE_CHECKING:
    from gputop.probes.protocol.spec import ProbeSpec
    from gputop.topology.model.snapshot import Measurement

UNDECLARED = "undeclared"
"""`per` of a quantity that only another version of gputop knows."""


@cache
def specs() -> dict[str, ProbeSpec]:
    """What the probes of this version declare, by name, in their order."""
    from gputop.probes import catalog

    return {name: catalog.load(name).SPEC for name in catalog.NAMES}


@lru_cache(1024)
def quantity(key: str, probe: str = "") -> Quantity:
    """The quantity of this key: as the probe declares it, else as the first probe that has it.

    A file from another version may hold a key that no probe here declares: its title is the key.
    """
    own = specs().get(probe)
    for spec in (*([own] if own is not None else []), *specs().values()):
        for declared in spec.quantities:
            if declared.key == key:
                return declared
    title = clean(key, 40).removesuffix("_busbw").removesuffix("_bandwidth").replace("_", " ")
    return Quantity(key, title, unit="", per=UNDECLARED)


def quantity_of(figure: Measurement) -> Quantity:
    """The quantity of a figure."""
    return quantity(figure.quantity, figure.probe)


def place_of(key: str, probe: str) -> int:
    """Where a probe declares a quantity; undeclared ones share the place behind the last."""
    own = specs().get(probe)
    keys = [declared.key for declared in own.quantities] if own is not None else []
    return keys.index(key) if key in keys else len(keys)


def headline_place(key: str, probe: str) -> int:
    """As `place_of`, but the quantity that stands for the probe in a list is before all others."""
    return -1 if quantity(key, probe).headline else place_of(key, probe)


def in_declared_order(found: Iterable[Quantity]) -> list[Quantity]:
    """Each quantity once, as all probes declare them; undeclared ones come last."""
    declared = [known for spec in specs().values() for known in spec.quantities]
    place = {known: number for number, known in reversed(list(enumerate(declared)))}
    return sorted(dict.fromkeys(found), key=lambda known: place.get(known, len(place)))


def main_variants() -> tuple[tuple[Quantity, str], ...]:
    """The quantities that are compared with the data sheet, and how their variants begin."""
    return tuple(
        (declared, declared.main_variant)
        for spec in specs().values()
        for declared in spec.quantities
        if declared.main_variant is not None
    )


def unit_text(unit: str | None) -> str:
    """A unit as people write it."""
    return {"us": "µs"}.get(unit or "", clean(unit or "", 12))
