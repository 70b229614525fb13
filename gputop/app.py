"""GpuTop: the app. It keeps the report, opens screens and handles what others wish for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.reactive import reactive
from textual.screen import Screen

import gputop.themes
from gputop import messages, theming
from gputop.clean import clean, clean_block
from gputop.messages import ProbeState
from gputop.screens import NAMES
from gputop.screens.screen import View

if TYPE_CHECKING:
    from gputop.probing import Probing
    from gputop.refresh import Refresher
    from gputop.topology.report import Report
    from gputop.topology.watch import Feed

log = logging.getLogger(__name__)


class GpuTop(App[int]):
    """Explores one node. `feed` gives snapshots; without one, reports come as messages."""

    TITLE = "gputop"
    CSS_PATH = str(files(gputop.themes) / "gputop.tcss")
    DEFAULT_MODE = NAMES[0]
    ENABLE_COMMAND_PALETTE = True
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
        Binding("escape", "cancel_probe", "Back", show=False),
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
    probe: reactive[ProbeState | None] = reactive(None, init=False, repaint=False)

    def __init__(self, feed: Feed | None = None, interval: float = 1.0) -> None:
        self.MODES = {name: partial(self._open, name) for name in NAMES}  # type: ignore[misc]
        super().__init__()
        self.feed = feed
        self.interval = interval
        self.trouble = ""
        """Our own failure, in words; empty when there is none."""
        self.refresher: Refresher | None = None
        self._probing: Probing | None = None
        self._inks: tuple[str, theming.Inks] | None = None
        for theme in theming.builtin():
            self.register_theme(theme)
        self.theme = theming.DEFAULT
        self.animation_level = "none"

    @property
    def inks(self) -> theming.Inks:
        """Styles of the theme in use."""
        if self._inks is None or self._inks[0] != self.theme:
            self._inks = (self.theme, theming.Inks(self.get_css_variables()))
        return self._inks[1]

    @property
    def view(self) -> View | None:
        """The screen that is shown, be it below a panel."""
        bottom = self.screen_stack[0]
        return bottom if isinstance(bottom, View) else None

    def _open(self, name: str) -> Screen[Any]:
        view: View = import_module(f"gputop.screens.{name}").SCREEN(name)
        return view.data_bind(GpuTop.report, GpuTop.probe)

    def on_mount(self) -> None:
        """Begin to read the node."""
        if self.feed is not None:
            self._follow(self.feed)

    def on_unmount(self) -> None:
        """Let go of threads and of a worker without waiting for any of them."""
        if self._probing is not None:
            self._probing.close()
        if self.refresher is not None:
            self.refresher.close()

    def _follow(self, feed: Feed) -> None:
        from gputop.refresh import Refresher

        if self.refresher is not None:
            self.refresher.close()
        self.feed = feed
        self.refresher = Refresher(feed, self.post_message, self.interval)
        self.refresher.start()

    def guarded(self, handler: Callable[[Any], object], report: Report) -> None:
        """Run what draws a report; a mistake of ours becomes a line on the screen."""
        try:
            handler(report)
        except Exception as error:  # noqa: BLE001 - the app border: the screen stays, with the reason
            log.exception("cannot draw")
            self.trouble = f"cannot draw this: {type(error).__name__}: {error}"
        else:
            self.trouble = ""

    def on_report_ready(self, message: messages.ReportReady) -> None:
        """Keep the newest report; the screens are bound to it."""
        self.report = message.report

    def on_refresh_failed(self, message: messages.RefreshFailed) -> None:
        """Say that no report could be made."""
        self.notify(clean(message.text), title="No report", severity="error", markup=False)

    def on_screen_wanted(self, message: messages.ScreenWanted) -> None:
        """Show another screen; here, so that it is bound to the app."""
        self.switch_mode(message.name)

    def action_screen(self, name: str) -> None:
        """Show the screen of that name, and close panels."""
        while len(self.screen_stack) > 1:
            self.pop_screen()
        self.post_message(messages.ScreenWanted(name))

    def action_copy(self) -> None:
        """Put the selected thing on the clipboard of the terminal (OSC 52)."""
        text = self.view.selected_text() if self.view is not None else ""
        self.copy_text(text)

    def copy_text(self, text: str) -> None:
        """Put a text on the clipboard of the terminal, and say so."""
        if not text:
            self.notify("nothing is selected", severity="warning", markup=False)
            return
        self.copy_to_clipboard(clean_block(text))
        first = text.strip().splitlines()[0]
        self.notify(f"copied: {clean(first, 60)}", markup=False)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Commands of the palette."""
        for number, name in enumerate(NAMES, start=1):
            title = name.capitalize()
            yield SystemCommand(
                title, f"Show the screen {title} (key {number})", partial(self.action_screen, name)
            )
        yield SystemCommand("Quit", "Give the terminal back (key q)", self.action_quit)
