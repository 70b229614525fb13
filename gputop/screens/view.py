"""View: what every screen has in common. A screen module holds `SCREEN`, a subclass."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.app import ComposeResult, SystemCommand
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from gputop.probes.protocol.status import Status
from gputop.screens import NAMES
from gputop.screens.key_line import key_line
from gputop.screens.room import fit, name_room
from gputop.screens.tab_signs import tab_signs
from gputop.terminal.clean import clean
from gputop.widgets.bars import KeyBar, StatusBar, TopBar
from gputop.widgets.board import Board
from gputop.widgets.kept_lines import KeptLines, Pane
from gputop.widgets.key import Key, bindings, commands
from gputop.widgets.spans import Line, width_of
from gputop.widgets.status import counted, news_line, source_line, status_line, tabs, what_if_line
from gputop.widgets.typed_line import TypedLine, is_text

if TYPE_CHECKING:
    from gputop.live.findings import Shown
    from gputop.live.host import NodeHost
    from gputop.live.selection import PickedDevices
    from gputop.measuring.state import SuiteState
    from gputop.topology.model.finding import Finding
    from gputop.topology.model.page import Page
    from gputop.topology.report import Report
    from gputop.widgets.pair_matrix import PairMatrix

MOST_FITTINGS = 4
"""How often one drawing is made again for the room that it gave to its parts: what one part leaves
changes the room of the next."""


class BaseView(Screen[None], KeptLines):
    """A screen of either app: the line above, the body, the status line and the keys."""

    TITLE = ""
    AUTO_FOCUS = ""
    ALLOW_SELECT = False
    KEYS: ClassVar[tuple[Key, ...]] = ()
    """The keys of this screen, in the order of its help."""

    def __init_subclass__(cls, **rest: Any) -> None:
        """Bind the keys that a screen declares."""
        cls.BINDINGS = bindings(cls.__dict__.get("KEYS", ()))
        super().__init_subclass__(**rest)

    def compose(self) -> ComposeResult:
        """Lay out the lines around the body."""
        # Before its parts: with them each class would style all of them again.
        name_room(self, self.app.size.width, self.app.size.height)
        yield TopBar(id="top")
        yield from self.above()
        with Pane(id="body"):
            yield from self.body()
        yield Board(id="tiny")
        yield StatusBar(id="status")
        yield KeyBar(id="keys")

    def above(self) -> Iterable[Widget]:
        """Widgets between the line above and the body."""
        return ()

    def body(self) -> Iterable[Widget]:
        """Widgets between the line above and the lines below."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Draw everything again."""
        raise NotImplementedError

    def on_resize(self, event: events.Resize) -> None:
        """Set the classes by which the stylesheet knows how much room there is."""
        fit(self, event.size.width, event.size.height)
        self.call_after_refresh(self.redraw)

    def commands(self) -> Iterable[SystemCommand]:
        """Commands of this screen for the palette."""
        return commands(self.KEYS, partial(self.app.run_action, default_namespace=self))

    async def open_line(
        self, placeholder: str, value: str = "", kind: str = "", of: type[TypedLine] = TypedLine
    ) -> None:
        """Open the line above the status where something is typed; `kind` is its class."""
        await self.query(Input).remove()
        line = of(value, placeholder=clean(placeholder, 200), classes=kind or None, id="filter")
        line.cursor_blink = False
        await self.mount(line, before="#status")
        # At once: `focus` does it after the keys that wait already, which are meant for the line.
        self.set_focus(line)


def runs_library(report: Report | None) -> bool:
    """Whether NCCL or RCCL itself can be run: not on a demo, nor on a file."""
    return report is None or report.snapshot.is_live


class View(BaseView):
    """A screen of the app of a node.

    A subclass gives `body()` and `draw(report)`; it draws only while it is on screen. The app
    learns what is selected from `selected_text`, `why` and `probe_targets`.
    """

    LINE: ClassVar[tuple[str, ...]] = ()
    """Names of the keys, of the screen or common, that lead the line of keys."""
    SCROLLED: ClassVar[str] = ""
    """The board that PgDn scrolls; the line of keys names that key while there is more below."""

    report: reactive[Report | None] = reactive(None, init=False, repaint=False)
    probe: reactive[SuiteState | None] = reactive(None, init=False, repaint=False)

    def __init__(self, name: str, gputop: NodeHost) -> None:
        super().__init__(name=name)
        self.gputop = gputop
        """The app, as far as screens know it."""
        self._fittings = 0
        self._fits_soon = False
        self._keyed: tuple[object, ...] | None = None
        """What the line of keys was last made from."""

    def above(self) -> Iterable[Widget]:
        """What is tried out; the time of a recording."""
        yield StatusBar(id="what-if")
        yield StatusBar(id="session")

    def draw(self, report: Report) -> None:
        """Update the widgets; called when the screen is visible and mounted."""
        raise NotImplementedError

    def selected_text(self) -> str:
        """What `y` copies: the selected thing as plain text; empty when nothing is selected."""
        return ""

    def ticketed(self) -> tuple[Finding, ...]:
        """The findings in the ticket that `Y` copies: all that ask for somebody."""
        found = () if self.shown is None else self.shown.findings
        return tuple(finding for finding in found if finding.severity.counts)

    def why(self) -> Page | None:
        """What Enter and `w` show about the selected thing."""
        return None

    @property
    def shown(self) -> Shown | None:
        """The findings of the report; None before the rules were asked."""
        return self.gputop.findings.shown(self.report)

    def with_findings(self, why: Page, *nodes: str) -> Page:
        """An explanation of these devices, led by the findings about them."""
        shown = self.shown
        if shown is None:
            return why
        from gputop.live.findings import explained_with

        return explained_with(why, shown, *nodes)

    def take_selection(self, selected: PickedDevices) -> None:
        """Select what was picked on another screen, as far as it is shown here."""

    def on_pair_matrix_pair_picked(self, message: PairMatrix.PairPicked) -> None:
        """Carry a pair of a matrix along."""
        self.gputop.selected.pick(*message.pair)

    def on_paste(self, event: events.Paste) -> None:
        """Read a text that is pasted on any screen, as a log or what a tool printed."""
        # A panel that was opened meanwhile would be closed before it is there.
        if is_text(event.text) and self.app.screen is self:
            event.stop()
            self.gputop.read_pasted(event.text)

    def back(self) -> bool:
        """Undo something of this screen on Esc; False when there is nothing to undo."""
        return False

    def probe_targets(self) -> tuple[str, ...]:
        """PCI addresses of the GPUs that `p` measures; () for all."""
        return ()

    @property
    def is_whole(self) -> bool:
        """Whether its parts are there: they come after it, and at the end they go before it."""
        return self.is_mounted and any(child.id == "top" for child in self.children)

    @property
    def on_screen(self) -> bool:
        """Whether this screen can be seen, if only below a panel."""
        return self.is_whole and self in self.app.screen_stack

    def redraw(self) -> None:
        """Draw the report again, for example because the selection or the width changed."""
        self._fittings = 0
        self._draw_report()
        self.draw_bars()

    def _draw_report(self) -> None:
        if self.on_screen and self.report is not None:
            self.gputop.guarded(self.draw, self.report)

    def on_board_room_changed(self) -> None:
        """Draw again once all parts have their room."""
        if not self._fits_soon:
            self._fits_soon = True
            self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        self._fits_soon = False
        # A drawing that works would take the words about another failure away.
        able = self._fittings < MOST_FITTINGS and not self.gputop.trouble
        if able and not all(board.fits for board in self.query(Board)):
            self._fittings += 1
            self._draw_report()
        if self.SCROLLED:
            self.draw_bars()

    def on_mount(self) -> None:
        """Draw what is known at the start."""
        fit(self, self.app.size.width, self.app.size.height)
        self.redraw()

    def on_screen_resume(self) -> None:
        """Catch up with what happened while another screen was shown."""
        self.take_selection(self.gputop.selected)
        self.redraw()

    def watch_report(self) -> None:
        """Draw a new report, unless another screen is shown."""
        if self.on_screen:
            with self.app.batch_update():
                self.redraw()

    def watch_probe(self) -> None:
        """Show the progress of a probe."""
        if self.on_screen:
            self.draw_bars()

    def draw_bars(self) -> None:
        """Update the lines above and below the body."""
        if not self.is_whole:
            return
        report = self.report
        snapshot = None if report is None else report.snapshot
        names = tabs(NAMES, self.name or "", self.app.size.width, tab_signs(self.gputop))
        room = self.app.size.width - width_of(names)
        self.query_one("#top", TopBar).show(names, source_line(snapshot, room))
        what_if = self.gputop.what_if
        self.query_one("#what-if", StatusBar).show(
            what_if_line(what_if.tried.named, what_if.summary, self.app.size.width)
            if what_if.holds
            else ()
        )
        gputop = self.gputop
        session = gputop.sessions.line(self.app.size.width)
        self.query_one("#session", StatusBar).show(session)
        now = status_line(
            snapshot, self.probe, gputop.trouble, gputop.interval, self._counted(report)
        )
        news: Line = ()
        if report is not None and report.events and self.name != "findings":
            place = NAMES.index("findings") + 1
            news = news_line(report.events, report.snapshot.taken_at, place)
        # While something is in progress, news stands at the right, where there is room.
        line, end = (now or news, news if now else ())
        noted, where = gputop.sessions.event()
        self.query_one("#status", StatusBar).show(noted or line, where if noted else end)
        self._draw_keys()

    def _counted(self, report: Report | None) -> Line:
        """How the figures of a probe that has finished stand, and where they are."""
        probe = self.probe
        if report is None or probe is None or probe.status != Status.FINISHED:
            return ()
        line = counted(report, probe.measured)
        if not line or self.name == "probes":
            return line
        place = str(NAMES.index("probes") + 1)
        shows = (" · ", "muted"), (place, "key bold @screen('probes')"), (" shows them", "muted")
        return (*line, *shows)

    def _draw_keys(self) -> None:
        """Update the line of keys, where it may be another one."""
        words, leading = self.gputop.words, self.leading()
        if (known := (words, leading, self.app.size.width)) != self._keyed:
            self._keyed = known
            self.query_one("#keys", KeyBar).keys(
                [
                    (key.name, words.fill(key.label), action)
                    for key, action in key_line(self.KEYS, leading)
                ]
            )

    def leading(self) -> tuple[str, ...]:
        """The names in LINE that do something now."""
        idle = set()
        if self.SCROLLED and not self.query_one(self.SCROLLED, Board).has_more:
            idle.add("PgDn")
        if not runs_library(self.report):
            idle |= {key.name for key in self.KEYS if "probe_nccl" in key.action}
        return tuple(name for name in self.LINE if name not in idle)
