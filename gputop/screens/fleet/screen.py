"""Fleet: many nodes on one screen. Its tabs share a list, a panel and the map of all nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from textual import events
from textual.containers import Container
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from gputop.live.host import AppHost
from gputop.screens.fleet import head
from gputop.screens.fleet.cells import chunks, merged, per_cell, shared, state_cells
from gputop.screens.fleet.figures import FiguresTab
from gputop.screens.fleet.groups import GroupsTab
from gputop.screens.fleet.head import legend
from gputop.screens.fleet.keys import COMMON_FLEET, FLEET_KEYS, TABS
from gputop.screens.fleet.tab import FleetFacts, FleetTab
from gputop.screens.fleet.tabs import NODES, FleetTabs
from gputop.screens.listing import ListingRows
from gputop.screens.room import NARROW_BELOW, fit
from gputop.screens.view import BaseView
from gputop.terminal.clean import clean
from gputop.topology.fleet.draining import drains
from gputop.topology.fleet.fleet import Fleet
from gputop.topology.model.copied import REFUSED
from gputop.topology.model.english import plural
from gputop.widgets.bars import HeadLine, KeyBar, StatusBar, TopBar
from gputop.widgets.board import Board
from gputop.widgets.named_list import NamedList, with_order
from gputop.widgets.spans import Cells, Line, cut, width_of

if TYPE_CHECKING:
    from gputop.live.fleet_watch import FleetState

LOW_BELOW = 34
"""Lines below which the map takes one row."""
MAP_ROWS = 3

MOST_GROUPS, LEAST_FIGURES = 5, 5


# A list of which only the rows in sight are made: it may have a hundred thousand.
class FleetRows(ListingRows):
    """The rows in sight, below one line of heads."""

    _top = 0
    """Number of the first row in sight."""

    def go_to_name(self, name: str) -> None:
        """Put the cursor on a name before the rows are shown."""
        self.selected = name or self.selected

    @property
    def seen(self) -> tuple[int, int, int]:
        """First and last row in sight, from 1, and how many there are."""
        count = len(self._names)
        return min(self._top + 1, count), min(self._top + self._room, count), count

    @property
    def _room(self) -> int:
        return max(self.scrollable_content_region.height - self.fixed_rows, 1)

    def draw(self) -> None:
        """Make the rows in sight, with the cursor among them."""
        listing, self.fixed_rows = self.listing, 1
        if listing is None or not self._names:
            self._top = 0
            self.show(() if listing is None else listing.empty(max(self.size.width, 20)))
            return
        place, room, width = self.place, self._room, max(self.size.width, 20)
        self._top = min(max(self._top, place - room + 1), place)
        self._top = max(min(self._top, len(self._names) - room), 0)
        rows = self._names[self._top : self._top + room]
        self.show(
            (
                with_order(listing.head(width), self.column, falling=self.falling),
                *(listing.row(name, width) for name in rows),
            ),
            self.marks_at(listing.marked or max(self.size.width, 1)),
        )

    def reveal_cursor(self) -> None:
        """Do nothing: `draw` takes the rows around the cursor."""

    def _cells(self, width: int) -> Cells:
        return Cells(self.fixed_rows + self.place - self._top, 0, width)

    def page(self, pages: int) -> None:
        """Move the cursor by so many screens full."""
        self.move(pages * self._room)

    def place_at(self, y: int) -> int:
        """The number of a row in sight."""
        return y - self.fixed_rows + self._top

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Move on."""
        event.stop().prevent_default()
        self.move(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Move back."""
        event.stop().prevent_default()
        self.move(-3)


# The map of a fleet: a cell for each node, in the order of their names.
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


class FleetHost(AppHost, Protocol):
    """What the screen needs of its app."""

    folder: str
    state: FleetState

    def open_node(self, host: str) -> None:
        """Show one node."""


class FleetScreen(BaseView):
    """The verdict, the map, and one of five lists beside a panel."""

    TITLE = "Fleet"
    KEYS = (*FLEET_KEYS, *COMMON_FLEET)

    def __init__(self, host: FleetHost) -> None:
        super().__init__(name="fleet")
        self._host = host
        self.tabs = FleetTabs()

    def body(self) -> Iterable[Widget]:
        """The verdict and the map over the list and its panel."""
        yield HeadLine(id="fleet-verdict")
        yield HeadLine(id="fleet-who")
        yield FleetMap(id="fleet-map")
        with Container(id="fleet"):
            with Container(id="fleet-left"):
                yield FleetRows(id="fleet-list", classes="titled")
                yield Board(id="fleet-more", classes="titled")
            yield Board(id="fleet-detail", classes="titled")

    def take_state(self) -> None:
        """Draw what the thread has read."""
        self.tabs.take(self._host.state)
        self.redraw()

    def on_mount(self) -> None:
        """Draw what is known at the start."""
        fit(self, self.app.size.width, self.app.size.height)
        self.take_state()

    def on_screen_resume(self) -> None:
        """Catch up with what happened below a panel."""
        self.redraw()

    def on_board_room_changed(self) -> None:
        """Draw again once all parts have their room."""
        self.call_after_refresh(self.redraw)

    def redraw(self) -> None:
        """Draw everything; what has not changed stays."""
        if not self.is_mounted:
            return
        with self.app.batch_update():
            self._draw_bars()
            tab, rows = self.tabs.tab, self._rows
            self.set_class(tab is not None and tab.stacked, "-stacked")
            if tab is None:
                rows.caption("")
                rows.draw()
                return
            tab.room = rows.size.width or tab.room
            rows.go_to_name(self.tabs.row)
            rows.show_listing(tab)
            first, last, count = rows.seen
            more = f" · rows {first:,} to {last:,}" if last - first + 1 < count else ""
            rows.caption(f"{tab.caption()}{more}")
            self.tabs.row = rows.selected if tab.names else ""
            self._draw_more()
            self._draw_detail(tab)
            self._draw_map(tab)

    def _draw_more(self) -> None:
        """Below the findings what two other tabs begin with, where there is room for it."""
        board, facts = self.query_one("#fleet-more", Board), self.tabs.facts
        room = self.app.size.height >= LOW_BELOW and self.app.size.width >= NARROW_BELOW
        board.display = room and self.tabs.name == TABS[0] and facts is not None
        if board.display and facts is not None:
            board.caption("Equal nodes, and what was measured")
            spare = self.query_one("#fleet-left").size.height - len(self._rows._names) - 4
            board.show(more_lines(facts, max(board.size.width, 20), spare))

    def _draw_detail(self, tab: FleetTab) -> None:
        board, name = self.query_one("#fleet-detail", Board), self.tabs.row
        board.display = bool(name)
        if not name:
            board.show(())
            return
        board.caption(tab.title(name))
        room = board.scrollable_content_region
        board.show(tab.detail(name, max((room.width or 60) - 1, 20), max(room.height, 6)))

    def _draw_map(self, tab: FleetTab) -> None:
        board, facts = self.query_one(FleetMap), self.tabs.facts
        board.display = facts is not None and bool(facts.fleet.hosts) and not tab.stacked
        if facts is None or not board.display:
            return
        hosts = tab.hosts(self.tabs.row) if self.tabs.row else ()
        marked = frozenset(hosts) if len(hosts) * 2 < len(facts.fleet.hosts) else frozenset()
        rows = 1 if self.app.size.height < LOW_BELOW else MAP_ROWS
        board.show_fleet(facts.fleet, marked, self.app.size.width, rows)

    def _draw_bars(self) -> None:
        state, width = self._host.state, self.app.size.width
        names: list[tuple[str, str]] = [(" gputop ", "strong")] if width >= NARROW_BELOW else []
        for number, name in enumerate(TABS, start=1):
            here = "strong underline" if name == self.tabs.name else "muted"
            action = f"@screen.tab('{name}')"
            names += [
                (f" {number} ", f"key bold {action}"),
                (name.capitalize(), f"{here} {action}"),
            ]
        end = head.watched(state)
        where = clean(self._host.folder, 60)
        long_: Line = ((f"{where} ", "strong"), *end)
        bar = self.query_one("#top", TopBar)
        bar.show(tuple(names), long_ if width >= NARROW_BELOW else end)
        self.query_one("#fleet-verdict", HeadLine).show(head.verdict(state, width))
        who: Line = () if state.fleet is None else head.who(state.fleet, width)
        self.query_one("#fleet-who", HeadLine).show(who)
        self.query_one("#status", StatusBar).show(head.trouble(state))
        self.query_one("#keys", KeyBar).keys(
            [
                (key.name, key.label, key.action if key.action.startswith("app.")
                 else f"screen.{key.action}")
                for key in self.KEYS if key.label
            ]
        )  # fmt: skip

    @property
    def _rows(self) -> FleetRows:
        return self.query_one("#fleet-list", FleetRows)

    def on_named_list_picked(self, message: NamedList.Picked) -> None:
        """Draw the panel for the row under the cursor."""
        self.tabs.row = message.name
        self.query_one("#fleet-detail", Board).scroll_home(animate=False)
        self.redraw()
        if message.twice:
            self.action_open_row()

    def on_fleet_map_cell_picked(self, message: FleetMap.CellPicked) -> None:
        """List the nodes of a cell."""
        self.list_nodes(message.hosts, "a cell of the map")

    def show_row(self, tab: str, name: str) -> None:
        """Show a tab with a row selected."""
        self.tabs.selected[tab] = name
        self.action_tab(tab)

    def list_nodes(self, hosts: tuple[str, ...], why: str, *, ordered: bool = False) -> None:
        """Show these nodes by name; Esc goes back."""
        self.tabs.choose(hosts, why, ordered=ordered)
        self.redraw()

    def action_tab(self, name: str) -> None:
        """Show a tab; of the nodes all."""
        self.tabs.show(name)
        self.redraw()

    def action_next_tab(self, step: int) -> None:
        """Show the next tab."""
        self.action_tab(TABS[(TABS.index(self.tabs.name) + step) % len(TABS)])

    def action_move(self, rows: int) -> None:
        """Move the cursor."""
        self._rows.move(rows)

    def action_page(self, pages: int) -> None:
        """Move the cursor by screens full."""
        self._rows.page(pages)

    def action_scroll_details(self, lines: int) -> None:
        """Scroll the panel."""
        self.query_one("#fleet-detail", Board).scroll_relative(0, lines, animate=False)

    def action_open_row(self) -> None:
        """Open the node, or list the nodes of the row."""
        tab, name = self.tabs.tab, self.tabs.row
        hosts = tab.hosts(name) if tab is not None and name else ()
        if len(hosts) == 1:
            self._host.open_node(hosts[0])
        elif tab is None or not hosts:
            self._host.say("no node belongs to this row", severity="warning")
        else:
            self.list_nodes(hosts, tab.title(name), ordered=self.tabs.name == "figures")

    def action_copy(self) -> None:
        """Copy what belongs to the row."""
        tab, name = self.tabs.tab, self.tabs.row
        texts = tab.copied(name) if tab is not None and name else ()
        self._host.copy_command(tuple(text for text in texts if text) or ("",))

    def action_copy_drains(self) -> None:
        """Copy the lines for all broken and missing nodes."""
        facts = self.tabs.facts
        found = () if facts is None else drains(facts.fleet)
        lines = [one.command for one in found if one.command]
        if lines:
            self._host.copy_text("\n".join(lines), f" ({plural(len(lines), 'line')})")
        else:
            why = REFUSED if found else "no node is broken or missing"
            self._host.say(why, severity="warning")

    async def action_filter(self) -> None:
        """Open the line in which a filter of the nodes is typed."""
        if self.tabs.name != NODES:
            self.action_tab(NODES)
        await self.open_line("g[1-16], or words: slow, a rule, a model", self.tabs.words)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter at each letter."""
        self.tabs.filter(event.value[:1000])
        self.redraw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter and go back to the list."""
        event.input.remove()

    def action_step_back(self) -> None:
        """Undo the nearest thing: a filter, a choice of nodes."""
        if lines := self.query(Input):
            lines.remove()
            self.tabs.show_all()
        else:
            self.tabs.back()
        self.redraw()


# What stands below the findings where there is room: the largest groups and some figures.
def more_lines(facts: FleetFacts, width: int, rows: int) -> list[Line]:
    """Rows of the tabs Groups and Figures, each with its heads, as many as there is room for."""
    groups = _rows(GroupsTab(facts), MOST_GROUPS, "2 shows", width)
    room = max(rows - len(groups) - 3, LEAST_FIGURES)
    figures = _rows(FiguresTab(facts), room, "3 shows", width)
    return [*groups, *([()] if groups and figures else []), *figures]


def _rows(tab: FleetTab, most: int, where: str, width: int) -> list[Line]:
    if not tab.names:
        return []
    lines = [tab.head(width), *(tab.row(name, width) for name in tab.names[:most])]
    if len(tab.names) > most:
        lines.append(((f"   {where} {len(tab.names) - most} more", "muted"),))
    return lines
