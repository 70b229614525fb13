"""The figures of probes as blocks of a page: matrices, tables, verdicts, causes, patterns."""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from gputop.answers.figure_words import (
    Names,
    Pair,
    Pairs,
    combined_lines,
    healthy,
    low_lines,
    made_up,
    name_of,
    short,
    unjudged,
    verdict_line,
)
from gputop.measuring.expected import Expectations
from gputop.measuring.quantities import UNDECLARED, in_declared_order, quantity_of, specs
from gputop.measuring.runs import with_names
from gputop.probes.protocol.quantity import DEVICE, PAIR, RANKS, Quantity
from gputop.terminal.clean import clean
from gputop.topology.model import units
from gputop.topology.model.gathered import gathered_by
from gputop.topology.model.page import SIMULATED, Blank, Block, Column, Table, Text
from gputop.topology.model.snapshot import Measurement

WIDTH = 80
"""Columns of the text of a probe."""
MOST = 1e9
"""Larger figures are written with a power of ten to fit their column."""
MOST_COLUMNS = 12
"""With more figures than this, figures become rows and devices columns."""
MOST_DEVICES = 4
"""With more devices than this, only the lowest, median and highest figures are shown."""
_LONGEST_LABEL = 32
_SPREAD = ("lowest", "median", "highest")
Kind = TypeVar("Kind", bound=Hashable)


def blocks_of(known: Expectations, names: Names) -> tuple[Block, ...]:
    """All figures of a run with their verdicts; judged ones first, then what follows from them."""
    pairs = [pair for pair in known.pairs() if not quantity_of(pair[0]).in_check]
    kinds = gathered_by(pairs, _table_of)
    added_up = _added_up()
    groups = _matrices(kinds.get("matrix", []), added_up, names)
    groups += [_sweep(*swept) for swept in gathered_by(kinds.get("sweep", ()), _quantity).items()]
    for key in sorted(added_up):
        copies = [pair for pair in kinds.get("matrix", ()) if pair[0].quantity == key]
        totals = [f for f, _ in kinds.get("total", ()) if quantity_of(f).total_of == key]
        groups.append(_at_once(copies, totals, names))
    groups.append(_devices(kinds.get("device", ()), names))
    groups += _tables_of_ranks(kinds.get("ranks", ()))
    groups.append(_first_use(kinds.get("first use", ()), names))
    groups.append(_others(kinds.get("row", ()), names))
    odd = dict.fromkeys(
        f"{_who(figure, names)}: {clean(figure.why_none)}" for figure, _ in pairs if figure.why_none
    )
    groups.append([*map(Text, odd)])
    ends = (*low_lines(known, names), *combined_lines(known), unjudged(known))
    groups.append([Text(line) for line in ends if line])
    return apart(groups)


def apart(groups: Iterable[Sequence[Block]]) -> tuple[Block, ...]:
    """Groups of blocks with an empty line between them."""
    found: list[Block] = []
    for group in groups:
        if group:
            found += [Blank(), *group] if found else group
    return tuple(found)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], corner: str = "") -> Table:
    """A table of figures; each row begins with its label."""
    columns = tuple(Column(head, right=True) for head in (corner, *heads))
    return Table(columns, tuple(tuple(row) for row in rows), indent=0, folds=True)


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


def _added_up() -> frozenset[str]:
    """The keys of pair quantities that another quantity adds up."""
    every = (quantity for spec in specs().values() for quantity in spec.quantities)
    return frozenset(quantity.total_of for quantity in every if quantity.total_of)


def _heading(quantity: Quantity) -> str:
    """The heading of a table of one quantity."""
    start = quantity.title or quantity.key
    return quantity.heading or ", ".join(part for part in (start, quantity.unit) if part)


def _spread(values: Sequence[float]) -> list[str]:
    """The lowest, median and highest of some figures."""
    if not values:
        return [units.UNKNOWN] * 3
    return [units.figure(pick(values)) for pick in (min, statistics.median, max)]


def _values(pairs: Pairs) -> list[float]:
    return [figure.value for figure, _ in pairs if figure.value is not None]


def _in_order(devices: Iterable[str], names: Names) -> list[str]:
    """Devices in the order of their names; unnamed ones follow, and all together come last."""
    order = {name: at for at, name in enumerate(names)}
    return sorted(
        dict.fromkeys(devices),
        key=lambda device: (order.get(device, len(order)), not device, device),
    )


# Matrices of pairs.


def _matrices(pairs: Pairs, added_up: frozenset[str], names: Names) -> list[list[Block]]:
    """A matrix for each quantity and variant; rows are sources, columns destinations."""
    groups: list[list[Block]] = []
    by_quantity = gathered_by(pairs, _quantity)
    for quantity in in_declared_order(by_quantity):
        for variant, found in gathered_by(by_quantity[quantity], lambda p: p[0].variant).items():
            figures = [figure for figure, _ in found]
            if quantity.key in added_up and not _is_whole(figures):
                continue  # a ring or a star: its row in the table of patterns says everything
            head = ", ".join(filter(None, (_heading(quantity), clean(variant or "", 60))))
            head += _method(figures)
            one_word = _one_word(figures)
            if one_word:
                groups.append([Text(f"{head}: {one_word}")])
                continue
            group: list[Block] = [Text(head), _matrix(figures, names)]
            if _values(found) and (line := verdict_line(found)):
                group.append(Text(line))
            groups.append(group)
    return groups


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
    about = [", ".join(map(clean, engines))] if engines else []
    about += [SIMULATED] if any(figure.simulated for figure in figures) else []
    if spreads:
        about.append(f"widest spread {100 * max(spreads):.1f} %")
    return f" ({'; '.join(about)})" if about else ""


def _matrix(figures: Sequence[Measurement], names: Names) -> Table:
    cells = {(figure.src or "", figure.dst or ""): _exact(figure) for figure in figures}
    devices = _in_order((address for pair in cells for address in pair), names)
    rows = [
        (
            name_of(src, names),
            *(
                "·" if src == dst else cells.get((src, dst), units.UNKNOWN).rjust(6)
                for dst in devices
            ),
        )
        for src in devices
    ]
    return table([name_of(address, names) for address in devices], rows)


def _exact(figure: Measurement) -> str:
    """A figure with one digit behind the point, "!" where the data was wrong."""
    if figure.value is None:
        return clean(figure.verdict or units.UNKNOWN, 20)
    if abs(figure.value) >= MOST:
        return f"{figure.value:.2g}{_wrong(figure)}"
    return f"{figure.value:.{1 if figure.value >= 10 else 2}f}{_wrong(figure)}"


def _wrong(figure: Measurement) -> str:
    return "!" if figure.wrong else ""


# Tables over message sizes.


def _sweep(quantity: Quantity, pairs: Pairs) -> list[Block]:
    """Rows are sizes, columns the lowest, median and highest of all devices or pairs."""
    by_size = gathered_by(pairs, lambda pair: pair[0].bytes_per_copy or 0)
    found = {size: _values(swept) for size, swept in sorted(by_size.items())}
    rows = [(units.size(size), *_spread(values)) for size, values in found.items() if values]
    return [Text(_heading(quantity) + made_up(pairs)), table(_SPREAD, rows, "size")]


def _at_once(pairs: Pairs, totals: Sequence[Measurement], names: Names) -> list[Block]:
    """Simultaneous copies, a row for each pattern: GB/s of each copy and of all together."""
    if not (pairs or totals):
        return []
    by_pattern = gathered_by(pairs, lambda pair: pair[0].variant or "")
    together = {figure.variant or "": figure.value for figure in totals}
    rows = []
    for pattern in dict.fromkeys((*by_pattern, *together)):
        values = _values(by_pattern.get(pattern, ()))
        label = clean(with_names(pattern, names), 34)
        rows.append(
            (label, str(len(values)), *_spread(values), units.figure(together.get(pattern)))
        )
    head = f"copies at once, GB/s of each and of all{made_up(pairs)}"
    return [Text(head), table(("copies", *_SPREAD, "together"), rows, "pattern")]


def _tables_of_ranks(pairs: Pairs) -> list[list[Block]]:
    """A table for each variant and heading; rows are sizes, columns quantities."""

    def head(pair: Pair) -> tuple[str, str]:
        quantity = quantity_of(pair[0])
        return pair[0].variant or "", f"{quantity.heading or quantity.title}, {quantity.unit}"

    return [_ranks(*kind, found) for kind, found in gathered_by(pairs, head).items()]


def _ranks(variant: str, heading: str, pairs: Pairs) -> list[Block]:
    by_quantity = gathered_by(pairs, _quantity)
    quantities = in_declared_order(by_quantity)
    cells = {(figure.bytes_per_copy or 0, quantity_of(figure)): figure for figure, _ in pairs}
    rows = [
        [units.size(size), *(_of_size(cells.get((size, quantity))) for quantity in quantities)]
        for size in sorted({size for size, _ in cells})
    ]
    largest = [_largest(by_quantity[quantity]) for quantity in quantities]
    if any(judgement is not None for _, judgement in pairs):
        rows.append(["healthy", *(healthy(column) for column in largest)])
        rows.append(["verdict", *(short(by_quantity[quantity]) for quantity in quantities)])
    algorithms = [_algorithm(column) for column in largest]
    if any(algorithms):
        rows.append(["algorithm", *(word or units.UNKNOWN for word in algorithms)])
    if variant:
        heading += f", {clean(variant, 40)}"
    heads = [quantity.title for quantity in quantities]
    return [Text(f"{heading}{_measured_by(pairs)}"), table(heads, rows, "size")]


def _measured_by(pairs: Pairs) -> str:
    """Ranks and engine of figures, behind their heading."""
    ranks = sorted({str(figure.details.get("ranks")) for figure, _ in pairs} - {"None"})
    engine = next((figure.engine for figure, _ in pairs if figure.engine), None)
    about = [f"{', '.join(ranks)} ranks"] if ranks else []
    about += [clean(engine, 30)] if engine else []
    about += [SIMULATED] if made_up(pairs) else []
    return f" ({', '.join(about)})" if about else ""


def _of_size(figure: Measurement | None) -> str:
    if figure is None:
        return units.UNKNOWN
    if figure.value is None:
        return clean(figure.verdict or units.UNKNOWN, 12)
    return units.figure(figure.value) + _wrong(figure)


def _largest(pairs: Pairs) -> Pairs:
    """The figure of the largest message, because the plateau counts."""
    known = [pair for pair in pairs if pair[0].value is not None]
    return sorted(known, key=lambda pair: pair[0].bytes_per_copy or 0)[-1:]


def _algorithm(column: Pairs) -> str:
    named = (figure.details.get("algorithm") for figure, _ in column)
    return next((clean(word, 12) for word in named if isinstance(word, str)), "")


# Tables of single devices, and of the cost of first use.


def _devices(pairs: Pairs, names: Names) -> list[Block]:
    """Rows are devices and columns are figures; swapped where there are many figures."""
    if not pairs:
        return []
    columns = gathered_by(pairs, _head)
    devices = _in_order((figure.src or "" for figure, _ in pairs), names)
    fill = _by_device if len(columns) <= MOST_COLUMNS else _by_figure
    units_ = dict.fromkeys(figure.unit for figure, _ in pairs if figure.unit)
    heads, rows = fill(columns, devices, names)
    blocks: list[Block] = [table(heads, rows, ", ".join(units_) + made_up(pairs))]
    counted = dict.fromkeys(figure.counted for figure, _ in pairs if figure.counted)
    if counted:
        blocks.append(Text(f"counted: {clean('; '.join(counted), 200)}"))
    return blocks


def _head(pair: Pair) -> str:
    quantity = quantity_of(pair[0])
    start = quantity.heading or quantity.title
    return clean(f"{start} {pair[0].variant or ''}".strip() or quantity.key, 60)


def _by_device(
    columns: Mapping[str, Pairs], devices: Sequence[str], names: Names
) -> tuple[list[str], list[list[str]]]:
    found = list(columns.values())
    rows = [[_device(each, names), *(_cell(column, each) for column in found)] for each in devices]
    if _judged(found):
        rows.append(["healthy", *(healthy(column) for column in found)])
        rows.append(["verdict", *(short(column) for column in found)])
    return list(columns), rows


def _by_figure(
    columns: Mapping[str, Pairs], devices: Sequence[str], names: Names
) -> tuple[list[str], list[list[str]]]:
    each, judged = len(devices) <= MOST_DEVICES, _judged(columns.values())
    rows = []
    for head, column in columns.items():
        cells = [_cell(column, device) for device in devices] if each else _spread(_values(column))
        cells += [healthy(column), short(column)] if judged else []
        rows.append([head[:_LONGEST_LABEL], *cells])
    heads = [_device(device, names) for device in devices] if each else list(_SPREAD)
    return [*heads, "healthy", "verdict"] if judged else heads, rows


def _judged(columns: Iterable[Pairs]) -> bool:
    return any(judgement is not None for column in columns for _, judgement in column)


def _cell(column: Pairs, device: str) -> str:
    values = (figure.value for figure, _ in column if (figure.src or "") == device)
    return units.figure(next(values, None))


def _device(address: str, names: Names) -> str:
    return name_of(address, names) if address else "all"


def _first_use(pairs: Pairs, names: Names) -> list[Block]:
    """The cost of the first call compared with the steady state."""
    rows = []
    for figure, _ in pairs:
        label = clean(figure.variant or figure.quantity, 40)
        if figure.src:
            label += f", {_device(figure.src, names)}"
        later = figure.details.get("steady_us")
        steady = float(later) if isinstance(later, int | float) else None
        first = None if figure.value is None else 1e6 * figure.value
        ratio = f"{first / steady:,.0f} x" if steady and first else units.UNKNOWN
        rows.append((label, _microseconds(first), _microseconds(steady), ratio))
    if not rows:
        return []
    head = Text("first use against the steady state")
    return [head, table(("first", "steady", "ratio"), rows)]


def _microseconds(value: float | None) -> str:
    if value is None:
        return units.UNKNOWN
    if value >= 1e6:
        return f"{value / 1e6:.2f} s"
    return f"{value / 1e3:.2f} ms" if value >= 1e3 else f"{value:.1f} us"


def _others(pairs: Pairs, names: Names) -> list[Block]:
    """Figures that no other table shows: of all devices together, or undeclared here."""
    rows = [
        (
            f"{_title(figure)} {clean(figure.variant or '', 30)}".strip()[:44],
            _who(figure, names) if figure.src or figure.dst else "",
            _exact(figure),
            clean(figure.unit or "", 10),
        )
        for figure, _ in pairs
    ]
    return [table(("", "", ""), rows)] if rows else []


def _who(figure: Measurement, names: Names) -> str:
    ends = [name_of(end, names) for end in (figure.src, figure.dst) if end is not None]
    return " -> ".join(ends) or _title(figure)


def _title(figure: Measurement) -> str:
    """The declared title, else the words of the key."""
    quantity = quantity_of(figure)
    if quantity.per == UNDECLARED or not quantity.title:
        return clean(figure.quantity.replace("_", " "), 40)
    return quantity.title
