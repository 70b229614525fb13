"""Cost: the layouts of a model over the GPUs here, the fastest first, and what bounds each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace
from textual.containers import Container
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from gputop.answers.cost import QUESTION, CostRequest
from gputop.answers.cost_page import row_page
from gputop.answers.cost_records import CostAnswer, CostLayout
from gputop.screens.cost.fields import FIELDS, CostFields
from gputop.screens.cost.rows import CostListing, head_lines
from gputop.screens.listing import Listing, ListingRows, MasterDetail
from gputop.terminal.clean import clean
from gputop.topology.model.errors import GputopError
from gputop.topology.model.page import Page
from gputop.widgets.board import Board
from gputop.widgets.key import Key, note, scroll_keys, select_keys
from gputop.widgets.panels import ChoicePanel
from gputop.widgets.spans import EMPTY, Line, cut

if TYPE_CHECKING:
    from gputop.live.host import NodeHost
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.report import Report

ROOF, BOUNDS = "Roofline", "Bounds"
WORKING = "working out the layouts of {}"


class NothingRanked(Listing):
    """No rows: why stands above."""

    names = ()

    def caption(self) -> str:
        """What would stand here."""
        return "Layouts"


class CostScreen(MasterDetail):
    """The model and how it runs, its layouts, and the selected one's time, memory and roofline."""

    TITLE = "Cost"
    LIST = "#cost-rows"
    DETAILS = "#cost-step"
    KEYS = (
        *select_keys("select a layout"),
        Key(
            "tab,right,l",
            "field(1)",
            "field",
            f"select a field: {', '.join(field.about for field in FIELDS)}",
            written="Tab  ← →",
        ),
        Key("shift+tab,left,h", "field(-1)"),
        Key(
            "v",
            "next_value",
            "next value",
            "the next value of the field, as a click on it",
            command="Next value",
            about="The next value of the selected field",
        ),
        Key(
            "e",
            "edit",
            "change",
            "change the field: type a value, or choose the model or the type",
            command="Change the field",
            about="Type or choose its value",
        ),
        Key(
            "o",
            "open",
            "open",
            "open a model: the path of its config.json",
            command="Open a model",
            about="The config.json of a model",
        ),
        note("y", "copy the line of gputop cost that gives the same"),
        note("on the Map", "the edge where the layout that you select is bound"),
        *scroll_keys("scroll_details", 5, "scroll the panel", "more"),
    )
    LINE = ("v", "e", "o", "y", "w", "PgDn")
    SCROLLED = DETAILS

    class LayoutsReady(Message):
        """A thread has the answer, or why there is none."""

        def __init__(self, found: CostAnswer | None, trouble: str) -> None:
            super().__init__()
            self.found = found
            self.trouble = trouble

    def __init__(self, name: str, gputop: NodeHost) -> None:
        super().__init__(name, gputop)
        self.fields = CostFields()
        self._found: CostAnswer | None = None
        self._trouble = ""
        self._asked: tuple[object, ...] = ()
        """The request, the prediction and the figures that the last question was about."""
        self._asking = False

    def body(self) -> Iterable[Widget]:
        """Two lines that answer, the fields, the list, the panel beside the roofline."""
        yield Board(id="cost-head")
        yield Board(id="cost-fields")
        with Container(id="cost-body"):
            yield ListingRows(id="cost-rows", classes="titled")
            with Container(id="cost-lower"):
                yield Board(id="cost-step", classes="titled")
                yield Board(id="cost-roof", classes="titled")

    def draw(self, report: Report) -> None:
        """Ask where something has changed; show the last answer."""
        if report.node.decided:
            self._ask(report)
        width = max(self.app.size.width, 20)
        head, fields = self.query_one("#cost-head", Board), self.query_one("#cost-fields", Board)
        head.draw_once(lambda: head.show(self._head(report, width - 1)), *self._state(report))
        fields.draw_once(
            lambda: fields.show((self.fields.line(width - 1),)),
            self.fields.request,
            self.fields.selected,
        )
        super().draw(report)
        self._draw_roof()

    def _ask(self, report: Report) -> None:
        """Ask in a thread, one at a time; the newest request comes next."""
        request, snapshot = self.fields.request, report.snapshot
        wanted = (request, id(report.prediction), snapshot.machine, snapshot.measurements)
        if self._asking or wanted == self._asked:
            return
        self._asked, self._asking = wanted, True
        self.run_worker(
            partial(self._work, request, snapshot), thread=True, exit_on_error=False, group="cost"
        )

    def _work(self, request: CostRequest, snapshot: NodeSnapshot) -> None:
        made = self.gputop.guarded(_answer, replace(request, given=snapshot))
        self.post_message(self.LayoutsReady(*(made or (None, self.gputop.trouble))))

    def on_cost_screen_layouts_ready(self, message: LayoutsReady) -> None:
        """Show the answer, and ask again where the fields have changed meanwhile."""
        self._asking = False
        self._found, self._trouble = message.found, message.trouble
        self.query_one(self.DETAILS, Board).scroll_home(animate=False)
        before = self.rows.selected
        self.redraw()
        listing = self._listing
        if listing is not None and not listing.fits(before):
            self.rows.go_to(listing.best)
            self.redraw()

    @property
    def _current(self) -> bool:
        """Whether the answer is about what the fields say."""
        return bool(self._asked) and self._asked[0] == self.fields.request and not self._asking

    def _state(self, report: Report) -> tuple[object, ...]:
        current = self._current
        return id(self._found), self._trouble, current, report.node.decided, self.fields.request

    def _head(self, report: Report, width: int) -> tuple[Line, Line]:
        if not report.node.decided:
            return ((f" working out what {report.words.library} does", "muted"),), EMPTY
        if not self._current:
            name = self.fields.worded(FIELDS[0])
            return ((f" {WORKING.format(name)}", "muted"),), EMPTY
        if self._found is None:
            trouble = self._trouble or "it could not be worked out"
            return ((" ! ", "bad"), (clean(trouble, 400), "bad")), EMPTY
        first, second = head_lines(self._found)
        return cut(first, width), cut(second, width)

    def state_of(self, report: Report) -> tuple[object, ...]:
        """The answer, and whether the roofline has a place of its own."""
        return id(self._found), self.app.size.width

    def listing_of(self, report: Report) -> Listing:
        """The rows of the answer."""
        if self._found is None:
            return NothingRanked()
        plain = "utf" not in self.app.console.encoding.lower()
        beside, room = not self.has_class("-narrow"), self.app.size.width - 1
        return CostListing(self._found, room=room, beside=beside, plain=plain)

    def _draw_roof(self) -> None:
        board = self.query_one("#cost-roof", Board)
        listing, name = self._listing, self.selected_name

        def draw() -> None:
            room = board.scrollable_content_region
            lines: Sequence[Line] = ()
            caption = ""
            if listing is not None and name:
                lines = listing.roof(name, room.width, room.height)
                caption = ROOF if listing.has_roof(name) else BOUNDS
            board.caption(caption if lines else "")
            board.show(lines)

        board.draw_once(draw, id(self._found), name)

    @property
    def _listing(self) -> CostListing | None:
        listing = self.rows.listing
        return listing if isinstance(listing, CostListing) else None

    def share_selection(self) -> None:
        """Carry the edge of the selected layout along: the Map shows it."""
        listing, name = self._listing, self.selected_name
        item = None if listing is None or not name else listing.item(name)
        edge = item.edge if isinstance(item, CostLayout) else None
        if edge is not None:
            self.gputop.selected.pick(*edge.ends)

    def action_field(self, step: int) -> None:
        """Select another field."""
        self.fields.move(step)
        self.redraw()

    def action_next_value(self) -> None:
        """Take the next value of the selected field."""
        self.fields.next_value()
        self.redraw()

    def action_take(self, name: str) -> None:
        """Select a field; the selected one takes its next value."""
        if self.fields.selected == name:
            self.fields.next_value()
        self.fields.selected = name
        self.redraw()

    async def action_edit(self) -> None:
        """Choose or type a value of the selected field."""
        choices, field = self.fields.choices(), self.fields.field
        if field.name == "serve":
            self.action_next_value()
        elif choices:
            chosen = str(self.fields.value(field))
            self.app.push_screen(ChoicePanel(field.about.capitalize(), choices, chosen), self._take)
        else:
            value = self.fields.value(field)
            await self.open_line(f"{field.about}; empty: as usual", str(value or ""), "edit")

    async def action_open(self) -> None:
        """Open the line where the path of a model is typed."""
        self.fields.selected = FIELDS[0].name
        self.redraw()
        await self.open_line("path of the config.json of a model, or its name", "", "edit")

    def _take(self, value: str | None) -> None:
        if value is not None:
            self.fields.set(value)
            self.redraw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take the value over."""
        event.stop()
        self.back()
        try:
            self.fields.typed(event.value[:4096])
        except GputopError as error:
            self.gputop.say(str(error), severity="warning")
        self.redraw()

    def back(self) -> bool:
        """Close the line; False when there is none."""
        lines = list(self.query(Input))
        for line in lines:
            line.remove()
        self.set_focus(None)
        return bool(lines)

    def selected_text(self) -> str:
        """The line of the command."""
        if self.report is None:
            return ""
        changes = dict(self.gputop.what_if.tried.wanted)
        return self.fields.command(self.report.snapshot, changes)

    def why(self) -> Page | None:
        """The selected row with its communication, the bounds and the notes."""
        listing, name = self._listing, self.selected_name
        return None if listing is None or not name else row_page(listing.found, listing.item(name))


def _answer(request: CostRequest) -> tuple[CostAnswer | None, str]:
    """The answer, or why there is none."""
    try:
        return QUESTION.answer(request), ""
    except GputopError as error:
        return None, str(error)


SCREEN = CostScreen
