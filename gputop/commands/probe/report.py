"""Writes measurements and verdicts as text: matrices for pairs, tables for the rest."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

from gputop.commands.probe.device_tables import device_tables, first_use
from gputop.commands.probe.size_tables import at_once, sweep, tables_of_ranks
from gputop.commands.probe.table import made_up, table, wrapped
from gputop.commands.probe.verdict_text import (
    Pair,
    Pairs,
    combined_lines,
    low_lines,
    unjudged,
    verdict_line,
)
from gputop.measuring.expected import Expectations
from gputop.measuring.quantities import UNDECLARED, in_declared_order, quantity_of, specs
from gputop.probes.protocol.quantity import DEVICE, PAIR, RANKS, Quantity
from gputop.terminal.clean import clean
from gputop.topology.model import units
from gputop.topology.model.page import SIMULATED
from gputop.topology.model.snapshot import Measurement

Kind = TypeVar("Kind", bound=Hashable)
MOST = 1e9
"""Larger figures are written with a power of ten to fit their column."""


def tables(measurements: Sequence[Measurement], names: Mapping[str, str]) -> str:
    """All figures as text, without verdicts."""
    return report(Expectations(tuple(measurements)), names)


def report(known: Expectations, names: Mapping[str, str]) -> str:
    """All figures of a run with their verdicts as text, at most 80 columns wide.

    `names`: address of a device -> its label.
    """
    pairs = [pair for pair in known.pairs() if not quantity_of(pair[0]).in_check]
    kinds = _grouped(pairs, _table_of)
    matrices, totals = kinds.get("matrix", []), kinds.get("total", [])
    blocks = _matrices(matrices, names)
    for quantity, swept in _grouped(kinds.get("sweep", ()), _quantity).items():
        blocks.append(sweep(swept, _heading(quantity) + made_up([figure for figure, _ in swept])))
    for key in sorted(_added_up()):
        copies = [pair for pair in matrices if pair[0].quantity == key]
        added = [figure for figure, _ in totals if quantity_of(figure).total_of == key]
        if copies or added:
            blocks.append(at_once(copies, added, names))
    if "device" in kinds:
        blocks.append(device_tables(kinds["device"], names))
    blocks += tables_of_ranks(kinds.get("ranks", ()))
    if "first use" in kinds:
        blocks.append(first_use([figure for figure, _ in kinds["first use"]], names))
    if "row" in kinds:
        blocks.append(_rows([figure for figure, _ in kinds["row"]], names))
    blocks.append("\n".join(_odd([figure for figure, _ in pairs], names)))
    ends = (*low_lines(known, names), *combined_lines(known), unjudged(known))
    blocks.append("\n".join(line for line in ends if line))
    return "\n\n".join(block for block in blocks if block)


def _grouped(pairs: Pairs, kind: Callable[[Pair], Kind]) -> dict[Kind, list[Pair]]:
    found: dict[Kind, list[Pair]] = {}
    for pair in pairs:
        found.setdefault(kind(pair), []).append(pair)
    return found


def _quantity(pair: Pair) -> Quantity:
    return quantity_of(pair[0])


def _table_of(pair: Pair) -> str:
    """The kind of table that shows a figure."""
    quantity = quantity_of(pair[0])
    if quantity.has_steady_state:
        return "first use"
    if quantity.total_of:
        return "total"
    if quantity.over_sizes:
        return "ranks" if quantity.per == RANKS else "sweep"
    return {PAIR: "matrix", DEVICE: "device"}.get(quantity.per, "row")


def _heading(quantity: Quantity) -> str:
    """The heading of a table of one quantity."""
    title = quantity.title or quantity.key
    return quantity.heading or ", ".join(part for part in (title, quantity.unit) if part)


def _added_up() -> frozenset[str]:
    """The keys of pair quantities that another quantity adds up."""
    every = (quantity for spec in specs().values() for quantity in spec.quantities)
    return frozenset(quantity.total_of for quantity in every if quantity.total_of)


def _rows(figures: Sequence[Measurement], names: Mapping[str, str]) -> str:
    """Figures that no other table shows: of all devices together, or undeclared here."""
    rows = [
        [
            f"{_title(figure)} {clean(figure.variant or '', 30)}".strip()[:44],
            _who(figure, names) if figure.src or figure.dst else "",
            _cell(figure),
            clean(figure.unit or "", 10),
        ]
        for figure in figures
    ]
    return table(["", "", ""], rows).lstrip("\n")


def _odd(figures: Sequence[Measurement], names: Mapping[str, str]) -> list[str]:
    lines = [
        wrapped(f"{_who(figure, names)}: {clean(figure.why_none)}")
        for figure in figures
        if figure.why_none
    ]
    return list(dict.fromkeys(lines))


def _who(figure: Measurement, names: Mapping[str, str]) -> str:
    ends = [_name(end, names) for end in (figure.src, figure.dst) if end is not None]
    return " -> ".join(ends) or _title(figure)


def _title(figure: Measurement) -> str:
    """The declared title, else the words of the key."""
    quantity = quantity_of(figure)
    if quantity.per == UNDECLARED or not quantity.title:
        return clean(figure.quantity.replace("_", " "), 40)
    return quantity.title


def _matrices(pairs: Pairs, names: Mapping[str, str]) -> list[str]:
    """A matrix for each quantity and variant; rows are sources, columns destinations."""
    blocks = []
    by_quantity = _grouped(pairs, _quantity)
    for quantity in in_declared_order(by_quantity):
        alike = by_quantity[quantity]
        for variant in dict.fromkeys(figure.variant for figure, _ in alike):
            found = [pair for pair in alike if pair[0].variant == variant]
            figures = [figure for figure, _ in found]
            if quantity.key in _added_up() and not _is_whole(figures):
                continue  # a ring or a star: its row in the table of patterns says everything
            head = (
                _heading(quantity)
                + (f", {clean(variant, 60)}" if variant else "")
                + _method(figures)
            )
            one_word = _one_word(figures)
            if one_word:
                blocks.append(wrapped(f"{head}: {one_word}"))
                continue
            lines = [wrapped(head), _matrix(figures, names)]
            if any(figure.value is not None for figure in figures):
                lines.append(wrapped(verdict_line(found)))
            blocks.append("\n".join(line for line in lines if line))
    return blocks


def _is_whole(figures: Sequence[Measurement]) -> bool:
    """Whether every ordered pair of these devices has a figure."""
    devices = {end for figure in figures for end in (figure.src, figure.dst)}
    return len(figures) >= len(devices) * (len(devices) - 1)


def _one_word(figures: Sequence[Measurement]) -> str:
    """The verdict that all pairs share, which replaces the matrix; else ""."""
    words = {figure.verdict for figure in figures}
    if len(figures) < 6 or len(words) != 1 or any(f.value is not None for f in figures):
        return ""
    return f"{clean(words.pop() or units.UNKNOWN, 20)} for all {len(figures)} pairs"


def _method(figures: Sequence[Measurement]) -> str:
    """Engine and spread, once for the whole matrix."""
    engines = sorted({figure.engine for figure in figures if figure.engine})
    spreads = [
        (figure.high - figure.low) / figure.value
        for figure in figures
        if figure.value and figure.low is not None and figure.high is not None
    ]
    about = [", ".join(clean(engine) for engine in engines)] if engines else []
    about += [SIMULATED] if any(figure.simulated for figure in figures) else []
    if spreads:
        about.append(f"widest spread {100 * max(spreads):.1f} %")
    return f" ({'; '.join(about)})" if about else ""


def _matrix(figures: Sequence[Measurement], names: Mapping[str, str]) -> str:
    cells = {(figure.src, figure.dst): _cell(figure) for figure in figures}
    devices = list(dict.fromkeys(address or "" for pair in cells for address in pair))
    order = list(names)
    devices.sort(
        key=lambda device: (order.index(device) if device in names else len(order), device)
    )
    rows = [
        [
            _name(src, names),
            *(
                "·" if src == dst else cells.get((src, dst), units.UNKNOWN).rjust(6)
                for dst in devices
            ),
        ]
        for src in devices
    ]
    return table([_name(address, names) for address in devices], rows)


def _cell(figure: Measurement) -> str:
    if figure.value is None:
        return clean(figure.verdict or units.UNKNOWN, 20)
    wrong = figure.verdict == "wrong-data"
    if abs(figure.value) >= MOST:
        return f"{figure.value:.2g}" + ("!" if wrong else "")
    digits = 1 if figure.value >= 10 else 2
    return f"{figure.value:.{digits}f}" + ("!" if wrong else "")


def _name(address: str | None, names: Mapping[str, str]) -> str:
    return names.get(address or "", clean(address or units.UNKNOWN, 16))
