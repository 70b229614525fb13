"""The matrix of pairs: rows are sources, columns destinations, one measure at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events
from textual.message import Message

from gputop.terminal.clean import clean
from gputop.topology.wiring.codes import has_a_row
from gputop.topology.wiring.gpu_names import gpu_label, numbered
from gputop.widgets.board import Board
from gputop.widgets.measure import SELF, Measure, Pair, Value, heats
from gputop.widgets.nccl_measures import RELAYED
from gputop.widgets.spans import Cells, Grid, Line, centre, left

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gputop.live.findings import Shown
    from gputop.topology.report import Report

LABEL = 7


def devices(report: Report, measure: Measure) -> tuple[tuple[str, str], ...]:
    """Label and PCI address of every row, in the order of the management library."""
    if measure.nics and report.matrix is not None:
        return tuple((_named(row.label), row.address) for row in report.matrix.rows)
    gpus = sorted((gpu for gpu in report.snapshot.machine.gpus if has_a_row(gpu)), key=numbered)
    return tuple((_named(gpu_label(gpu)), gpu.address) for gpu in gpus)


def _cell_width(found: Sequence[tuple[str, str]], values: Mapping[Pair, Value], room: int) -> int:
    """What the widest figure needs with the brackets of the cursor; up to 9 where there is room."""
    widest = max((len(value.word) for value in values.values()), default=0)
    longest = max((len(label) for label, _ in found), default=0)
    return max(widest + 2, longest + 1, min(room // max(len(found), 1), 9))


def _named(label: str) -> str:
    """A label that fits a column: of a GPU without a number bus and device, "3b:00"."""
    return clean(label.removeprefix("0000:").removesuffix(".0"))


def _cell(pair: Pair, value: Value | None, heat: str | None) -> tuple[str, str]:
    """What stands in a cell, and its ink."""
    text = SELF if pair[0] == pair[1] else "…" if value is None else value.word
    return text, heat or (value.ink if value else "muted")


def _told(value: Value | None) -> str:
    return "" if value is None else value.word


class PairMatrix(Board):
    """A heat map with a cursor; it follows a pair of devices, not a place."""

    mark_ink = "pick"

    class PairPicked(Message):
        """Another pair was selected; selecting it twice asks why."""

        def __init__(self, pair: Pair, twice: bool = False) -> None:
            super().__init__()
            self.pair = pair
            self.twice = twice

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(fixed_rows=1, fixed_columns=LABEL, id=id, classes=classes)
        self.pair: Pair | None = None
        self._devices: tuple[tuple[str, str], ...] = ()
        self._cell_width = 6
        self._cell_height = 1
        self.legend = ""
        """What a word in the cells means, where one has to be told."""

    @property
    def places(self) -> tuple[int, int]:
        """Row and column of the cursor."""
        addresses = [address for _, address in self._devices]
        if self.pair is None or not {*self.pair} <= set(addresses):
            return (0, min(1, len(addresses) - 1))
        return addresses.index(self.pair[0]), addresses.index(self.pair[1])

    def fit(self, report: Report, measure: Measure, at_most: int) -> int:
        """Cells that the matrix takes of so many: as wide as its figures need, or a little more."""
        found = devices(report, measure)
        values = measure.values(report, tuple(address for _, address in found))
        room = max(at_most - LABEL - 1, 0)
        return LABEL + 1 + len(found) * _cell_width(found, values, room)

    def go_to(self, pair: Pair | None) -> None:
        """Select a pair before it is drawn; None leaves the selection as it is."""
        self.pair = pair or self.pair

    def show_measure(
        self,
        report: Report,
        measure: Measure,
        shown: Shown | None = None,
        healthy: Mapping[Pair, float] | None = None,
    ) -> None:
        """Put a measure of every pair on screen; devices with a finding get its sign.

        `healthy`: what a healthy pair gives, for the heat of the cells.
        """
        self._devices = devices(report, measure)
        addresses = tuple(address for _, address in self._devices)
        values = measure.values(report, addresses)
        relayed = any(value.word == RELAYED for value in values.values())
        self.legend = f" · {RELAYED}: P2P by way of another GPU" if relayed else ""
        room = max((self.room(len(self._devices) + 1) or 80) - LABEL, 0)
        self._cell_width = _cell_width(self._devices, values, room)
        tall = self.size.height > 3 * len(self._devices) and room >= 7 * len(self._devices)
        self._cell_height = 3 if tall else 1
        facts = [values, *(more(report, addresses) for more in measure.more if tall)]
        if len(facts) > 1:
            self.legend += measure.more_told
        row, column = self.places
        if len(self._devices) > 1:
            self.pair = (self._devices[row][1], self._devices[column][1])
        marks = [None if shown is None else shown.mark(address) for address in addresses]
        inks = heats(values, measure.less_is_better, healthy)
        lines: list[Line] = [self._head(column, marks)]
        for index in range(len(self._devices)):
            lines += self._row(index, marks[index], facts, inks)
        count = len(self._devices)
        self.grid = Grid(
            len(lines), tuple(LABEL + self._cell_width * number for number in range(count + 1))
        )
        self.show(lines, self._cells(row, column) if len(self._devices) > 1 else ())

    def _row(
        self,
        index: int,
        mark: tuple[str, str] | None,
        facts: Sequence[Mapping[Pair, Value]],
        inks: Mapping[Pair, str],
    ) -> list[Line]:
        """The lines of one source: its facts, or the only one amid what a tall cell leaves."""
        picked, first = index == self.places[0], facts[0]
        label, src = self._devices[index]
        name, (sign, sign_ink) = f"{'›' if picked else ' '}{label}", mark or ("", "")
        head = (
            (left(name, min(len(name), LABEL - len(sign))), "strong" if picked else "muted"),
            (left(sign, max(LABEL - len(name), len(sign))), sign_ink),
        )
        pairs = [(src, dst) for _, dst in self._devices]
        cells = []
        for place, pair in enumerate(pairs):
            text, ink = _cell(pair, first.get(pair), inks.get(pair))
            chosen = picked and place == self.places[1]
            cells.append((centre(f"[{text}]" if chosen else text, self._cell_width), ink))
        blank = (" " * LABEL, "")
        if len(facts) > 1:
            beneath = [
                tuple((centre(_told(fact.get(pair)), self._cell_width), "muted") for pair in pairs)
                for fact in facts[1:]
            ]
            return [(*head, *cells), *((blank, *line) for line in beneath)]
        ground = tuple((" " * self._cell_width, inks.get(pair, "")) for pair in pairs)
        around = [(blank, *ground)] * (self._cell_height // 2)
        return [*around, (*head, *cells), *around]

    def _head(self, column: int, marks: Sequence[tuple[str, str] | None]) -> Line:
        head = [(left("↓ to →", LABEL), "muted")]
        for index, (label, _) in enumerate(self._devices):
            ink = "strong" if index == column else "muted"
            # Where the columns are narrow the rows alone have signs.
            sign, sign_ink = marks[index] or ("", "")
            if not sign or len(label) + 2 > self._cell_width:
                head.append((centre(label, self._cell_width), ink))
                continue
            spare = self._cell_width - len(label) - 1
            head += [
                (" " * ((spare + 1) // 2) + label, ink),
                (sign + " " * (spare // 2), sign_ink),
            ]
        return tuple(head)

    def _cells(self, row: int, column: int) -> tuple[Cells, ...]:
        start, top = LABEL + column * self._cell_width, 1 + row * self._cell_height
        return tuple(
            Cells(line, start, start + self._cell_width)
            for line in range(top, top + self._cell_height)
        )

    def move(self, rows: int, columns: int) -> None:
        """Move the cursor; it steps over the diagonal."""
        last = len(self._devices) - 1
        if last < 1:
            return
        row, column = self.places
        for _ in range(2):
            row, column = min(max(row + rows, 0), last), min(max(column + columns, 0), last)
            if row != column:
                self._select(row, column)
                return

    def _select(self, row: int, column: int, twice: bool = False) -> None:
        self.pair = (self._devices[row][1], self._devices[column][1])
        for cells in self._cells(row, column):
            self.reveal(cells)
        self.post_message(self.PairPicked(self.pair, twice))

    def on_click(self, event: events.Click) -> None:
        """Select the pair under the mouse; a double click asks why."""
        place = event.get_content_offset(self)
        if place is None or not self._devices:
            return
        row = (self.line_at(place.y) - 1) // self._cell_height
        column = (self.column_at(place.x) - LABEL) // self._cell_width
        if 0 <= row < len(self._devices) and 0 <= column < len(self._devices) and row != column:
            self._select(row, column, twice=event.chain > 1)
