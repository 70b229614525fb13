"""Looks up the quantities that the probes declare, by the keys of figures.

Tables, plots, heat maps and history take titles, units and the meaning of figures from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from gputop.measuring.plugged import known
from gputop.probes import catalog
from gputop.probes.protocol.quantity import PAIR, Quantity
from gputop.terminal.clean import clean

if TYPE_CHECKING:
    from gputop.probes.protocol.quantity import OnPairs
    from gputop.probes.protocol.spec import ProbeSpec
    from gputop.topology.model.snapshot import Measurement

UNDECLARED = "undeclared"
"""`per` of a quantity that only another version of gputop knows."""


def specs() -> dict[str, ProbeSpec]:
    """Name of a probe -> the quantities that it declares, in their order."""
    return _specs(known())


@cache
def _specs(names: tuple[str, ...]) -> dict[str, ProbeSpec]:
    return {name: catalog.load(name).SPEC for name in names}


@lru_cache(1024)
def quantity(key: str, probe: str = "") -> Quantity:
    """The quantity with this key in the probe, else in the first probe that declares it.

    A file from another version may hold an undeclared key, which then is the title.
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


def shows_broken(figure: Measurement) -> bool:
    """Whether a probe's own verdict says that data arrives wrong, or something never ends."""
    return figure.verdict in (*quantity_of(figure).broken, "wrong-data")


def place_of(key: str, probe: str) -> int:
    """The position in the probe's declaration; undeclared quantities come last."""
    own = specs().get(probe)
    keys = [declared.key for declared in own.quantities] if own is not None else []
    return keys.index(key) if key in keys else len(keys)


def headline_place(key: str, probe: str) -> int:
    """Like `place_of`, with the headline of the probe first."""
    return -1 if quantity(key, probe).headline else place_of(key, probe)


def in_declared_order(found: Iterable[Quantity]) -> list[Quantity]:
    """Each quantity once, in the order of the declarations; undeclared ones come last."""
    place = {known: number for number, known in reversed(list(enumerate(_declared())))}
    return sorted(dict.fromkeys(found), key=lambda known: place.get(known, len(place)))


def main_variants() -> tuple[tuple[Quantity, str], ...]:
    """Quantities that are compared with the data sheet -> start of the compared variant."""
    return tuple(
        (declared, declared.main_variant)
        for declared in _declared()
        if declared.main_variant is not None
    )


def on_pairs() -> list[tuple[Quantity, OnPairs]]:
    """The quantities of the Pairs screen in its order, and how it shows them.

    A pair has one figure of each; what is measured over sizes is a curve.
    """
    found = [
        (declared, declared.on_pairs)
        for declared in _declared()
        if declared.per == PAIR
        and declared.on_pairs is not None
        and not declared.over_sizes
        and not declared.in_check
    ]
    return sorted(found, key=lambda shown: shown[1].place)


def on_map(per: str) -> tuple[tuple[Quantity, str], ...]:
    """Quantities of pairs or devices that the Map shows -> their variant; "": any."""
    return tuple(
        (declared, declared.on_map)
        for declared in _declared()
        if declared.per == per and declared.on_map is not None
    )


def _declared() -> Iterator[Quantity]:
    for spec in specs().values():
        yield from spec.quantities


def unit_text(unit: str | None) -> str:
    """The unit as it is shown."""
    return {"us": "µs"}.get(unit or "", clean(unit or "", 12))
