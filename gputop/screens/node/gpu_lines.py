"""The lines of the GPU table: which columns fit, and a line for each GPU; made without a screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from gputop.topology.hardware.vendors import vendors_of
from gputop.topology.model.units import UNKNOWN
from gputop.topology.wiring.graph import numbered
from gputop.widgets import gpu_cells as cells
from gputop.widgets.gpu_cells import Row
from gputop.widgets.spans import Line, left, right, text_of

if TYPE_CHECKING:
    from gputop.live.findings import Shown
    from gputop.topology.model.snapshot import NodeSnapshot


class Column(msgspec.Struct, frozen=True):
    """One column: the lower `rank`, the longer it stays when the terminal is narrow."""

    title: str
    width: int
    rank: int
    cell: Callable[[Row, int], Line]
    at_left: bool = False


COLUMNS = (
    Column("GPU", 4, 0, cells.index),
    Column("PCI", 7, 3, cells.address, at_left=True),
    Column("Name", 8, 6, cells.name, at_left=True),
    Column("Utilisation", 11, 0, cells.utilization, at_left=True),
    Column("GiB used", 9, 1, cells.memory),
    Column("Watt", 8, 2, cells.power),
    Column("SM MHz", 6, 7, cells.clock),
    Column("°C", 3, 2, cells.temperature),
    Column("Slowed by", 11, 4, cells.held_by, at_left=True),
    Column("NVLink", 6, 3, cells.links),
    Column("NVLink GB/s", 12, 8, cells.link_traffic, at_left=True),
    Column("PCIe", 8, 4, cells.pcie),
    Column("PCIe GB/s", 12, 10, cells.pcie_traffic, at_left=True),
    Column("NUMA", 4, 5, cells.numa),
    Column("Processes", 12, 9, cells.process, at_left=True),
)
NAME, UTILISATION, PROCESSES, ADDRESS = "Name", "Utilisation", "Processes", "PCI"
LINKS, WATT, CLOCK = "NVLink", "Watt", "SM MHz"


def rows_of(
    snapshot: NodeSnapshot, stale: bool = False, shown: Shown | None = None
) -> tuple[Row, ...]:
    """Join every GPU of a snapshot with its reading, and with the sign of what was found of it."""
    marks = (
        {}
        if shown is None
        else {
            gpu.address: mark
            for gpu in snapshot.machine.gpus
            if (mark := shown.mark(gpu.address)) is not None
        }
    )
    readings = {reading.address: reading for reading in snapshot.readings.gpus}
    processes = {process.pid: process for process in snapshot.readings.processes}
    most: dict[str | None, int] = {}
    for gpu in snapshot.machine.gpus:
        fixed = cells.active_links(gpu) if cells.has_fixed_links(gpu) else None
        most[gpu.name] = max(most.get(gpu.name, 0), fixed or 0)
    rows = [
        Row(
            gpu,
            readings.get(gpu.address),
            processes,
            stale,
            most[gpu.name],
            marks.get(gpu.address, ("", "")),
        )
        for gpu in snapshot.machine.gpus
    ]
    return tuple(
        sorted(
            rows,
            key=lambda row: numbered(row.gpu),
        )
    )


def matching(rows: Sequence[Row], words: str) -> tuple[Row, ...]:
    """Rows in which every word occurs: in index, name, address, UUID, or a process.

    A number that is an index means that GPU alone: nearly every UUID holds every digit.
    """
    wanted = words.lower().split()
    by_index = tuple(row for row in rows if [str(row.gpu.number)] == wanted)
    if by_index:
        return by_index
    return tuple(row for row in rows if all(word in _haystack(row) for word in wanted))


def _haystack(row: Row) -> str:
    gpu = row.gpu
    parts: list[str | None] = [
        str(gpu.number),
        gpu.name or cells.model(gpu),
        gpu.address,
        gpu.uuid,
        "lost" if row.lost else "",
    ]
    for process in (row.reading.processes if row.reading is not None else None) or ():
        known = row.processes.get(process.pid)
        parts.append(str(process.pid))
        parts += [known.command, known.user] if known is not None else []
    return " ".join(str(part) for part in parts if part).lower()


def fitting(rows: Sequence[Row], width: int) -> tuple[Column, ...]:
    """Choose the columns that fit, widened where room is left."""
    names = {cells.model(row.gpu) for row in rows}
    longest = max(map(len, names), default=4)
    long_address = max((len(cells.short_address(row.gpu.address)) for row in rows), default=7)
    vendors = vendors_of(row.gpu for row in rows)
    alone = vendors[0] if len(vendors) == 1 else None
    columns = []
    for column in COLUMNS:
        if column.title == NAME:
            # One name for all stands in the identity line already.
            rank = column.rank if len(names) == 1 else 2
            column = replace(column, width=min(max(longest, 4), 24), rank=rank)
        elif column.title == ADDRESS:
            column = replace(column, width=max(long_address, 3))
        elif column.title.startswith(LINKS) and vendors:
            link = alone.link if alone is not None and alone.known else "Links"
            title = column.title.replace(LINKS, link)
            column = replace(column, title=title, width=max(len(title), column.width))
        elif column.title == WATT and any((row.gpu.power_limit_watts or 0) >= 1000 for row in rows):
            column = replace(column, width=len("1400/1400"))
        elif column.title == CLOCK and vendors:
            clock = max(len(f"{vendor.clock} MHz") for vendor in vendors)
            title = f"{alone.clock} MHz".lstrip() if alone is not None else "MHz"
            column = replace(column, title=title, width=max(clock, column.width))
        if column.rank < 7 or not _all_unknown(column, rows):
            columns.append(column)
    gap = _gap(width)
    while len(columns) > 1 and _total(columns, gap) > width:
        columns.remove(max(columns, key=lambda column: column.rank))
    spare = width - _total(columns, gap)
    for title, most in ((UTILISATION, 8), (PROCESSES, 24)):
        grow = min(spare, most)
        columns = [
            replace(column, width=column.width + grow) if column.title == title else column
            for column in columns
        ]
        spare = width - _total(columns, gap)
    return tuple(columns)


def _all_unknown(column: Column, rows: Sequence[Row]) -> bool:
    texts = (text_of(column.cell(row, column.width)).strip() for row in rows)
    return all(text == UNKNOWN for text in texts)


def _gap(width: int) -> int:
    return 2 if width >= 100 else 1


def _total(columns: Sequence[Column], gap: int) -> int:
    return sum(column.width for column in columns) + gap * (len(columns) - 1)


def table(rows: Sequence[Row], width: int) -> tuple[Line, ...]:
    """Write the header and a line for every row."""
    columns = fitting(rows, width)
    gap = (" " * _gap(width), "")
    head: list[tuple[str, str]] = []
    for column in columns:
        if head:
            head.append(gap)
        fit = left if column.at_left else right
        head.append((fit(column.title, column.width), "muted"))
    lines = [tuple(head)]
    for row in rows:
        spans: list[tuple[str, str]] = []
        for column in columns:
            if spans:
                spans.append(gap)
            spans.extend(column.cell(row, column.width))
        lines.append(tuple(spans))
    return tuple(lines)
