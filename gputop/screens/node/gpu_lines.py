"""The lines of the GPU table: which columns fit, and a line for each GPU; made without a screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from gputop.screens.node import cells
from gputop.terminal.clean import clean
from gputop.terminal.nearest import instead
from gputop.topology.hardware.vendors import vendors_of
from gputop.topology.model.units import UNKNOWN
from gputop.topology.wiring.devices import devices_of
from gputop.topology.wiring.gpu_names import numbered
from gputop.widgets import gpu_cells as common
from gputop.widgets.gpu_cells import Row
from gputop.widgets.spans import Line, left, right, text_of

if TYPE_CHECKING:
    from gputop.live.findings import Shown
    from gputop.live.recent import Recent
    from gputop.topology.explain.nics import GpuNic
    from gputop.topology.model.snapshot import NodeSnapshot


KEPT_RANK = 7
"""Columns of a lower rank stay although nothing is known: a dash there is an answer."""


class GpuColumn(msgspec.Struct, frozen=True):
    """One column: the lower `rank`, the longer it stays when the terminal is narrow."""

    title: str
    width: int
    rank: int
    cell: Callable[[Row, int], Line]
    at_left: bool = False


COLUMNS = (
    GpuColumn("GPU", 4, 0, common.index),
    GpuColumn("PCI", 7, 8, common.address, at_left=True),
    GpuColumn("Name", 8, 2, common.name, at_left=True),
    GpuColumn("Util %", 10, 0, cells.utilization),
    GpuColumn("Mem GiB", 9, 1, cells.memory),
    GpuColumn("W", 4, 2, cells.power),
    GpuColumn("°C", 3, 2, common.temperature),
    GpuColumn("SM MHz", 6, 10, common.clock),
    GpuColumn("Slowed by", 12, 2, common.held_by, at_left=True),
    GpuColumn("NVLink", 6, 1, cells.link, at_left=True),
    GpuColumn("Util 60 s", 9, 4, cells.history),
    GpuColumn("PCIe", 10, 6, common.pcie),
    GpuColumn("PCIe GB/s", 12, 9, common.pcie_traffic, at_left=True),
    GpuColumn("NVLink 60 s", 12, 11, cells.link_history),
    GpuColumn("NUMA", 4, 12, common.numa),
    GpuColumn("NIC", 4, 4, cells.nic, at_left=True),
    GpuColumn("NIC GB/s", 12, 7, cells.nic_traffic, at_left=True),
    GpuColumn("Jobs", 10, 5, cells.job, at_left=True),
)
NAME, ADDRESS, LINKS, LINKS_PAST = "Name", "PCI", "NVLink", "NVLink 60 s"
CLOCK, SLOWED, PCIE, NIC, POWER = "SM MHz", "Slowed by", "PCIe", "NIC", "W"
NIC_TRAFFIC = "NIC GB/s"
ROOMY = 110
"""Columns of a terminal from which the power has a bar, and traffic both its ways."""
TRAFFIC_CELLS = 12
"""Cells of the links' column with the traffic behind the count."""
GROWING = (
    (cells.utilization, 12), (cells.memory, 12), (cells.link, cells.BOTH_WAYS), (cells.job, 16),
    (cells.history, 12), (cells.power, 10), (cells.link_history, 16), (cells.utilization, 16),
    (cells.job, 26), (cells.memory, 22), (cells.history, 20), (cells.utilization, 24),
)  # fmt: skip
"""Columns that take the room that is left, and up to which width, in this order."""
WHOLE = slice(None)


def rows_of(
    snapshot: NodeSnapshot,
    stale: bool = False,
    shown: Shown | None = None,
    nics: Mapping[str, GpuNic] | None = None,
    recent: Recent | None = None,
) -> tuple[Row, ...]:
    """Join every GPU of a snapshot with its reading, its NIC, and what was found of it."""
    processes = {process.pid: process for process in snapshot.readings.processes}
    devices = devices_of(snapshot.machine)
    rows = [
        Row(
            gpu,
            snapshot.readings.gpu(gpu.address),
            processes,
            stale,
            devices.links_missing(gpu),
            (shown.mark(gpu.address, jobs=True) if shown is not None else None) or ("", ""),
            nic=(found := (nics or {}).get(gpu.address)),
            nic_pace=snapshot.readings.nic(found.name) if found is not None else (None, None),
            recent=recent,
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
        gpu.name or common.model(gpu),
        gpu.address,
        gpu.uuid,
        "lost" if row.lost else "",
    ]
    for process in (row.reading.processes if row.reading is not None else None) or ():
        known = row.processes.get(process.pid)
        parts.append(str(process.pid))
        parts += [known.command, known.user] if known is not None else []
    return " ".join(str(part) for part in parts if part).lower()


def chosen(titles: Sequence[str]) -> tuple[tuple[GpuColumn, ...], tuple[str, ...]]:
    """The columns of these titles behind the number, and a sentence for each title that is none.

    The first ones stay longest where the terminal is narrow. Without a title they are the usual
    ones.
    """
    by_title = {column.title.lower(): column for column in COLUMNS}
    wanted = dict.fromkeys(("gpu", *(title.lower() for title in titles)))
    found = [
        replace(by_title[name], rank=rank) for rank, name in enumerate(wanted) if name in by_title
    ]
    known = [column.title for column in COLUMNS]
    unknown = tuple(
        f"columns: no {clean(title, 40)!r}{instead(title, known)}"
        for title in titles
        if title.lower() not in by_title
    )
    return tuple(found) if len(found) > 1 else COLUMNS, unknown


def fitting(
    rows: Sequence[Row], width: int, among: Sequence[GpuColumn] = COLUMNS
) -> tuple[GpuColumn, ...]:
    """Choose the columns that fit, widened where room is left.

    A column that says the same of every GPU is left out: `folded` says it once.
    """
    columns = [
        made
        for column in among
        if (made := _fitted(column, rows, width)) and not _empty(made, rows)
    ]
    gap = _gap(width)
    while len(columns) > 1 and _total(columns, gap) > width:
        columns.remove(max(columns, key=lambda column: column.rank))
    for cell, most in GROWING:
        spare = width - _total(columns, gap)
        columns = [
            replace(column, width=min(column.width + spare, max(most, column.width)))
            if column.cell is cell
            else column
            for column in columns
        ]
    return tuple(columns)


def _fitted(column: GpuColumn, rows: Sequence[Row], width: int) -> GpuColumn | None:
    """The column as wide as these GPUs need it and with their vendor's words; None to fold it."""
    fit = _FITTING.get(column.title)
    return column if fit is None else fit(column, rows, width)


def _fit_name(column: GpuColumn, rows: Sequence[Row], _: int) -> GpuColumn | None:
    names = {common.model(row.gpu) for row in rows}
    if len(names) == 1:
        return None
    return replace(column, width=min(max(map(len, names), default=4), 24))


def _fit_address(column: GpuColumn, rows: Sequence[Row], _: int) -> GpuColumn:
    longest = max((len(common.short_address(row.gpu.address)) for row in rows), default=7)
    return replace(column, width=max(longest, 3))


def _fit_links(column: GpuColumn, rows: Sequence[Row], width: int) -> GpuColumn | None:
    if rows and all(common.without_links(row.gpu) for row in rows):
        return None
    vendors = vendors_of(row.gpu for row in rows)
    link = vendors[0].link if len(vendors) == 1 and vendors[0].known else "Links"
    moves = any(row.reading is not None and _traffic_known(row) for row in rows)
    if column.title == LINKS_PAST:
        return replace(column, title=LINKS_PAST.replace(LINKS, link)) if moves else None
    if not moves:
        return replace(column, title=link, cell=common.links)
    wide = cells.BOTH_WAYS if width >= ROOMY else TRAFFIC_CELLS
    return replace(column, title=f"{link} GB/s", width=wide)


def _fit_clock(column: GpuColumn, rows: Sequence[Row], _: int) -> GpuColumn:
    called = cells.clock_title(tuple(rows))
    return replace(column, title=called, width=max(len(called), column.width))


def _fit_nic(column: GpuColumn, rows: Sequence[Row], _: int) -> GpuColumn | None:
    wide = cells.nic_width(tuple(rows))
    called = _nic_title(rows)
    return replace(column, title=called, width=max(wide, len(called))) if wide else None


def _fit_power(column: GpuColumn, rows: Sequence[Row], width: int) -> GpuColumn:
    kilowatts = any((row.gpu.power_limit_watts or 0) >= 1000 for row in rows)
    wide = column.width + kilowatts
    if width < ROOMY:
        return replace(column, width=wide)
    return replace(column, title=f"Power {POWER}", width=wide + 4)


_FITTING: dict[str, Callable[[GpuColumn, Sequence[Row], int], GpuColumn | None]] = {
    NAME: _fit_name,
    ADDRESS: _fit_address,
    LINKS: _fit_links,
    LINKS_PAST: _fit_links,
    CLOCK: _fit_clock,
    SLOWED: lambda column, rows, _: column if any(map(slowed, rows)) else None,
    NIC_TRAFFIC: lambda column, rows, _: column if any(map(_nic_known, rows)) else None,
    PCIE: lambda column, rows, _: None if pcie_alike(rows) else column,
    NIC: _fit_nic,
    POWER: _fit_power,
}
"""Title -> what its column is for some GPUs."""


def _nic_title(rows: Sequence[Row]) -> str:
    """The title: "NCCL NIC" where the library takes every one; "NIC" where some are only near."""
    nics = [row.nic for row in rows if row.nic is not None]
    vendors = vendors_of(row.gpu for row in rows)
    sure = len(vendors) == 1 and vendors[0].known and all(nic.taken for nic in nics)
    return f"{vendors[0].library} {NIC}" if sure else NIC


def _traffic_known(row: Row) -> bool:
    return row.reading is not None and common.fast_traffic(row.reading) != (None, None)


def _nic_known(row: Row) -> bool:
    return row.nic_pace != (None, None)


def slowed(row: Row) -> bool:
    """Whether something else than rest or the power limit holds the clocks of a GPU down."""
    reasons = None if row.reading is None else row.reading.throttle_reasons
    return any(reason not in common.HARMLESS for reason in reasons or ())


def pcie_alike(rows: Sequence[Row]) -> str:
    """What PCIe all GPUs have, with all their lanes up: "5 x16"; "" where that is not so.

    The generation is the greatest: an idle GPU lowers it.
    """
    kinds = {(row.gpu.pcie_gen_max, row.gpu.pcie_width_max) for row in rows}
    if len(kinds) != 1 or None in (kind := kinds.pop()):
        return ""
    if any(
        row.reading is not None and row.reading.pcie_width not in (None, kind[1]) for row in rows
    ):
        return ""
    return f"{kind[0]} x{kind[1]}"


def caption(rows: Sequence[Row], *more: str) -> str:
    """The heading of the table: what there is to say now, then what all GPUs share."""
    return " · ".join(part for part in ("GPUs", *more, folded(rows)) if part)


def folded(rows: Sequence[Row]) -> str:
    """What is the same for every GPU, for the heading: "PCIe 5 x16 · clocks: nothing throttles"."""
    parts = []
    names = {common.model(row.gpu) for row in rows}
    if len(names) == 1 and (known := names.pop()) != UNKNOWN:
        parts.append(known)
    if pcie := pcie_alike(rows) or cells.fewer_lanes(rows):
        parts.append(f"PCIe {pcie}")
    reasons = [None if row.reading is None else row.reading.throttle_reasons for row in rows]
    if None not in reasons and not any(map(slowed, rows)):
        parts.append(cells.clocks(rows))
    return " · ".join(filter(None, (*parts, cells.rails(rows))))


def _empty(column: GpuColumn, rows: Sequence[Row]) -> bool:
    """Whether a column that may go says nothing of any GPU."""
    timeless = column.title.endswith("60 s") and all(row.recent is None for row in rows)
    return timeless or (column.rank >= KEPT_RANK and _all_unknown(column, rows))


def _all_unknown(column: GpuColumn, rows: Sequence[Row]) -> bool:
    texts = (text_of(column.cell(row, column.width)).strip() for row in rows)
    return all(text == UNKNOWN for text in texts)


def _gap(width: int) -> int:
    return 2 if width >= 100 else 1


def _total(columns: Sequence[GpuColumn], gap: int) -> int:
    return sum(column.width for column in columns) + gap * (len(columns) - 1)


def table(
    rows: Sequence[Row],
    width: int,
    seen: slice = WHOLE,
    among: Sequence[GpuColumn] = COLUMNS,
) -> tuple[Line, ...]:
    """Write the header and a line for every row; those of rows that are not `seen` stay empty."""
    columns = fitting(rows, width, among)
    gap = (" " * _gap(width), "")
    head: list[tuple[str, str]] = []
    for column in columns:
        if head:
            head.append(gap)
        fit = left if column.at_left else right
        head.append((fit(column.title, column.width), "muted"))
    lines: list[Line] = [tuple(head), *[()] * len(rows)]
    for place in range(*seen.indices(len(rows))):
        spans: list[tuple[str, str]] = []
        for column in columns:
            if spans:
                spans.append(gap)
            spans.extend(column.cell(rows[place], column.width))
        lines[1 + place] = tuple(spans)
    return tuple(lines)
