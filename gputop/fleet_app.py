"""FleetApp: the app on many nodes, and what its palette finds: nodes, findings, figures.

It opens one of the nodes in the app of a node and comes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, cast

from textual.app import SystemCommand
from textual.command import Hits, Provider
from textual.message import Message
from textual.screen import Screen

from gputop.base_app import BaseApp, actions
from gputop.live.fleet_node import WholeNode, read_whole
from gputop.live.fleet_watch import FleetState, FleetWatch
from gputop.screens.fleet.figures import FiguresTab
from gputop.screens.fleet.node_panel import NodePanel
from gputop.screens.fleet.odd import OddTab
from gputop.screens.fleet.screen import FleetScreen
from gputop.search import CommandProvider, Thing, ThingKind, hit_of
from gputop.terminal.preferences import Preferences
from gputop.widgets.key import help_rows
from gputop.widgets.panels import HelpPanel

MOST_HITS = 60
"""More than that are for the filter of the tab Nodes."""


class FleetProvider(Provider):
    """Finds things by the words of their title."""

    async def search(self, query: str) -> Hits:
        """Give what has every word."""
        found = (hit_of(thing, query) for thing in _things(cast("FleetApp", self.app)))
        for hit in islice(filter(None, found), MOST_HITS):
            yield hit


def _things(app: FleetApp) -> Iterator[Thing]:
    screen = app.fleet_screen
    facts = screen.tabs.facts
    if facts is None:
        return
    odd, figures = OddTab(facts), FiguresTab(facts)
    for name, item in zip(odd.names, facts.fleet.findings, strict=True):
        about = f"{len(item.hosts)} nodes" if item.hosts else "The finding"
        go = partial(screen.show_row, "odd", name)
        yield Thing(ThingKind.FINDING, f"{item.title} · {item.id}", about, go)
    for name in figures.names:
        go = partial(screen.show_row, "figures", name)
        yield Thing(ThingKind.JOB, figures.title(name), "The figure on all nodes", go)
    for host in facts.fleet.hosts:
        _, _, word = facts.fleet.states[host].shown
        go = partial(screen.show_row, "nodes", host)
        yield Thing(ThingKind.DEVICE, host, f"The node, {word}", go)


OPENING = "opening"


@dataclass
class FleetReady(Message):
    """The thread has looked at the folder."""

    state: FleetState

    def can_replace(self, message: Message) -> bool:
        """A later one takes the place of one that is still queued: a slow terminal skips some."""
        return isinstance(message, FleetReady)


class FleetApp(BaseApp[WholeNode]):
    """Shows what a FleetWatch reads. It ends with a node where one is to be shown."""

    TITLE = "gputop fleet"

    class NodeRead(Message):
        """A thread has read the file of a node."""

        def __init__(self, host: str, whole: WholeNode) -> None:
            super().__init__()
            self.host = host
            self.whole = whole

    def __init__(self, watch: FleetWatch, remembered: Preferences | None = None) -> None:
        super().__init__(remembered)
        self.folder = watch.folder
        self.state: FleetState = watch.state
        self.fleet_screen = FleetScreen(self)
        self._watch = watch

    def get_default_screen(self) -> Screen[Any]:
        """The only screen."""
        return self.fleet_screen

    def on_mount(self) -> None:
        """Show what was read meanwhile, and listen."""
        self.join_terminal()
        self._watch.listen(lambda state: self.post_message(FleetReady(state)))
        # What was told before somebody listened.
        self.state = self._watch.state
        self.guarded(self.fleet_screen.take_state)

    def on_unmount(self) -> None:
        """Listen no longer."""
        self._watch.listen(None)

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

    def on_first_trouble(self, text: str) -> None:
        """Say it in a note."""
        self.say(text, severity="error")

    def action_step_back(self) -> None:
        """Undo the nearest thing on the screen; Ctrl+C asks for it too."""
        self.fleet_screen.action_step_back()

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(HelpPanel("Fleet", help_rows(FleetScreen.KEYS), (), self))

    def exported(self) -> tuple[None, str]:
        """The picture alone."""
        return None, "fleet"

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Give the commands of the palette."""
        yield from self.fleet_screen.commands()

    def action_command_palette(self) -> None:
        """Open the palette of commands and of what is on the screen."""
        actions.open_palette(self, (CommandProvider, FleetProvider))
