"""The GPU table as a widget, with the cursor on one GPU."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace
from textual import events
from textual.message import Message

from gputop.live.recent import LINKS, UTILISATION
from gputop.screens.node.gpu_lines import COLUMNS, WHOLE, GpuColumn, matching, table
from gputop.terminal.clean import clean
from gputop.widgets.board import Board
from gputop.widgets.named_list import heading_at
from gputop.widgets.spans import Cells

if TYPE_CHECKING:
    from gputop.widgets.gpu_cells import Row


SORTS = ("number", "utilisation", "memory", "power", "temperature", "link traffic")
"""The orders of the table; the key goes through them."""
_CALM_SECONDS = 5.0
"""How long an order by moving figures stays, so that lines do not jump with every reading."""
TITLES = {"GPU": 0, "Util %": 1, "Util 60 s": 1, "Mem GiB": 2, "W": 3, "Power W": 3, "°C": 4}
"""Heading -> its place in SORTS; any heading of traffic goes by the last."""
MEANS = {"utilisation": UTILISATION, "link traffic": LINKS}
"""Orders by what the last minute had on average, as its bar shows it."""


def _sorted_by(row: Row, order: str) -> float:
    """The figure that a row is sorted by, the largest first; unknown ones come last."""
    reading = row.reading
    if reading is None:
        return -1.0
    if order in MEANS:
        mean = None if row.recent is None else row.recent.mean(row.gpu.address, MEANS[order])
        return -1.0 if mean is None else mean
    known: dict[str, float | None] = {
        "memory": reading.memory_used_bytes,
        "power": reading.power_watts,
        "temperature": reading.temperature_c,
    }
    value = known[order]
    return -1.0 if value is None else float(value)


class GpuTable(Board):
    """GPUs, one a line, with a cursor that follows a GPU and not a line."""

    class Sorted(Message):
        """Another order was asked for."""

    class GpuPicked(Message):
        """Another GPU was selected; `twice`: by a double click, which asks why."""

        def __init__(self, address: str, twice: bool = False) -> None:
            super().__init__()
            self.address = address
            self.twice = twice

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(fixed_rows=1, id=id, classes=classes)
        self.selected: str | None = None
        self.filter = ""
        self.columns: Sequence[GpuColumn] = COLUMNS
        """The columns that may be shown."""
        self._rows: tuple[Row, ...] = ()
        self._all: tuple[Row, ...] = ()
        self._sort = 0
        self._rising = False
        """Whether the smallest figure comes first."""
        self._order: list[str] = []
        """PCI address -> place, of an order by moving figures."""
        self._placed_at = 0.0

    @property
    def order(self) -> str:
        """By what the GPUs are sorted, for the heading; "" for their numbers."""
        if not self._sort:
            return ""
        how = "60 s mean" if self.sorted_by in MEANS else f"every {_CALM_SECONDS:.0f} s"
        return f"by {self.sorted_by}, {how}{', smallest first' * self._rising}"

    @property
    def filtered(self) -> str:
        """How many GPUs the filter leaves, for the heading; "" without one."""
        left = f"{len(self._rows)} of {len(self._all)}"
        return f"filter “{clean(self.filter)}”: {left}" if self.filter else ""

    @property
    def sorted_by(self) -> str:
        """One of SORTS."""
        return SORTS[self._sort]

    def sort_next(self) -> None:
        """Sort by the next figure."""
        self._sort, self._rising = (self._sort + 1) % len(SORTS), False
        self._order = []

    def sort_by(self, order: str) -> None:
        """Sort by one of SORTS; by number where there is none of that name."""
        self._sort = SORTS.index(order) if order in SORTS else 0

    def _in_order(self, rows: Sequence[Row]) -> tuple[Row, ...]:
        if not self._sort:
            return tuple(reversed(rows) if self._rising else rows)
        now = time.monotonic()
        known = set(self._order) == {row.gpu.address for row in rows}
        if not known or now - self._placed_at >= _CALM_SECONDS:
            sign = 1 if self._rising else -1
            order = sorted(rows, key=lambda row: sign * _sorted_by(row, SORTS[self._sort]))
            self._order = [row.gpu.address for row in order]
            self._placed_at = now
        return tuple(sorted(rows, key=lambda row: self._order.index(row.gpu.address)))

    def show_rows(self, rows: Sequence[Row]) -> None:
        """Put these GPUs on screen, those that pass the filter."""
        self._all = tuple(rows)
        rows = self._in_order(rows)
        found = matching(rows, self.filter) if self.filter else rows
        if self.selected not in {row.gpu.address for row in found} and found:
            # At the start GPU 0, wherever an order by figures has put it.
            first = found[0] if self.selected else next(row for row in self._all if row in found)
            self.selected = first.gpu.address
        self._rows = tuple(
            replace(row, selected=True) if row.gpu.address == self.selected else row
            for row in found
        )
        # `size` counts the column of the scroll bar too.
        width = self.scrollable_content_region.width or self.app.size.width
        lines = table(self._rows, width, self._seen(), self.columns)
        if not found:
            lines = (*lines[:1], ((f" no GPU matches “{clean(self.filter)}”", "muted"),))
        marks = [
            Cells(line, 0, width) for line, row in enumerate(self._rows, start=1) if row.selected
        ]
        self.show(lines, marks)

    def _seen(self) -> slice:
        """The rows that can be seen; all before the table has its place."""
        height = self.scrollable_content_region.height
        return slice(self.scroll_offset.y, self.scroll_offset.y + height) if height else WHOLE

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Make the lines that come into view."""
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self.show_rows(self._all)

    def move(self, step: int) -> None:
        """Select the GPU that many lines further down."""
        addresses = [row.gpu.address for row in self._rows]
        if not addresses:
            return
        here = addresses.index(self.selected) if self.selected in addresses else 0
        self.select(addresses[min(max(here + step, 0), len(addresses) - 1)])

    def select(self, address: str) -> None:
        """Put the cursor on a GPU."""
        if address == self.selected:
            return
        self.selected = address
        self.show_rows(self._all)
        if self.marks:
            self.reveal(Cells(self.marks[0].line, 0, 0))
        self.post_message(self.GpuPicked(address))

    def on_click(self, event: events.Click) -> None:
        """Select the GPU under the mouse; a double click asks why. A heading sorts, or reverses."""
        place = event.get_content_offset(self)
        line = None if place is None else self.line_at(place.y)
        if place is not None and line == 0:
            title = heading_at(self.lines[0], place.x)
            chosen = TITLES.get(title, len(SORTS) - 1 if "GB/s" in title else None)
            if chosen is not None:
                self._rising = chosen == self._sort and not self._rising
                self._sort, self._order = chosen, []
                self.post_message(self.Sorted())
        if line is None or not 0 < line <= len(self._rows):
            return
        address = self._rows[line - 1].gpu.address
        if event.chain > 1:
            self.post_message(self.GpuPicked(address, twice=True))
        else:
            self.select(address)
