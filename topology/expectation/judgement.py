"""The band that a figure is compared with, and the judgement."""

from __future__ import annotations

import msgspec

from ..hardware.specs import LOOK
from ..model.severity import FigureBasis, FigureVerdict
from ..model.snapshot import Measurement

HEALTHY, LOW = FigureVerdict.HEALTHY, FigureVerdict.LOW
HIGH, NO_REFERENCE = FigureVerdict.HIGH, FigureVerdict.NO_REFERENCE
WORDS = (HEALTHY, LOW, HIGH, NO_REFERENCE)
TOO_HIGH = 1.15
"""Share of the healthy figure above which a figure is high."""
_TOO_HIGH_TFLOPS = 1.3
"""A GPU at its power limit is that much faster in its first tenths of a second: do_bench on four
idle H200 found 811 TFLOP/s, where 700 are sustained."""
TIMES = ("us", "ms", "s")
"""Units of which less is better."""
TYPICAL, BEST, ESTIMATE = FigureBasis.TYPICAL, FigureBasis.BEST, FigureBasis.ESTIMATE


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """What a healthy device and link of this kind gives."""

    healthy: float
    low: float
    """A figure below this is low; a time (unit us) above it is."""
    high: float
    unit: str
    basis: FigureBasis
    """A best run is lowered to what one shape reaches."""
    source: str
    scaled: tuple[str, ...] = ()
    """What the band includes, in words: "7 links of 64 GB/s", "9 of 18 NVLinks of GPU3 are up"."""
    reach: float | None = None
    """The reachable figure where something physical is missing; None where nothing is known to
    be."""

    @property
    def is_estimate(self) -> bool:
        """Whether it gives no verdict."""
        return self.basis == ESTIMATE

    @property
    def falling(self) -> bool:
        """Whether less is better."""
        return self.low > self.high


def too_high(unit: str) -> float:
    """Share of the healthy figure above which one in this unit is high."""
    return _TOO_HIGH_TFLOPS if unit == "TFLOP/s" else TOO_HIGH


def band(
    healthy: float,
    unit: str,
    basis: FigureBasis,
    source: str,
    *,
    scaled: tuple[str, ...] = (),
    reach: float | None = None,
) -> Band:
    """A band round a healthy figure, by the shares that hold for every figure."""
    low, high = healthy * LOOK, healthy * too_high(unit)
    if unit in TIMES:
        low, high = healthy / LOOK, healthy / TOO_HIGH
    return Band(
        healthy=healthy,
        low=low,
        high=high,
        unit=unit,
        basis=basis,
        source=source,
        scaled=scaled,
        reach=reach,
    )


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """A band, or why there is none."""

    band: Band | None = None
    causes: tuple[str, ...] = ()
    """Physical reasons for a low figure that were read: a narrow slot, links that are down."""
    settled: bool = False
    """Whether the causes account for a low figure, however low."""
    note: str = ""
    """Why there is no band, or what to know about it."""
    plateau: bool = True
    """False where the message is too small to judge alone: it is low only if the plateau is."""
    algorithm: str | None = None
    """For a collective: the algorithm that the library should use."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """One figure, judged."""

    verdict: FigureVerdict
    """For a time, low still means poor: too long."""
    band: Band | None = None
    share: float | None = None
    """Value / healthy; for a time healthy / value, so that less than 1 is always poorer."""
    cause: str = ""
    """Why it is low, where that is known."""
    explained: bool = False
    """Whether that cause accounts for it."""
    note: str = ""
    """Further remarks, as clauses: "look: 91 % of the reference"."""
    far: bool = False
    """Whether it is so far below an estimate that no estimate is off by as much."""


def percent(share: float) -> str:
    """A share as text: "91 %"; no digits where the number makes no sense."""
    return f"{share * 100:.0f} %" if share < 100 else "over 100 times"


def unjudged(note: str) -> Judgement:
    """The judgement "no reference", with the reason."""
    return Judgement(verdict=NO_REFERENCE, note=note)


def text_of(figure: Measurement, name: str) -> str:
    """A detail of a figure that should be text; "" where it is not."""
    value = figure.details.get(name)
    return value if isinstance(value, str) else ""


def number_of(figure: Measurement, name: str) -> float | None:
    """A detail of a figure that should be a positive number; None where it is not."""
    value = figure.details.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < float("inf") else None


def terms_of(figure: Measurement, name: str) -> tuple[str, ...]:
    """A detail of a figure that should be a list of words."""
    value = figure.details.get(name)
    if not isinstance(value, list | tuple):
        return ()
    return tuple(word for word in value if isinstance(word, str))
