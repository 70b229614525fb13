"""GpuTop: the app. It keeps the report, opens screens and handles what others wish for."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.screen import Screen

import gputop.themes
from gputop import messages, theming
from gputop.choices import Choices
from gputop.live.probe_controller import ProbeDesk
from gputop.live.silencing import FindingsDesk
from gputop.screens import NAMES
from gputop.screens.view import View
from gputop.terminal.clean import clean, clean_block

if TYPE_CHECKING:
    from gputop.live.refresh import Refresher
    from gputop.topology.report import Report
    from gputop.topology.sources.feed import Feed

T = TypeVar("T")
log = logging.getLogger(__name__)
log.addHandler(logging.NullHandler())


class GpuTop(ProbeDesk, FindingsDesk, Choices, App[int]):
    """Explores one node. `feed` gives snapshots; without one, reports come as messages."""

    TITLE = "gputop"
    CSS_PATH = str(files(gputop.themes) / "gputop.tcss")
    DEFAULT_MODE = NAMES[0]
    NOTIFICATION_TIMEOUT = 6
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(number), f"screen('{name}')", name.capitalize(), show=False)
            for number, name in enumerate(NAMES, start=1)
        ),
        Binding("question_mark", "help", "Keys", show=False),
        Binding("w,enter", "why", "Why", show=False),
        Binding("p", "probe(False)", "Probe", show=False),
        Binding("P", "probe(True)", "Probe although busy", show=False),
        Binding("y", "copy", "Copy", show=False),
        Binding("x", "export", "Export", show=False),
        Binding("t", "choose_theme", "Theme", show=False),
        Binding("d", "demos", "Demo nodes", show=False),
        Binding("escape", "step_back", "Back", show=False),
        Binding("ctrl+z", "suspend_process", "Stop", show=False),
        Binding("q", "quit", "Quit", show=False),
    ]
    KEYS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("w", "why", "why"),
        ("p", "probe", "probe(False)"),
        ("y", "copy", "copy"),
        ("x", "export", "export"),
        ("t", "theme", "choose_theme"),
        ("?", "keys", "help"),
        ("q", "quit", "quit"),
    )

    report: reactive[Report | None] = reactive(None, init=False, repaint=False)

    def __init__(self, feed: Feed | None = None, interval: float = 1.0) -> None:
        self.MODES = {name: partial(self._open, name) for name in NAMES}  # type: ignore[misc]
        super().__init__()
        self.feed = feed
        self.probe_notes = {}
        self.interval = interval
        self.trouble = ""
        """Our own failure, in words; empty when there is none."""
        self.refresher: Refresher | None = None
        self._inks: tuple[str, theming.Inks] | None = None
        for theme in theming.builtin(default_only=True):
            self.register_theme(theme)
        self.theme = theming.DEFAULT
        self.animation_level = "none"
        self._open_lock = threading.Lock()
        self._listening = False
        self._early: Message | None = None
        """The last message of the refresh thread from before the mount."""
        if feed is not None:
            # The first report is made while the terminal is set up, so that the first picture
            # shows it.
            self.follow(feed)

    @property
    def inks(self) -> theming.Inks:
        """Styles of the theme in use."""
        if self._inks is None or self._inks[0] != self.theme:
            self._inks = (self.theme, theming.Inks(self.get_css_variables()))
        return self._inks[1]

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Give our own variables to themes that do not know them, such as Textual's."""
        ours = self.get_theme(theming.DEFAULT if self.current_theme.dark else theming.LIGHT)
        return {} if ours is None else ours.variables

    @property
    def view(self) -> View | None:
        """The screen that is shown, be it below a panel."""
        bottom = self.screen_stack[0]
        return bottom if isinstance(bottom, View) else None

    def _open(self, name: str) -> Screen[Any]:
        view: View = import_module(f"gputop.screens.{name}.screen").SCREEN(name)
        return view.data_bind(GpuTop.report, GpuTop.probe)

    def on_mount(self) -> None:
        """Show what was read meanwhile."""
        if not self.is_headless and self.console.color_system in {"standard", "windows"}:
            self.register_theme(theming.for_few_colours())
            self.theme = theming.SIXTEEN
        with self._open_lock:
            early, self._early, self._listening = self._early, None, True
        if isinstance(early, messages.ReportReady):
            self.report = early.report
        elif early is not None:
            self.post_message(early)
        if not self.is_headless:
            from gputop.terminal import hangup, job_control

            hangup.watch(lambda code: self.exit(return_code=code))
            job_control.watch(self._driver)
            # What comes back from Ctrl+Z finds an empty screen, of which Textual knows nothing.
            self.app_resume_signal.subscribe(self, lambda _: self.screen.refresh(layout=True))
        self.call_after_refresh(self._settle)

    def on_unmount(self) -> None:
        """Let go of the threads and of a worker without waiting for any of them."""
        self.close_desk()
        if self.refresher is not None:
            self.refresher.close()

    def follow(self, feed: Feed) -> None:
        """Show another node from here on."""
        from gputop.live.refresh import Refresher

        if self.refresher is not None:
            self.refresher.close()
        self.feed = feed
        self.quiet = frozenset()
        self.refresher = Refresher(feed, self._receive, self.interval)
        self.refresher.start()

    def _receive(self, message: Message) -> None:
        """Take a message from the refresh thread; one that comes too early waits for the mount."""
        with self._open_lock:
            if not self._listening:
                self._early = message
                return
        self.post_message(message)

    def _settle(self) -> None:
        # What was imported stays: the collector need not look at it again. Whoever starts the app
        # may have switched the collector off, which spares a tenth of the start.
        gc.freeze()
        gc.enable()
        themes = theming.builtin()
        loaded, failed = theming.load_user(theming.user_folder(), themes[0])
        for theme in (*themes[1:], *loaded):
            self.register_theme(theme)
        if failed:
            self.say("; ".join(failed), title="Themes that cannot be used", severity="warning")

    def _fatal_error(self) -> None:
        """Leave; whoever runs the app says why. Textual would print all local variables."""
        self._close_messages_no_wait()

    def action_suspend_process(self) -> None:
        """Stop until the shell continues us."""
        from gputop.terminal.job_control import UNABLE, can_stop

        if can_stop():
            super().action_suspend_process()
        else:
            self.say(UNABLE, severity="warning")

    def say(self, text: str, **rest: Any) -> None:
        """Notify, as plain text."""
        self.notify(clean(text, 600), markup=False, **rest)

    def guarded(self, work: Callable[..., T], *given: object) -> T | None:
        """Run what draws or explains a report; a mistake of ours becomes a line on the screen."""
        try:
            done = work(*given)
        except Exception as error:  # the app border: the screen stays
            if not self.trouble:
                log.exception("cannot show a report")
            self.trouble = f"cannot show this: {type(error).__name__}: {error}"
            return None
        self.trouble = ""
        return done

    def on_report_ready(self, message: messages.ReportReady) -> None:
        """Keep the newest report; the screens are bound to it."""
        self.report = message.report

    def on_refresh_failed(self, message: messages.RefreshFailed) -> None:
        """Say that no report could be made."""
        self.trouble = f"no report: {message.text}"
        if self.view is not None:
            self.view.draw_bars()

    def on_screen_wanted(self, message: messages.ScreenWanted) -> None:
        """Show another screen; here and not in the action, so that it is bound to the app."""
        self.switch_mode(message.name)

    def action_screen(self, name: str) -> None:
        """Show the screen of that name, and close panels."""
        while len(self.screen_stack) > 1:
            self.pop_screen()
        self.post_message(messages.ScreenWanted(name))

    def action_step_back(self) -> None:
        """Undo the nearest thing: a filter, a running probe, a note."""
        if self.view is None or not self.view.back():
            self.cancel_probe()

    def action_why(self) -> None:
        """Explain the selected thing."""
        from gputop.widgets.panels import WhyPanel

        why = self.guarded(self.view.why) if self.view is not None else None
        if why is None:
            self.say(self.trouble or "nothing to explain is selected", severity="warning")
        else:
            self.push_screen(WhyPanel(why))

    def action_help(self) -> None:
        """Show the keys."""
        from gputop.library_words import words
        from gputop.palette import COMMON_HELP
        from gputop.widgets.panels import HelpPanel

        if self.view is not None:
            own = [(key, words(self.report).say(what)) for key, what in self.view.HELP]
            self.push_screen(HelpPanel(self.view.TITLE, own, COMMON_HELP))

    def action_copy(self) -> None:
        """Put the selected thing on the clipboard of the terminal (OSC 52)."""
        self.copy_text((self.view and self.guarded(self.view.selected_text)) or "")

    def copy_text(self, text: str, note: str = "") -> None:
        """Put a text on the clipboard of the terminal, and say so; `note` goes after it."""
        if not text.strip():
            self.say("nothing is selected", severity="warning")
            return
        self.copy_to_clipboard(clean_block(text))
        self.say(f"copied: {clean(text.strip().splitlines()[0], 60)}{note}")

    def action_export(self) -> None:
        """Write the screen and the snapshot to the current folder."""
        from gputop.export import export

        snapshot = self.report.snapshot if self.report is not None else None
        name = (self.view.name or "") if self.view is not None else ""
        try:
            paths = export(self.export_screenshot(), snapshot, name, Path.cwd())
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            self.say(f"cannot export: {why}", severity="error")
            return
        names = " and ".join(path.name for path in paths)
        self.say(f"written to {paths[0].parent}: {names}")

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Commands of the palette."""
        from gputop.palette import commands

        return commands(self)
