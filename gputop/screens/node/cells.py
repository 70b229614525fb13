"""Cells of the GPU table that only the Node screen has: bars, link and traffic, NIC, history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gputop.live.recent import UTILISATION
from gputop.screens.charts import SPARK_SECONDS, links_past, spark
from gputop.terminal.clean import clean
from gputop.topology.explain.places import FAR, NEAR
from gputop.topology.explain.ports import odd_rails
from gputop.topology.hardware.vendors import vendor_of
from gputop.topology.model.cpulist import written
from gputop.topology.model.units import UNKNOWN, whole
from gputop.widgets.gpu_cells import (
    GIB,
    LINKS_SIGNED,
    Row,
    fast_traffic,
    figure_ink,
    links,
    rate,
    traffic,
)
from gputop.widgets.spans import Line, left, right

if TYPE_CHECKING:
    from gputop.topology.explain.nics import GpuNic

_BAR_FROM = 8
"""Cells of a column from which a bar stands before its figure."""
_TENTHS_FROM = 18
"""Cells of the memory column from which tenths of a GiB stand there."""
BOTH_WAYS = 17
"""Cells of the links' column from which what comes in stands there too."""
PLACE_INKS = {NEAR: "good", FAR: "warn"}
BUSY_PERCENT = 10.0
"""Utilisation from which a GPU without a process that is seen counts as busy."""


def bar(share: float | None, width: int, ink: str) -> Line:
    """A bar of so many cells, to half a cell."""
    halves = round(min(max(share or 0.0, 0.0), 1.0) * width * 2)
    full, half = divmod(halves, 2)
    return (
        ("━" * full + "╸" * half, ink),
        ("─" * (width - full - half), "bar-rest"),
    )


def _figure(share: float | None, text: str, width: int, row: Row, most: int = 3) -> Line:
    """A figure, behind a bar where there is room."""
    ink = "muted" if row.stale or not share else ""
    if width < _BAR_FROM:
        return ((right(text, width), ink),)
    room = max(most, len(text))
    return (
        *bar(share, width - room - 1, "muted" if row.stale else "bar"),
        (" " + right(text, room), ink),
    )


def utilization(row: Row, width: int) -> Line:
    """A bar and the percentage; the word LOST for a GPU that is gone."""
    if row.lost:
        return ((left("LOST", width), "bad"),)
    percent = None if row.reading is None else row.reading.utilization_percent
    return _figure(None if percent is None else percent / 100, whole(percent), width, row)


def memory(row: Row, width: int) -> Line:
    """A bar, the memory in use and all of it in GiB; with tenths where there is room."""
    used = None if row.reading is None else row.reading.memory_used_bytes
    total = row.gpu.memory_bytes
    share = None if used is None or not total else used / total
    tenths = width >= _TENTHS_FROM
    most = len("68.5/79.6") if tenths else len("68/80")
    return _figure(share, f"{_gib(used, tenths)}/{_gib(total, tenths)}", width, row, most)


def _gib(value: float | None, tenths: bool) -> str:
    size = (value or 0.0) / GIB
    if value is None:
        return UNKNOWN
    return f"{size:.1f}" if tenths and size < 99.95 else f"{size:.0f}"


def power(row: Row, width: int) -> Line:
    """Watts drawn, behind a bar up to the limit that is enforced."""
    drawn = None if row.reading is None else row.reading.power_watts
    limit = row.gpu.power_limit_watts
    share = None if drawn is None or not limit else drawn / limit
    if share is None:
        return ((right(whole(drawn), width), figure_ink(drawn, row)),)
    return _figure(share, whole(drawn), width, row, 4 if (limit or 0) >= 1000 else 3)


def link(row: Row, width: int) -> Line:
    """Links that are up, of all, and what goes out over them, GB/s; where there is room in too."""
    count = links(row, min(width, LINKS_SIGNED))
    if width <= LINKS_SIGNED:
        return count
    ways = (None, None) if row.reading is None else fast_traffic(row.reading)
    if width >= BOTH_WAYS:
        ((up, ink),) = count
        return ((left(up.strip(), LINKS_SIGNED), ink), *traffic(*ways, width - LINKS_SIGNED, row))
    if ways[0] is None:
        return (*count, (" " * (width - LINKS_SIGNED), ""))
    gbs = ways[0] / 1e9
    busy = gbs > 0.01 and not row.stale
    text = left(f"↑{rate(gbs)}", width - LINKS_SIGNED - 1)
    return (*count, (f" {text}", "" if busy else "muted"))


def history(row: Row, width: int) -> Line:
    """Utilisation of the last minute."""
    if row.recent is None:
        return ((" " * width, ""),)
    bins = row.recent.bins(row.gpu.address, UTILISATION, width, SPARK_SECONDS)
    return spark(bins.values, 100.0, "muted" if row.stale else "bar")


def link_history(row: Row, width: int) -> Line:
    """Traffic over the links in the last minute, both ways, up to what the links can carry."""
    if row.recent is None:
        return ((" " * width, ""),)
    return links_past(row.gpu, row.recent, width, "muted" if row.stale else "link-nvlink")


def nic(row: Row, width: int) -> Line:
    """The NIC that the library takes for this GPU, and how far it is."""
    if row.nic is None:
        return ((left(UNKNOWN, width), "muted"),)
    place = _place(row.nic)
    name = left(clean(row.nic.name, 24), max(width - len(place) - 1, 1))
    return ((name, "" if row.nic.taken else "muted"), (f" {place}", PLACE_INKS.get(place, "muted")))


def nic_traffic(row: Row, width: int) -> Line:
    """Bytes that its NIC sends and receives, GB/s; a dash where nobody knows."""
    return traffic(*row.nic_pace, width, row)


def rails(rows: Sequence[Row]) -> str:
    """Which NIC of GPUs that compute carries much less than the others."""
    busy = [
        (clean(row.nic.name, 24), row.nic_pace)
        for row in rows
        if row.nic is not None
        and row.reading is not None
        and (row.reading.utilization_percent or 0.0) >= BUSY_PERCENT
    ]
    return odd_rails(busy)


def _place(found: GpuNic) -> str:
    return found.place or "?"


def nic_width(rows: tuple[Row, ...]) -> int:
    """Cells that the column of NICs takes."""
    texts = [
        len(clean(row.nic.name, 24)) + 1 + len(_place(row.nic))
        for row in rows
        if row.nic is not None
    ]
    return max(texts, default=0)


def job(row: Row, width: int) -> Line:
    """The process that holds most memory, with its rank; how many others there are."""
    found = None if row.reading is None else row.reading.processes
    if found is None:
        return ((left(UNKNOWN, width), "muted"),)
    if not found:
        used = row.reading.utilization_percent if row.reading is not None else None
        text = "not seen" if (used or 0.0) >= BUSY_PERCENT else "free"
        return ((left(text, width), "good" if text == "free" and not row.stale else "muted"),)
    top = max(found, key=lambda process: process.memory_bytes or 0)
    known = row.processes.get(top.pid)
    command = clean(known.command, 40) if known is not None and known.command else f"pid {top.pid}"
    rank = f" r{known.rank}" if known is not None and known.rank is not None else ""
    more = f" +{len(found) - 1}" if len(found) > 1 else ""
    user = f" {clean(known.user, 20)}" if known is not None and known.user else ""
    text = f"{command}{rank}{more}"
    if len(text) + len(user) <= width:
        return (
            (text, "muted" if row.stale else ""),
            (left(user, width - len(text)), "muted"),
        )
    return ((left(text, width), "muted" if row.stale else ""),)


def clock_title(rows: tuple[Row, ...]) -> str:
    """What the clock of the compute units is called here: "SM MHz"."""
    clocks = {vendor_of(row.gpu).clock for row in rows}
    return f"{clocks.pop()} MHz".lstrip() if len(clocks) == 1 else "MHz"


def clocks(rows: Sequence[Row]) -> str:
    """Which GPUs are at their power cap, where nothing else holds a clock down."""
    capped = [row.gpu.number for row in rows if "sw power cap" in _reasons(row)]
    if not capped:
        return "clocks: nothing throttles"
    numbers = [number for number in capped if number is not None]
    whose = "every GPU" if len(capped) == len(rows) else f"{len(capped)} GPUs"
    if len(numbers) == len(capped) < len(rows):
        whose = f"GPU{written(numbers)}"
    return f"clocks: power cap on {whose}"


def _reasons(row: Row) -> tuple[str, ...]:
    return () if row.reading is None else row.reading.throttle_reasons or ()


def fewer_lanes(rows: Sequence[Row]) -> str:
    """What PCIe GPUs of one kind have, and which ones run on fewer lanes: "5 x16, GPU3 x8 !"."""
    kinds = {(row.gpu.pcie_gen_max, row.gpu.pcie_width_max) for row in rows}
    if len(kinds) != 1 or None in (kind := kinds.pop()):
        return ""
    lanes = [(row, None if row.reading is None else row.reading.pcie_width) for row in rows]
    short = [(row, width) for row, width in lanes if width is not None and width < (kind[1] or 0)]
    if not short or any(row.gpu.c2c_enabled for row, _ in short):
        return ""
    named = ", ".join(f"GPU{row.gpu.number} x{width}" for row, width in short[:2])
    who = named if len(short) < 3 else f"{len(short)} GPUs narrower"
    return f"{kind[0]} x{kind[1]}, {who} !"
