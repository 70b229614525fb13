"""FleetApp: the app on many nodes. It opens one of them in the app of a node and comes back."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from textual.app import SystemCommand
from textual.message import Message
from textual.notifications import Notify
from textual.screen import Screen

from gputop import actions, theming
from gputop.fleet_search import FleetProvider
from gputop.live.findings_controller import FindingsController
from gputop.live.fleet_node import WholeNode, read_whole
from gputop.live.fleet_watch import FleetState, FleetWatch
from gputop.screens.fleet.node_panel import NodePanel
from gputop.screens.fleet.screen import FleetScreen
from gputop.screens.notice import Notice
from gputop.stylesheet import KeptStylesheet
from gputop.terminal import hangup, job_control
from gputop.terminal.clean import clean
from gputop.terminal.inks import THEMES
from gputop.terminal.preferences import Preferences
from gputop.widgets.key import help_rows
from gputop.widgets.panels import HelpPanel
from gputop.widgets.quick_keys import QuickKeysApp

T = TypeVar("T")
log = logging.getLogger(__name__)
log.addHandler(logging.NullHandler())
OPENING = "opening"


@dataclass
class FleetReady(Message):
    """The thread has looked at the folder."""

    state: FleetState

    def can_replace(self, message: Message) -> bool:
        """A later one takes the place of one that is still queued: a slow terminal skips some."""
        return isinstance(message, FleetReady)


class FleetApp(QuickKeysApp[WholeNode]):
    """Shows what a FleetWatch reads. It ends with a node where one is to be shown."""

    TITLE = "gputop fleet"
    CSS_PATH = str(THEMES / "gputop.tcss")

    class NodeRead(Message):
        """A thread has read the file of a node."""

        def __init__(self, host: str, whole: WholeNode) -> None:
            super().__init__()
            self.host = host
            self.whole = whole

    def __init__(self, watch: FleetWatch, remembered: Preferences | None = None) -> None:
        super().__init__()
        self.stylesheet = KeptStylesheet(variables=self.get_css_variables())
        self.folder = watch.folder
        self.state: FleetState = watch.state
        self.trouble = ""
        """Our own failure, in words; empty when there is none."""
        self.remembered = remembered or Preferences()
        self.fleet_screen = FleetScreen(self)
        self._watch = watch
        self._copies = FindingsController()
        theming.wear(self, self.remembered.get("theme"))
        self.animation_level = "none"

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Give our own variables to themes that do not know them, such as Textual's."""
        return theming.own_variables(self)

    def get_default_screen(self) -> Screen[Any]:
        """The only screen."""
        return self.fleet_screen

    def on_mount(self) -> None:
        """Show what was read meanwhile, and listen."""
        if not self.is_headless:
            if self.console.color_system in {"standard", "windows"}:
                self.register_theme(theming.for_few_colours())
                self.theme = theming.SIXTEEN
            hangup.watch(lambda code: self.exit(return_code=code))
            job_control.watch(self._driver)
            self.app_resume_signal.subscribe(self, lambda _: self.screen.refresh(layout=True))
        self._watch.listen(lambda state: self.post_message(FleetReady(state)))
        # What was told before somebody listened.
        self.state = self._watch.state
        self.guarded(self.fleet_screen.take_state)
        self.call_after_refresh(self._settle)

    def _settle(self) -> None:
        gc.freeze()
        gc.enable()
        if failed := theming.register_all(self, self.remembered.get("theme")):
            self.say("; ".join(failed), title="Themes that cannot be used", severity="warning")

    def on_unmount(self) -> None:
        """Listen no longer."""
        self._watch.listen(None)

    def _fatal_error(self) -> None:
        """Leave; whoever runs the app says why. Textual would print all local variables."""
        self._close_messages_no_wait()

    def on_fleet_ready(self, message: FleetReady) -> None:
        """Show what was read."""
        self.state = message.state
        self.guarded(self.fleet_screen.take_state)

    def open_node(self, host: str) -> None:
        """Read the file of a node, and show it."""
        fleet = self.state.fleet
        report = None if fleet is None else fleet.nodes.get(host)
        if report is None:
            self._show(host, WholeNode(why="no file of it can be used"))
            return

        def read() -> None:
            try:
                whole = read_whole(self.folder, report.path)
            except ValueError as error:
                whole = WholeNode(why=f"its file cannot be read: {error}")
            self.post_message(self.NodeRead(host, whole))

        self.run_worker(read, thread=True, exclusive=True, group=OPENING, exit_on_error=False)

    def on_fleet_app_node_read(self, message: NodeRead) -> None:
        """Show a node, unless something else was opened meanwhile."""
        if self.screen is self.fleet_screen:
            self._show(message.host, message.whole)

    def _show(self, host: str, whole: WholeNode) -> None:
        facts = self.fleet_screen.tabs.facts
        if whole.snapshot is not None:
            self.exit(whole)
        elif facts is not None and host in facts.fleet.states:
            self.push_screen(NodePanel(host, facts, whole, self))

    def say(self, text: str, **rest: Any) -> None:
        """Notify, as plain text."""
        self.post_message(Notify(Notice(clean(text, 600), **rest)))

    def guarded(self, work: Callable[..., T], *given: object) -> T | None:
        """Run what draws; a mistake of ours becomes a note."""
        try:
            done = work(*given)
        except Exception as error:  # the app border: the screen stays
            if not self.trouble:
                log.exception("cannot show a fleet")
                self.say(f"cannot show this: {type(error).__name__}: {error}", severity="error")
            self.trouble = f"cannot show this: {type(error).__name__}: {error}"
            return None
        self.trouble = ""
        return done

    def action_suspend_process(self) -> None:
        """Stop until the shell continues us."""
        if job_control.can_stop():
            super().action_suspend_process()
        else:
            self.say(job_control.UNABLE, severity="warning")

    def action_step_back(self) -> None:
        """Undo the nearest thing on the screen; Ctrl+C asks for it too."""
        self.fleet_screen.action_step_back()

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(HelpPanel("Fleet", help_rows(FleetScreen.KEYS), (), self))

    def action_choose_theme(self) -> None:
        """Choose a theme; the one under the cursor shows at once."""
        actions.choose_theme(self)

    def copy_command(self, commands: tuple[str, ...]) -> None:
        """Copy the first of these; called again, the next one."""
        self.copy_text(*self._copies.next_command(commands))

    def copy_text(self, text: str, note: str = "") -> None:
        """Put a text on the clipboard of the terminal, and say so; `note` goes after it."""
        actions.copy_text(self, text, note)

    def action_export(self) -> None:
        """Write the screen to the current folder."""
        try:
            (path,) = actions.export(self.export_screenshot(), None, "fleet", Path.cwd())
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            self.say(f"cannot export: {why}", severity="error")
            return
        self.say(f"written to {path.parent}: {path.name}")

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Give the commands of the palette."""
        yield from self.fleet_screen.commands()

    def action_command_palette(self) -> None:
        """Open the palette of commands and of what is on the screen."""
        actions.open_palette(self, FleetProvider)
