"""Measurements as plain text: matrices for pairs, tables for the rest, verdicts beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gputop.commands.probe.device_tables import HEADS, device_tables, first_use
from gputop.commands.probe.figure_text import Pairs, low_lines, said, unjudged, verdict_line
from gputop.commands.probe.size_tables import OPERATIONS, at_once, collective_tables, sweep
from gputop.commands.probe.table import table, wrapped
from gputop.measuring.expected import Expectations
from gputop.terminal.clean import clean
from gputop.topology.model import units
from gputop.topology.model.snapshot import Measurement

TITLES = {
    "can_access": "peer access granted by the driver (not a data test)",
    "bytes_arrive": "bytes arrive: stored by a kernel of the row, read and compared on the column",
    "write_bandwidth": "one way, GB/s: row writes into the memory of the column",
    "read_bandwidth": "one way, GB/s: row reads out of the memory of the column",
    "both_ways_bandwidth": "both ways at once, GB/s of the direction row to column",
    "together_bandwidth": "both ways at once, both directions added, GB/s",
    "kernel_write_bandwidth": "a kernel of the row writes into the memory of the column, GB/s",
    "kernel_read_bandwidth": "a kernel of the row reads out of the memory of the column, GB/s",
    "staged_bandwidth": "through the memory of the host instead, GB/s: row to column",
    "latency": "latency, us",
    "kernel_latency": "a kernel of the row chases pointers in the memory of the column, us",
    "concurrent_bandwidth": "copies at once, GB/s: row to column",
    "send_receive": "send and receive, compared, GB/s: row sends, column receives",
}
"""Quantity -> what its matrix shows; also the order of the matrices."""
ELSEWHERE = (
    "collective_finishes", "communicator_init", "all_reduce_algbw", "transport",
)  # fmt: skip
"""Of the probe nccl: what its check tells beside the prediction."""

MOST = 1e9
"""From here on a figure is written with a power of ten, so that it stays in its column."""


def tables(measurements: Sequence[Measurement], names: Mapping[str, str]) -> str:
    """All figures without verdicts; see `report`."""
    return report(Expectations(tuple(measurements)), names)


def report(known: Expectations, names: Mapping[str, str]) -> str:
    """All figures of a run and what is thought of them, at most 80 columns wide.

    `names` gives the label of a device by address.
    """
    pairs = [pair for pair in known.pairs() if not _told_elsewhere(pair[0])]
    blocks = _matrices(pairs, names)

    def those(wanted: Callable[[Measurement], bool]) -> Pairs:
        return [pair for pair in pairs if wanted(pair[0])]

    swept = those(lambda figure: figure.quantity == "write_sweep")
    if swept:
        blocks.append(sweep(swept, "one way by size of a copy, GB/s, over all pairs"))
    total = [figure for figure, _ in those(lambda figure: figure.quantity == "concurrent_total")]
    copies = those(lambda figure: figure.quantity == "concurrent_bandwidth")
    if copies or total:
        blocks.append(at_once(copies, total, names))
    of_devices = those(lambda figure: figure.quantity in HEADS)
    if of_devices:
        blocks.append(device_tables(of_devices, names))
    blocks += collective_tables(those(lambda figure: figure.quantity in OPERATIONS))
    first = [figure for figure, _ in those(lambda figure: figure.quantity == "first_use")]
    if first:
        blocks.append(first_use(first, names))
    others = [figure for figure, _ in those(_is_other)]
    if others:
        blocks.append(_rows(others, names))
    blocks.append("\n".join(_odd([figure for figure, _ in pairs], names)))
    ends = (*low_lines(known, names), *said(known), unjudged(known))
    blocks.append("\n".join(line for line in ends if line))
    return "\n\n".join(block for block in blocks if block)


def _told_elsewhere(figure: Measurement) -> bool:
    if figure.probe != "nccl":
        return False
    return figure.quantity in ELSEWHERE or figure.quantity in OPERATIONS


def _is_other(figure: Measurement) -> bool:
    known = (*TITLES, *HEADS, *OPERATIONS, "write_sweep", "concurrent_total", "first_use")
    return figure.quantity not in known


def _rows(figures: Sequence[Measurement], names: Mapping[str, str]) -> str:
    """Figures that no table knows."""
    rows = [
        [
            f"{_words(figure.quantity)} {clean(figure.variant or '', 30)}".strip()[:44],
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
    ends = [_name(one, names) for one in (figure.src, figure.dst) if one is not None]
    return " -> ".join(ends) or _words(figure.quantity)


def _words(quantity: str) -> str:
    return clean(quantity.replace("_", " "), 40)


def _matrices(pairs: Pairs, names: Mapping[str, str]) -> list[str]:
    """A matrix for each quantity and variant, rows = source, columns = destination."""
    blocks = []
    for quantity, heading in TITLES.items():
        alike = [pair for pair in pairs if pair[0].quantity == quantity]
        for variant in dict.fromkeys(figure.variant for figure, _ in alike):
            found = [pair for pair in alike if pair[0].variant == variant]
            figures = [figure for figure, _ in found]
            if quantity == "concurrent_bandwidth" and not _is_whole(figures):
                continue  # a ring or a star: its row among the patterns says all
            head = heading + (f", {clean(variant, 60)}" if variant else "") + _method(figures)
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
    """Whether every ordered pair of its devices has a figure."""
    devices = {one for figure in figures for one in (figure.src, figure.dst)}
    return len(figures) >= len(devices) * (len(devices) - 1)


def _one_word(figures: Sequence[Measurement]) -> str:
    """What all pairs have in common, where that is a word; a matrix of it would say no more."""
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
    if spreads:
        about.append(f"widest spread {100 * max(spreads):.1f} %")
    return f" ({'; '.join(about)})" if about else ""


def _matrix(figures: Sequence[Measurement], names: Mapping[str, str]) -> str:
    cells = {(figure.src, figure.dst): _cell(figure) for figure in figures}
    devices = list(dict.fromkeys(address or "" for pair in cells for address in pair))
    order = list(names)
    devices.sort(key=lambda one: (order.index(one) if one in names else len(order), one))
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
