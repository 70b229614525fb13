"""Tables over message sizes: collectives and sweeps of copies."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from gputop.commands.probe.table import made_up, table
from gputop.commands.probe.verdict_text import Pair, Pairs, healthy, verdict
from gputop.measuring.quantities import in_declared_order, quantity_of
from gputop.measuring.runs import with_names
from gputop.probes.protocol.quantity import Quantity
from gputop.terminal.clean import clean
from gputop.topology.model import units
from gputop.topology.model.page import SIMULATED
from gputop.topology.model.snapshot import Measurement


def tables_of_ranks(pairs: Pairs) -> list[str]:
    """A table for each variant and heading; rows are sizes, columns quantities."""
    tables: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        quantity = quantity_of(pair[0])
        head = f"{quantity.heading or quantity.title}, {quantity.unit}"
        tables.setdefault((pair[0].variant or "", head), []).append(pair)
    return [_table(head, variant, found) for (variant, head), found in tables.items()]


def _table(title: str, variant: str, pairs: Pairs) -> str:
    operations = in_declared_order(quantity_of(figure) for figure, _ in pairs)
    cells: dict[tuple[int, Quantity], Measurement] = {
        (figure.bytes_per_copy or 0, quantity_of(figure)): figure for figure, _ in pairs
    }
    sizes = sorted({size for size, _ in cells})
    rows = []
    for size in sizes:
        found = [cells.get((size, quantity)) for quantity in operations]
        rows.append([units.size(size), *(_cell(figure) for figure in found)])
    largest = [_largest(pairs, quantity) for quantity in operations]
    if any(judgement is not None for _, judgement in pairs):
        rows.append(["healthy", *(healthy(column) for column in largest)])
        rows.append(["verdict", *(_word(pairs, quantity) for quantity in operations)])
    algorithms = [_algorithm(column) for column in largest]
    if any(algorithms):
        rows.append(["algorithm", *(word or units.UNKNOWN for word in algorithms)])
    ranks = sorted({str(figure.details.get("ranks")) for figure, _ in pairs} - {"None"})
    engine = next((figure.engine for figure, _ in pairs if figure.engine), None)
    if variant:
        title += f", {clean(variant, 40)}"
    about = [f"{', '.join(ranks)} ranks"] if ranks else []
    about += [clean(engine, 30)] if engine else []
    about += [SIMULATED] if any(figure.simulated for figure, _ in pairs) else []
    title += f" ({', '.join(about)})" if about else ""
    return f"{title}\n" + table([quantity.title for quantity in operations], rows, corner="size")


def _cell(figure: Measurement | None) -> str:
    if figure is None:
        return units.UNKNOWN
    if figure.value is None:
        return clean(figure.verdict or units.UNKNOWN, 12)
    return units.figure(figure.value) + ("!" if figure.verdict == "wrong-data" else "")


def _largest(pairs: Pairs, quantity: Quantity) -> Pairs:
    """The figure of the largest message, because the plateau counts."""
    alike = [
        pair for pair in pairs if quantity_of(pair[0]) == quantity and pair[0].value is not None
    ]
    return sorted(alike, key=lambda pair: pair[0].bytes_per_copy or 0)[-1:]


def _word(pairs: Pairs, quantity: Quantity) -> str:
    word = verdict([pair for pair in pairs if quantity_of(pair[0]) == quantity])
    return "no ref." if word == "no reference" else word


def _algorithm(column: Pairs) -> str:
    for figure, _ in column:
        said = figure.details.get("algorithm")
        if isinstance(said, str):
            return clean(said, 12)
    return ""


def sweep(pairs: Pairs, heading: str) -> str:
    """Rows are sizes, columns the lowest, median and highest of all devices or pairs."""
    by_size: dict[int, list[Measurement]] = {}
    for figure, _ in pairs:
        if figure.value is not None:
            by_size.setdefault(figure.bytes_per_copy or 0, []).append(figure)
    rows = []
    for size in sorted(by_size):
        values = [figure.value for figure in by_size[size] if figure.value is not None]
        each = [units.figure(pick(values)) for pick in (min, statistics.median, max)]
        rows.append([units.size(size), *each])
    return f"{heading}\n" + table(["lowest", "median", "highest"], rows, corner="size")


def at_once(pairs: Pairs, totals: Sequence[Measurement], names: Mapping[str, str]) -> str:
    """Simultaneous copies, a row for each pattern: GB/s of each copy and of all together."""
    by_pattern: dict[str, list[float]] = {}
    for figure, _ in pairs:
        if figure.value is not None:
            by_pattern.setdefault(figure.variant or "", []).append(figure.value)
    together = {figure.variant or "": figure.value for figure in totals}
    rows = []
    for pattern in dict.fromkeys((*by_pattern, *together)):
        values = by_pattern.get(pattern, [])
        each = [units.figure(pick(values)) for pick in (min, statistics.median, max) if values]
        each = each or [units.UNKNOWN] * 3
        rows.append(
            [
                clean(with_names(pattern, names), 34),
                str(len(values)),
                *each,
                units.figure(together.get(pattern)),
            ]
        )
    head = ["copies", "lowest", "median", "highest", "together"]
    title = "copies at once, GB/s of each and of all" + made_up([figure for figure, _ in pairs])
    return f"{title}\n" + table(head, rows, corner="pattern")
