"""Bars drawn with signs: a figure against its healthy band, and how far something is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputop.topology.model.severity import FigureVerdict
from gputop.topology.model.units import figure
from gputop.widgets.spans import Line, Span

if TYPE_CHECKING:
    from gputop.topology.expectation.judgement import Band, Judgement

_HEADROOM = 1.08
"""The longest of a bar is this much more than the largest of the figure and its band."""


def verdict_of(judgement: Judgement | None) -> tuple[str, str, str]:
    """Sign, word and ink of a verdict; a low with a known cause is less of an alarm.

    A time that is poor is "low" in the documents, which nobody would read of a time: too long.
    """
    if judgement is None:
        sign, ink, word = FigureVerdict.NO_REFERENCE.shown
        return sign, word, ink
    sign, ink, word = FigureVerdict(judgement.verdict).shown
    if judgement.verdict != FigureVerdict.LOW:
        return sign, word, ink
    if judgement.band is not None and judgement.band.falling:
        sign, word = FigureVerdict.HIGH.sign, "too long"
    return sign, word, "warn" if judgement.explained else ink


def band_text(band: Band) -> str:
    """The healthy band in figures: "380–436", "~47.0–58.0" where it is an estimate."""
    low, high = edges(band)
    about = "~" if band.is_estimate else ""
    return f"{about}{figure(low)}–{figure(high)}"


def edges(band: Band) -> tuple[float, float]:
    """Where the healthy band of a figure begins and ends."""
    ends = [end for end in (band.low, band.healthy, band.high) if end is not None]
    return min(ends), max(ends)


def figure_bar(
    low: float, high: float, band: Band | None, ink: str, width: int, top: float = 0.0
) -> Line:
    """A bar up to `low`, dashed on to `high`, with the band between ├ and ┤.

    `low` and `high` are the least and the largest of several figures, or twice the same; `top` is
    the figure at the end of the bar, 0 for a little more than the largest.
    """
    ends = None if band is None else edges(band)
    top = top or max(high, *(ends or (0.0,))) * _HEADROOM
    if top <= 0 or width < 4:
        return ((" " * max(width, 0), ""),)
    full, dashed = _cells(low, top, width), _cells(high, top, width)
    signs = ["━"] * full + ["╍"] * (dashed - full) + ["─"] * (width - dashed)
    inks = [ink] * dashed + ["bar-rest"] * (width - dashed)
    if ends is not None:
        first = min(_cells(ends[0], top, width), width - 2)
        last = min(max(_cells(ends[1], top, width), first + 1), width - 1)
        for place, heavy, light in ((first, "┣", "├"), (last, "┫", "┤")):
            signs[place] = heavy if place < dashed else light
            inks[place] = "strong" if band is not None and not band.is_estimate else "muted"
    return _runs(signs, inks)


def _cells(value: float, top: float, width: int) -> int:
    return min(max(round(value / top * width), 0), width)


def _runs(signs: list[str], inks: list[str]) -> Line:
    spans: list[Span] = []
    for sign, ink in zip(signs, inks, strict=True):
        if spans and spans[-1][1] == ink:
            spans[-1] = (spans[-1][0] + sign, ink)
        else:
            spans.append((sign, ink))
    return tuple(spans)


def progress(done: float, total: float, width: int) -> Line:
    """How far something is; empty of progress where the total is not known."""
    full = _cells(done, total, width) if total > 0 else 0
    return (("━" * full, "bar"), ("─" * (width - full), "bar-rest"))
