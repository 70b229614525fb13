"""Tables of single devices, and of the cost of first use."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from gputop.commands.probe.table import made_up, table, wrapped
from gputop.commands.probe.verdict_text import Pairs, healthy, verdict
from gputop.measuring.quantities import quantity_of
from gputop.probes.protocol.quantity import Quantity
from gputop.terminal.clean import clean
from gputop.topology.model import units
from gputop.topology.model.snapshot import Measurement

MOST_COLUMNS = 12
"""With more figures than this, figures become rows and devices columns."""
MOST_DEVICES = 4
"""With more devices than this, only the lowest, median and highest figures are shown."""
_LONGEST_LABEL = 32

Column = tuple[Quantity, str]
"""A quantity and a variant."""


def device_tables(pairs: Pairs, names: Mapping[str, str]) -> str:
    """Rows are devices and columns are figures; swapped where there are many figures."""
    columns: dict[Column, list[int]] = {}
    for place, (figure, _) in enumerate(pairs):
        columns.setdefault((quantity_of(figure), figure.variant or ""), []).append(place)
    devices = list(dict.fromkeys(figure.src or "" for figure, _ in pairs))
    order = list(names)
    devices.sort(
        key=lambda device: (
            order.index(device) if device in names else len(order),
            not device,
            device,
        )
    )
    grouped = {key: [pairs[place] for place in places] for key, places in columns.items()}
    counted = _counted([figure for figure, _ in pairs])
    if len(columns) <= MOST_COLUMNS:
        return _by_device(grouped, devices, names) + counted
    return _by_figure(grouped, devices, names) + counted


def _by_device(
    columns: Mapping[Column, Pairs], devices: Sequence[str], names: Mapping[str, str]
) -> str:
    rows = [
        [_name(device, names), *(_cell(column, device) for column in columns.values())]
        for device in devices
    ]
    if _judged(columns):
        rows.append(["healthy", *(healthy(column) for column in columns.values())])
        rows.append(["verdict", *(_short(verdict(column)) for column in columns.values())])
    return table([_head(key) for key in columns], rows, corner=_unit(columns))


def _by_figure(
    columns: Mapping[Column, Pairs], devices: Sequence[str], names: Mapping[str, str]
) -> str:
    each, judged = len(devices) <= MOST_DEVICES, _judged(columns)
    head = [_name(device, names) for device in devices] if each else ["lowest", "median", "highest"]
    rows = []
    for key, column in columns.items():
        values = [figure.value for figure, _ in column if figure.value is not None]
        if each:
            cells = [_cell(column, device) for device in devices]
        elif values:
            cells = [units.figure(pick(values)) for pick in (min, statistics.median, max)]
        else:
            cells = [units.UNKNOWN] * 3
        if judged:
            cells += [healthy(column), _short(verdict(column))]
        rows.append([_head(key)[:_LONGEST_LABEL], *cells])
    return table([*head, "healthy", "verdict"] if judged else head, rows, corner=_unit(columns))


def _judged(columns: Mapping[Column, Pairs]) -> bool:
    return any(judgement is not None for column in columns.values() for _, judgement in column)


def _counted(figures: Sequence[Measurement]) -> str:
    """What the figures count, each way once."""
    said = dict.fromkeys(figure.counted for figure in figures if figure.counted)
    return "\n" + wrapped(f"counted: {clean('; '.join(said), 200)}") if said else ""


def _cell(column: Pairs, device: str) -> str:
    for figure, _ in column:
        if (figure.src or "") == device:
            return units.figure(figure.value)
    return units.UNKNOWN


def _short(word: str) -> str:
    return "no ref." if word == "no reference" else word


def _unit(columns: Mapping[Column, Pairs]) -> str:
    figures = [figure for column in columns.values() for figure, _ in column]
    units_ = dict.fromkeys(figure.unit for figure in figures if figure.unit)
    return ", ".join(units_) + made_up(figures)


def _head(key: Column) -> str:
    quantity, variant = key
    start = quantity.heading or quantity.title
    return clean(f"{start} {variant}".strip() or quantity.key, 60)


def _name(address: str, names: Mapping[str, str]) -> str:
    return names.get(address, clean(address, 16)) if address else "all"


def first_use(figures: Sequence[Measurement], names: Mapping[str, str]) -> str:
    """The cost of the first call compared with the steady state."""
    rows = []
    for figure in figures:
        label = clean(figure.variant or figure.quantity, 40)
        if figure.src:
            label += f", {_name(figure.src, names)}"
        said = figure.details.get("steady_us")
        steady = float(said) if isinstance(said, int | float) else None
        times = units.UNKNOWN
        if steady and figure.value:
            times = f"{figure.value * 1e6 / steady:,.0f} x"
        rows.append([label, _seconds(figure.value), _steady(steady), times])
    return "first use against the steady state\n" + table(["first", "steady", "ratio"], rows)


def _seconds(value: float | None) -> str:
    if value is None:
        return units.UNKNOWN
    return f"{value:.2f} s" if value >= 1 else _steady(1e6 * value)


def _steady(value: float | None) -> str:
    if value is None:
        return units.UNKNOWN
    return f"{value / 1e3:.2f} ms" if value >= 1e3 else f"{value:.1f} us"
