"""The measures that the pair matrix can show, each with its alphabet or unit."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from gputop.measuring.judged import judged
from gputop.measuring.quantities import on_pairs, unit_text
from gputop.probes.catalog.p2p import quantities as p2p
from gputop.terminal.clean import clean
from gputop.topology.expectation.patterns import QUANTITIES as PATTERNED
from gputop.topology.model.quantities import TRANSPORT
from gputop.topology.model.severity import FigureVerdict
from gputop.topology.model.snapshot import DataVerdict
from gputop.topology.model.units import figure
from gputop.topology.wiring.paths import path_between
from gputop.widgets.link_matrix import relation_ink
from gputop.widgets.measure import (
    LIBRARY,
    TOPOLOGY,
    Measure,
    Pair,
    Value,
    measured,
    pairs_of,
)
from gputop.widgets.meters import verdict_of
from gputop.widgets.nccl_measures import logged, nccl_path, taken_gbs, transport

if TYPE_CHECKING:
    from gputop.probes.protocol.quantity import OnPairs, Quantity
    from gputop.topology.expectation.judgement import Judgement
    from gputop.topology.report import Report


def _relation(report: Report, addresses: tuple[str, ...]) -> dict[Pair, Value]:
    matrix = report.matrix
    if matrix is None:
        return {}
    columns = [row.address for row in matrix.rows]
    return {
        (row.address, column): Value(word=clean(cell.code, 8), ink=relation_ink(cell.code))
        for row in matrix.rows
        for column, cell in zip(columns, row.cells, strict=True)
        if row.address != column
    }


GRANTS = (
    ("r", "p2p_read"),
    ("w", "p2p_write"),
    ("n", "p2p_nvlink"),
    ("a", "p2p_atomics"),
    ("p", "p2p_pci"),
)


def _grant(report: Report, addresses: tuple[str, ...]) -> dict[Pair, Value]:
    known = {(pair.src, pair.dst): pair for pair in report.snapshot.machine.pairs}
    found: dict[Pair, Value] = {}
    for pair in pairs_of(addresses):
        said = known.get(pair)
        words = [None if said is None else getattr(said, field) for _, field in GRANTS]
        if all(word is None for word in words):
            found[pair] = Value(word="–", ink="muted")
            continue
        text = "".join(
            letter if word == "ok" else "?" if word is None else "-"
            for (letter, _), word in zip(GRANTS, words, strict=True)
        )
        both = words[0] == "ok" and words[1] == "ok"
        found[pair] = Value(word=text, ink="good" if both else "warn")
    return found


def expected_gbs(report: Report, src: str, dst: str) -> float | None:
    """Payload rate of the path between two GPUs, one way; None when unknown."""
    if report.graph is None:
        return None
    path = path_between(report.graph, src, dst)
    return None if path is None else path.payload_gbs


def _expected(report: Report, addresses: tuple[str, ...]) -> dict[Pair, Value]:
    return {pair: _number(expected_gbs(report, *pair)) for pair in pairs_of(addresses)}


def _number(value: float | None) -> Value:
    return (
        Value(word="–", ink="muted") if value is None else Value(number=value, word=figure(value))
    )


def measured_cells(
    quantity: str, variant: str | None = None, *, signs: bool = False
) -> Callable[[Report, tuple[str, ...]], dict[Pair, Value]]:
    """A function that gives the cells of a measured quantity.

    `signs`: each figure with the sign of its verdict; a sick one has it anyway.
    """

    def values(report: Report, addresses: tuple[str, ...]) -> dict[Pair, Value]:
        found = measured(report.snapshot, quantity, variant)
        access = measured(report.snapshot, p2p.ACCESS.key)
        known = judged(report) if found else None
        cells: dict[Pair, Value] = {}
        for pair in pairs_of(addresses):
            figures = found.get(pair)
            # Speed of data that did not arrive whole is no speed.
            if figures is not None and figures.value is not None and not figures.wrong:
                judgement = None if known is None else known.of(figures)
                cells[pair] = _judged(figures.value, figure(figures.value), judgement, signs=signs)
            elif figures is not None and figures.verdict:
                cells[pair] = _word(figures.verdict)
            elif pair in access and access[pair].verdict is DataVerdict.NOT_GRANTED:
                cells[pair] = _word("not-granted")
            else:
                cells[pair] = Value(word="–", ink="muted")
        return cells

    return values


_SHORT = {
    "not-granted": ("no P2P", "warn"),
    "granted": ("yes", "good"),
    "arrived": ("yes", "good"),
    "verified": ("yes", "good"),
    "wrong-bytes": ("WRONG", "bad"),
    "wrong-data": ("WRONG", "bad"),
    "failed": ("failed", "bad"),
}


def verdict_word(verdict: str) -> tuple[str, str]:
    """A probe's own verdict as a short word, and its ink."""
    return _SHORT.get(verdict, (clean(verdict, 12), "warn"))


def _word(verdict: str) -> Value:
    word, ink = verdict_word(verdict)
    return Value(word=word, ink=ink)


def _judged(number: float, word: str, judgement: Judgement | None, *, signs: bool = True) -> Value:
    """A figure with its verdict; without a reference it has no sign."""
    if judgement is None or judgement.verdict is FigureVerdict.NO_REFERENCE:
        return Value(number=number, word=word)
    sign, _, ink = verdict_of(judgement)
    if judgement.verdict is FigureVerdict.HEALTHY:
        return Value(number=number, word=f"{word} {sign}" if signs else word, ink="heat-0 good")
    return Value(number=number, word=f"{word} {sign}", ink=f"{ink} reverse")


def _healthy_share(report: Report, addresses: tuple[str, ...]) -> dict[Pair, Value]:
    cells = measured_cells(p2p.WRITE.key)(report, addresses)
    found = measured(report.snapshot, p2p.WRITE.key)
    known = judged(report) if found else None
    for pair, cell in cells.items():
        if cell.number is None or known is None:
            continue
        judgement = known.of(found[pair])
        share = None if judgement is None else judgement.share
        cells[pair] = (
            _number(None)
            if share is None
            else _judged(100 * share, f"{100 * share:.0f}", judgement)
        )
    return cells


def _share(report: Report, addresses: tuple[str, ...]) -> dict[Pair, Value]:
    cells = measured_cells(p2p.WRITE.key)(report, addresses)
    for pair, cell in cells.items():
        if cell.number is not None:
            expected = expected_gbs(report, *pair)
            share = None if not expected else 100 * cell.number / expected
            cells[pair] = (
                _number(None) if share is None else Value(number=share, word=f"{share:.0f}")
            )
    return cells


def _measure(declared: Quantity, shown: OnPairs) -> Measure:
    return Measure(
        declared.key,
        shown.title or declared.title[:1].upper() + declared.title[1:],
        unit_text(declared.unit) + shown.note + (_SIGNS if shown.signs else ""),
        measured_cells(declared.key, signs=shown.signs),
        less_is_better=not declared.more_is_better,
        figures=declared.key,
        quantity=declared.key if declared.key in PATTERNED else "",
        probed=True,
    )


_SIGNS = "; ✓ healthy, ▼ low, ▲ high"
_NOT_MEASURED = (
    Measure("relation", "Relation", "{distances}", _relation, nics=True, group=TOPOLOGY),
    Measure(
        "grant",
        "Driver grant",
        "r read, w write, n {link}, a atomics, p PCIe; - not granted, ? unknown",
        _grant,
        group=TOPOLOGY,
    ),
    Measure(
        "expected",
        "Link rate",
        "GB/s one way, payload of the narrowest link",
        _expected,
        group=TOPOLOGY,
    ),
    Measure(
        "nccl-path",
        "Path",
        "path types of {libraries}, not the {letters}",
        nccl_path,
        about="nccl",
        group=LIBRARY,
    ),
    Measure(
        "transport",
        "Transport",
        "what {libraries} will use, predicted for the variables that are set",
        transport,
        more=(nccl_path, taken_gbs),
        more_told=" · beneath: path, GB/s of the way",
        about="nccl",
        group=LIBRARY,
    ),
    Measure(
        "logged",
        "Log",
        "what a run of {libraries} used; = as predicted, ≠ not",
        logged,
        about="nccl",
        group=LIBRARY,
        figures=TRANSPORT,
    ),
)
_SHARES = (
    Measure(
        "healthy",
        "% of healthy",
        f"% of what a healthy pair gives, one way{_SIGNS}",
        _healthy_share,
        figures=p2p.WRITE.key,
        quantity=p2p.WRITE.key,
        probed=True,
    ),
    Measure(
        "share",
        "% of link",
        "% of the link rate, measured one way",
        _share,
        figures=p2p.WRITE.key,
        probed=True,
    ),
)


@cache
def measures() -> tuple[Measure, ...]:
    """All measures in the order of the Pairs screen; the probes declare what they measure."""
    of_probes = (_measure(declared, shown) for declared, shown in on_pairs())
    return (*_NOT_MEASURED, *of_probes, *_SHARES)


def visible(report: Report | None) -> tuple[Measure, ...]:
    """The measures that have something to show: those that nobody measured are left out."""
    if report is None:
        return _NOT_MEASURED[:-1]
    had = {
        figure.quantity
        for figure in report.snapshot.measurements
        if figure.src and figure.dst and not figure.on_cpu
    }
    return tuple(
        measure
        for measure in measures()
        if not measure.figures
        or measure.figures in had
        # Where access is refused, a word stands in place of each figure.
        or (measure.id == p2p.WRITE.key and p2p.ACCESS.key in had)
    )


def healthy_of(report: Report, measure: Measure) -> dict[Pair, float]:
    """What a healthy pair gives of a measured quantity, for the pairs that have a band."""
    if not measure.figures:
        return {}
    known = judged(report)
    bands = {
        pair: judgement.band
        for pair, found in measured(report.snapshot, measure.figures).items()
        if (judgement := known.of(found)) is not None
    }
    return {pair: band.healthy for pair, band in bands.items() if band is not None}
