"""GpuTop: the app. It keeps the report, opens screens and joins them with what runs behind them."""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import rich.cells
from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual import on
from textual._styles_cache import StylesCache
from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.color import Color
from textual.css.scalar import Scalar
from textual.geometry import Region
from textual.reactive import reactive
from textual.screen import Screen
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from gputop import messages
from gputop.base_app import BaseApp, actions
from gputop.exits import BACK
from gputop.live.jobs_controller import JobsController, JobsTold
from gputop.live.probe_controller import NCCL, ProbeController
from gputop.live.recent import Recent
from gputop.live.refresh import Inbox, Refresher
from gputop.live.selection import PickedDevices
from gputop.live.session_controller import SessionController, SessionTold
from gputop.live.what_if import WhatIfController, Worked
from gputop.screens import NAMES
from gputop.screens.key_line import COMMON, REPLAY
from gputop.screens.node.gpu_lines import chosen
from gputop.screens.node.table import SORTS
from gputop.screens.plugged import PluginView, plugged
from gputop.screens.view import View
from gputop.terminal.clean import clean
from gputop.terminal.nearest import instead
from gputop.terminal.preferences import Preferences
from gputop.topology.hardware.terms import VendorTerms, terms_for
from gputop.widgets.kept_lines import KeptLines
from gputop.widgets.key import bindings
from gputop.widgets.spans import Span

if TYPE_CHECKING:
    from textual.message import Message
    from textual.timer import Timer

    from gputop.measuring.announcing import Announcement
    from gputop.measuring.nccl_check import NcclCheck
    from gputop.measuring.state import SuiteState
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.report import Report
    from gputop.topology.sources.feed import Feed

# Gives memory back in the app: what closed panels and screens that nobody sees have left.
FIRST_SECONDS = 5.0
"""After the start, whose own work goes first."""
LEAST_SECONDS = 1.5
"""After a change of the screen, once for all changes meanwhile: what many closed panels take
together before they are collected is what the process keeps."""
RESTING_SECONDS = 60.0
"""Even where no screen changes, so often: figures that move leave texts that nobody draws again."""
COSTS = 20
"""Waits so many times what the last collection took: 5 % of a core while screens change."""

_OWNERS = (
    Strip, Segment, StylesCache, Region, Scalar, Color, Style, RichColor, RichStyle, rich.cells,
)  # fmt: skip
"""Classes and modules of Textual and rich whose functions have an `lru_cache`, with room for up to
16,384 results of half a kilobyte: hours pass until all are full.
"""


class MemoryTrimmer:
    """Tidies up behind every change of the screen; used by the app's own thread alone."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._shown: Screen[Any] | None = None
        self._due: Timer | None = None
        self._cost = 0.0

    def screen_changed(self, shown: Screen[Any]) -> None:
        """Release old lines at once; collect what is left a little later, once for many changes."""
        if self._shown is not None:
            release_lines(self._shown)  # a closed panel belongs to no stack of screens any more
        self._shown = shown
        release_old_lines(self._app)
        if self._due is None:
            wait = max(LEAST_SECONDS, COSTS * self._cost)
            self._due = self._app.set_timer(wait, self.collect)

    def collect(self) -> None:
        """Collect closed panels, whose parts know each other, before there are many of them.

        Python alone waits until there is a quarter more of everything, and what the program once
        took stays with it.
        """
        self._due = None
        begun = time.thread_time()
        forget_results()
        gc.collect()
        trim()
        self._cost = time.thread_time() - begun


def trim() -> None:
    """Give the system back what the C library has set aside; takes a millisecond."""
    with suppress(AttributeError, OSError):  # another C library than glibc
        ctypes.CDLL(None).malloc_trim(0)


class GpuTop(BaseApp[int]):
    """Explores one node. `feed` gives snapshots; without one, reports come as messages."""

    TITLE = "gputop"
    DEFAULT_MODE = NAMES[0]
    BINDINGS: ClassVar[list[BindingType]] = bindings((*COMMON, *REPLAY))

    report: reactive[Report | None] = reactive(None, init=False, repaint=False)
    probe: reactive[SuiteState | None] = reactive(None, init=False, repaint=False)
    suite: reactive[SuiteState | None] = reactive(None, init=False, repaint=False)
    """The last suite that was started, a single probe included; None before the first."""
    nccl_check: reactive[NcclCheck | None] = reactive(None, init=False, repaint=False)
    """What the last run of the probe nccl proved."""

    def __init__(
        self, feed: Feed | None = None, interval: float = 1.0, remembered: Preferences | None = None
    ) -> None:
        self.MODES = {name: partial(self._open, name) for name in NAMES}  # type: ignore[misc]
        if remembered is not None and (start := remembered.get("start")) in NAMES:
            self.DEFAULT_MODE = start  # type: ignore[misc]
        self._newest = messages.Newest()
        super().__init__(remembered)
        self.feed = feed
        self.interval = interval
        self.plugin_views: tuple[PluginView, ...] = ()
        """Screens of plugins, which the palette opens."""
        self.parent_title = ""
        """What Esc goes back to when nothing is left to undo; "" stays here."""
        self.refresher: Refresher | None = None
        self.probing = ProbeController(self, self._confirm)
        self.what_if = WhatIfController(self)
        self.jobs = JobsController(self)
        self.sessions = SessionController(self)
        self.pasted = ""
        self.compared: tuple[str, bytes] = ("", b"")
        self.log_sign: Span | None = None
        self.selected, self.recent = PickedDevices(), Recent()
        self._inbox = Inbox(self.post_message)
        if feed is not None:
            # While the terminal is set up, for the first picture to show the report.
            self.follow(feed)

    def settings_trouble(self) -> Iterable[str]:
        """What of the user's settings cannot be used."""
        yield from super().settings_trouble()
        mine = self.remembered.file.settings
        for name, value, known in (("start", mine.start, NAMES), ("order", mine.order, SORTS)):
            if value and value not in known:
                yield f"{name}: no {clean(value, 40)!r}{instead(value, known)}"
        yield from chosen(mine.columns)[1]

    def _confirm(self, announced: Announcement, go: Callable[[], None]) -> None:
        actions.confirm_run(self, announced, go)

    @property
    def words(self) -> VendorTerms:
        """What library, links and tools of the node are called; before it is read, of any node."""
        return terms_for(None) if self.report is None else self.report.words

    @property
    def view(self) -> View | None:
        """The current screen, even while a panel covers it; None while the app closes."""
        bottom = next(iter(self.screen_stack), None)
        return bottom if isinstance(bottom, View) else None

    def _open(self, name: str) -> Screen[Any]:
        view: View = import_module(f"gputop.screens.{name}.screen").SCREEN(name, self)
        return view.data_bind(GpuTop.report, GpuTop.probe)

    def on_mount(self) -> None:
        """Show what was read meanwhile."""
        self.join_terminal()
        trimmer = MemoryTrimmer(self)
        self.screen_change_signal.subscribe(self, trimmer.screen_changed)
        # What the start leaves goes once all sources and rules were asked for the first time.
        self.set_timer(FIRST_SECONDS, trimmer.collect)
        self.set_interval(RESTING_SECONDS, trimmer.collect)
        for early in self._inbox.open():
            if isinstance(early, messages.ReportReady):
                self.on_report_ready(early)
            else:
                self.post_message(early)

    def on_unmount(self) -> None:
        """Let go of the threads and of a worker without waiting for any of them."""
        self.probing.close()
        self.sessions.end()
        if self.refresher is not None:
            self.refresher.close()

    def follow(self, feed: Feed) -> None:
        """Show another node from here on."""
        if self.refresher is not None:
            self.refresher.close()
            self.probing.forget()
        self.sessions.end()
        self.feed = feed
        self.findings.forget_silenced()
        self.what_if.forget()
        self.jobs.forget()
        self.selected = PickedDevices()
        self.refresher = Refresher(feed, self._inbox.take, self.interval)
        self.refresher.start()

    def _settle(self) -> None:
        super()._settle()
        # A reading of 128 GPUs is ten thousand objects for a second; MemoryTrimmer collects cycles.
        gc.set_threshold(20_000, 10, 10)
        if self.parent_title:
            self.say(f"Esc goes back to {self.parent_title}")

    def _with_plugins(self) -> None:
        super()._with_plugins()
        if self.refresher is not None:
            self.refresher.wake()

    def join_plugins(self) -> None:
        """Ask the sources of plugins, and offer their screens."""
        from gputop.topology.sources.live import LiveFeed  # a demo does without

        self.plugin_views = plugged()
        if isinstance(self.feed, LiveFeed):
            self.feed.join_plugins()

    def post_message(self, message: Message) -> bool:
        """Take a message, from any thread."""
        self._newest.see(message)
        return super().post_message(message)

    def on_report_ready(self, message: messages.ReportReady) -> None:
        """Keep the newest report, with the what-if; the screens are bound to it."""
        self.recent.add(message.report.snapshot)
        self.sessions.take(message.report.snapshot)
        if message.superseded:
            return
        self.report = self.what_if.shown(message.report)
        self.jobs.prepare(message.report)

    def on_looked_back(self, message: messages.LookedBack) -> None:
        """Keep what was before the app was opened, for the charts."""
        self.recent.add_earlier(message.past)
        if self.sessions.replay is not None and self.view is not None:
            self.view.redraw()  # where it stands still, no reading comes that would draw them

    def on_session_told(self, message: SessionTold) -> None:
        """Say what became of a recording."""
        self.sessions.told(message)

    def action_record(self) -> None:
        """Record what is shown into a new file, or end that."""
        self.sessions.record()

    def action_replay(self, what: str, by: int = 1) -> None:
        """Move through a recording."""
        self.sessions.move(what, by)

    def on_jobs_told(self, message: JobsTold) -> None:
        """Show on all screens what the jobs say."""
        self.jobs.accept(message)
        if self.view is not None:
            self.view.redraw()
            self.view.draw_bars()

    def on_worked(self, message: Worked) -> None:
        """Show what a thread worked out for the what-if."""
        self.what_if.accept(message)

    def action_undo(self) -> None:
        """Undo the last change of a variable."""
        self.what_if.undo()

    def action_what_if(self) -> None:
        """Try a variable out: choose among the usual ones."""
        actions.choose_what_if(self)

    def on_refresh_failed(self, message: messages.RefreshFailed) -> None:
        """Say what could not be made."""
        self.trouble = f"{message.what}: {message.text}"
        if self.view is not None:
            self.view.draw_bars()

    def on_policy_failed(self, message: messages.PolicyFailed) -> None:
        """Say that all findings are shown, whatever the site silenced."""
        self.say(message.text, title="The site's policy cannot be used", severity="warning")

    @on(messages.ProbeMessage)
    def take_from_probe(self, message: messages.ProbeMessage) -> None:
        """Keep what a probe says; the screens are bound to most of it."""
        self.probing.take(message)
        if isinstance(message, messages.NcclChecked) and self.view is not None:
            self.view.redraw()

    def on_screen_wanted(self, message: messages.ScreenWanted) -> None:
        """Show another screen; here and not in the action, so that it is bound to the app."""
        self.switch_mode(message.name)

    def action_screen(self, name: str) -> None:
        """Show the screen of that name, and close panels."""
        while len(self.screen_stack) > 1:
            self.pop_screen()
        self.post_message(messages.ScreenWanted(name))

    def read_pasted(self, text: str) -> None:
        """Show on Log what a pasted text says."""
        self.pasted = text
        if self.view is not None and self.view.name == "log":
            self.view.on_screen_resume()
        else:
            self.action_screen("log")

    def action_step_back(self) -> None:
        """Undo the nearest thing: a filter, a running probe, a note."""
        if not (self.view and self.view.back()) and not self.probing.cancel() and self.parent_title:
            self.exit(BACK)

    def action_probe(self, force: bool) -> None:
        """Measure what is selected; with force, although the GPUs are busy."""
        targets = self.view.probe_targets() if self.view is not None else ()
        self.probing.start_usual(targets, force)

    def action_probe_nccl(self, force: bool) -> None:
        """Run NCCL or RCCL itself on all GPUs and lay its log beside the prediction."""
        if self.report is not None and self.report.snapshot.is_demo:
            self.say(f"{self.words.library} itself is not simulated on a demo", severity="warning")
        else:
            self.probing.start((), force, NCCL)

    def action_why(self) -> None:
        """Explain the selected thing."""
        actions.show_why(self)

    def action_help(self) -> None:
        """Show the keys."""
        actions.show_help(self)

    def action_question(self, name: str) -> None:
        """Show the screen of a question."""
        actions.open_named(self, name)

    def action_compare(self) -> None:
        """Hold the node against another one: choose which."""
        actions.choose_other(self)

    def action_demos(self) -> None:
        """Choose a demo node."""
        actions.choose_demo(self)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer demo nodes only where no GPU answers or a demo is shown."""
        if action == "demos":
            return bool(actions.offers_demos(self.report))
        if action == "replay":
            return self.sessions.replay is not None
        return super().check_action(action, parameters)

    def action_copy(self) -> None:
        """Put the selected thing on the clipboard of the terminal (OSC 52)."""
        self.copy_text((self.view and self.guarded(self.view.selected_text)) or "")

    def action_ticket(self) -> None:
        """Put the findings of the screen on the clipboard, as a ticket in Markdown."""
        view, report = self.view, self.what_if.real
        if view is None or report is None or view.shown is None:
            self.say("the rules have not answered yet", severity="warning")
            return
        text = self.guarded(actions.ticket_of, report.snapshot, view.shown.verdict, view.ticketed())
        self.copy_text(text or "")

    def exported(self) -> tuple[NodeSnapshot | None, str]:
        """The node as it is set up, and the screen in sight."""
        real = self.what_if.real
        name = "" if self.view is None else self.view.name or ""
        return (None if real is None else real.snapshot), name

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Give the commands of the palette."""
        yield from actions.palette_commands(self)

    def action_command_palette(self) -> None:
        """Open the palette of commands."""
        actions.open_palette(self)


# Caches of Textual's that would keep closed panels and old lines in memory.
def _caches() -> Iterator[Any]:
    for owner in _OWNERS:
        for value in vars(owner).values():
            function = getattr(value, "__func__", value)
            if hasattr(function, "cache_clear"):
                yield function


_CACHES = tuple(_caches())


def forget_results() -> None:
    """Empty the caches of Textual and rich; what is used still is soon in them again."""
    for function in _CACHES:
        function.cache_clear()


def release_old_lines(app: App[Any]) -> None:
    """Forget all lines that were drawn; the screen that is shown draws its own again.

    Each line keeps the pieces into which panels ever cut it and the colours that themes ever gave
    it, and a screen that is not shown draws all of its lines when it is shown next.
    """
    # Each of its entries holds the style cache of a widget, closed ones included, with its lines.
    clear = getattr(StylesCache.get_inner_outer, "cache_clear", None)
    if clear is not None:  # a Textual that caches otherwise needs nothing of us
        clear()
    for stack in getattr(app, "_screen_stacks", {}).values():
        for screen in stack:
            release_lines(screen)


def release_lines(screen: Screen[Any]) -> None:
    """Forget the lines of one screen, 2 KB each, before it is collected or drawn again."""
    for widget in screen.walk_children(Widget, with_self=True):
        # Not their sizes (`_box_model_cache`): without them a picture is laid out otherwise. Of
        # what was looked up, each change of the children leaves an entry, 1024 for a widget.
        for name in ("_styles_cache", "_option_render_cache", "_query_one_cache"):
            cache = getattr(widget, name, None)
            if cache is not None:  # not of every widget, nor of every Textual
                cache.clear()
        if isinstance(widget, KeptLines):
            widget.release_lines()
