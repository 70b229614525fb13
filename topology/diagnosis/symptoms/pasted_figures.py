"""Figures of other programs in a pasted text, held against what this hardware should give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ...expectation.judge import judge
from ...expectation.judgement import NO_REFERENCE, Judgement
from ...model.quantities import CAN_ACCESS
from ...model.severity import FigureVerdict
from ...model.snapshot import Measurement
from ...model.units import figure as three
from ...model.units import size
from ...recorded.pasted import PastedText

MOST = 40


class PastedFigure(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one kind in one output."""

    tool: str
    what: str
    """What was measured, in words: "all reduce busbw, 8 ranks"."""
    value: str
    """The figure, or the lowest and the highest."""
    verdict: FigureVerdict
    against: str
    """What is expected and by whom, or why nothing can be said."""


def pasted_figures(pasted: PastedText | None) -> tuple[PastedFigure, ...]:
    """One line for each quantity of each run; of a sweep over sizes the largest one."""
    if pasted is None:
        return ()
    groups: dict[tuple[str, str, str], list[Measurement]] = {}
    for figure in pasted.snapshot.measurements:
        if figure.value is not None and figure.quantity != CAN_ACCESS:
            tool = str(figure.details.get("pasted") or figure.probe)
            groups.setdefault((tool, figure.quantity, figure.variant or ""), []).append(figure)
    kept = {key: _largest(figures) for key, figures in list(groups.items())[:MOST]}
    flat = [figure for figures in kept.values() for figure in figures]
    judged = dict(zip(map(id, flat), judge(pasted.snapshot, flat), strict=True))
    return tuple(
        _figure_line(key, figures, [judged[id(figure)] for figure in figures])
        for key, figures in kept.items()
    )


def _largest(figures: Sequence[Measurement]) -> list[Measurement]:
    most = max(figure.bytes_per_copy or 0 for figure in figures)
    return [figure for figure in figures if (figure.bytes_per_copy or 0) == most]


def _figure_line(
    key: tuple[str, str, str], figures: Sequence[Measurement], judged: Sequence[Judgement]
) -> PastedFigure:
    tool, quantity, variant = key
    first = figures[0]
    values = [figure.value for figure in figures if figure.value is not None]
    worst = min(judged, key=lambda one: (one.verdict == NO_REFERENCE, one.share or 0.0))
    unit = first.unit or ""
    low, high = three(min(values)), three(max(values))
    text = f"{low} {unit}" if low == high else f"{low} to {high} {unit}"
    at = f" at {size(first.bytes_per_copy)}" if first.bytes_per_copy else ""
    return PastedFigure(
        tool=tool,
        what=", ".join(_words(quantity, variant, figures)),
        value=f"{text.strip()}{at}",
        verdict=FigureVerdict(worst.verdict),
        against=_against(worst),
    )


def _words(quantity: str, variant: str, figures: Sequence[Measurement]) -> Iterable[str]:
    yield quantity.replace("_", " ")
    if variant:
        yield variant
    ranks, hosts = (figures[0].details.get(name) for name in ("ranks", "hosts"))
    if isinstance(ranks, int):
        of = f" on {hosts} hosts" if isinstance(hosts, int) and hosts > 1 else ""
        yield f"{ranks} ranks{of}"
    elif len(figures) > 1:
        yield f"{len(figures)} {'pairs' if figures[0].dst else 'GPUs'}"


def _against(judgement: Judgement) -> str:
    made = judgement.band
    if made is None:
        return judgement.note
    expected = f"about {three(made.healthy)} {made.unit} expected by {made.source}"
    return "; ".join(filter(None, (expected, judgement.cause or judgement.note)))
