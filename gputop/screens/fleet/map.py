"""The map of a fleet: a cell for each node, in the order of their names."""

from __future__ import annotations

from textual import events
from textual.message import Message

from gputop.screens.fleet.cells import chunks, merged, per_cell, shared, state_cells
from gputop.screens.fleet.head import legend
from gputop.topology.fleet.fleet import Fleet
from gputop.widgets.board import Board
from gputop.widgets.spans import Line, cut, width_of


class FleetMap(Board):
    """Rows of cells, and below them what their signs mean."""

    class CellPicked(Message):
        """The nodes of a cell were clicked."""

        def __init__(self, hosts: tuple[str, ...]) -> None:
            super().__init__()
            self.hosts = hosts

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._hosts: tuple[str, ...] = ()
        self._across = 1
        """Cells in a row."""
        self._step = 1
        """Columns that a cell takes."""
        self._cells = 1

    def show_fleet(self, fleet: Fleet, marked: frozenset[str], width: int, rows: int) -> None:
        """Draw all nodes in at most so many rows; marked nodes stand out."""
        self._hosts = fleet.hosts
        room = max(width - 2, 1)
        self._step = 2 if len(fleet.hosts) * 2 <= room else 1
        self._across = room // self._step
        self._cells = self._across * rows
        spans = state_cells(fleet.hosts, fleet.states, self._cells, marked)
        if self._step > 1:
            spans = [part for text, ink in spans for part in ((text, ink), (" ", ""))]
        across = self._across * self._step
        lines: list[Line] = [
            ((" ", ""), *merged(spans[start : start + across]))
            for start in range(0, len(spans), across)
        ]
        said = legend(fleet)
        meaning = shared(len(fleet.hosts), self._cells)
        below: Line = ((" ", ""), *said)
        if width_of(below) + len(meaning) + 1 <= width:
            below = (*below, (f"· {meaning}", "muted"))
        elif per_cell(len(fleet.hosts), self._cells) > 1:
            # What a cell stands for goes before the numbers, which the first line has too.
            below = ((f" {meaning}  ", "muted"), *said)
        self.show((*lines, cut(below, width)))

    def on_click(self, event: events.Click) -> None:
        """Give the nodes under the mouse."""
        at = event.get_content_offset(self)
        if at is None or at.x < 1:
            return
        parts = chunks(self._hosts, self._cells)
        column = (at.x - 1) // self._step
        place = at.y * self._across + column
        if column < self._across and 0 <= place < len(parts):
            self.post_message(self.CellPicked(tuple(parts[place])))
