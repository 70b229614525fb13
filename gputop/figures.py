"""Measurements as plain text: one matrix a quantity, for terminals and logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gputop.clean import clean
from gputop.topology import units
from gputop.topology.snapshot import Measurement

TITLES = {
    "can_access": "peer access granted by the driver (not a data test)",
    "bytes_arrive": "bytes arrive: stored by a kernel of the row, read and compared on the column",
    "write_bandwidth": "one way, GB/s: row writes into the memory of the column",
    "both_ways_bandwidth": "both ways at once, GB/s of the direction row to column",
    "together_bandwidth": "both ways at once, both directions added, GB/s",
    "latency": "latency, us",
    "send_receive": "send and receive, compared, GB/s: row sends, column receives",
}
"""Quantity -> what its matrix shows; also the order of the matrices."""


def tables(measurements: Sequence[Measurement], names: Mapping[str, str]) -> str:
    """All quantities as matrices, rows = source, columns = destination; then odd figures, in words.

    `names` gives the label of a device by address.
    """
    blocks = []
    for quantity, title in TITLES.items():
        figures = [figure for figure in measurements if figure.quantity == quantity]
        if figures:
            blocks.append(f"{title}{_method(figures)}\n{_matrix(figures, names)}")
    odd = [
        f"{_who(figure, names)}: {clean(figure.why_none)}"
        for figure in measurements
        if figure.why_none
    ]
    if odd:
        blocks.append("\n".join(dict.fromkeys(odd)))
    return "\n\n".join(blocks)


def _who(figure: Measurement, names: Mapping[str, str]) -> str:
    if figure.src is None or figure.dst is None:
        return figure.quantity.replace("_", " ")
    return f"{_name(figure.src, names)} -> {_name(figure.dst, names)}"


def _method(figures: Sequence[Measurement]) -> str:
    """Engine and spread, once for the whole matrix."""
    engines = sorted({figure.engine for figure in figures if figure.engine})
    spreads = [
        (figure.high - figure.low) / figure.value
        for figure in figures
        if figure.value and figure.low is not None and figure.high is not None
    ]
    said = [", ".join(clean(engine) for engine in engines)] if engines else []
    if spreads:
        said.append(f"widest spread {100 * max(spreads):.1f} %")
    return f" ({'; '.join(said)})" if said else ""


def _matrix(figures: Sequence[Measurement], names: Mapping[str, str]) -> str:
    cells = {(figure.src, figure.dst): _cell(figure) for figure in figures}
    devices = list(dict.fromkeys(address or "" for pair in cells for address in pair))
    order = list(names)
    devices.sort(key=lambda address: order.index(address) if address in names else len(order))
    labels = {address: _name(address, names) for address in devices}
    width = max(8, *(len(text) + 1 for text in (*labels.values(), *cells.values())))
    lines = [" " * width + "".join(labels[address].rjust(width) for address in devices)]
    for src in devices:
        row = "".join(
            ("·" if src == dst else cells.get((src, dst), units.UNKNOWN)).rjust(width)
            for dst in devices
        )
        lines.append(labels[src].ljust(width) + row)
    return "\n".join(lines)


def _cell(figure: Measurement) -> str:
    if figure.value is None:
        return clean(figure.verdict or units.UNKNOWN, 20)
    wrong = figure.verdict == "wrong-data"
    digits = 1 if figure.value >= 10 else 2
    return f"{figure.value:.{digits}f}" + ("!" if wrong else "")


def _name(address: str | None, names: Mapping[str, str]) -> str:
    return names.get(address or "", clean(address or units.UNKNOWN, 16))
