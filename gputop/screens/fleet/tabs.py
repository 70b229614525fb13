"""Which tab of the screen Fleet is in sight, which row is selected, which nodes were chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gputop.screens.fleet.figures import FiguresTab
from gputop.screens.fleet.groups import GroupsTab
from gputop.screens.fleet.keys import TABS
from gputop.screens.fleet.links import LinksTab
from gputop.screens.fleet.nodes import NodesTab
from gputop.screens.fleet.odd import OddTab
from gputop.screens.fleet.tab import FleetFacts, FleetTab

if TYPE_CHECKING:
    from gputop.live.fleet_watch import FleetState

NODES = TABS[-1]
_MADE: dict[str, Callable[[FleetFacts], FleetTab]] = {
    "odd": OddTab,
    "groups": GroupsTab,
    "figures": FiguresTab,
    "links": LinksTab,
}


class FleetTabs:
    """The tabs of the newest fleet, each made when it is shown first."""

    def __init__(self) -> None:
        self.name = TABS[0]
        """The tab in sight."""
        self.facts: FleetFacts | None = None
        """What is shown; None before the first reading is done."""
        self.selected: dict[str, str] = {}
        """Tab -> its selected row."""
        self.words = ""
        """The filter of the nodes."""
        self._only: tuple[str, ...] = ()
        self._why = ""
        self._ordered = False
        self._from = ""
        """The tab that chose the nodes; Esc goes back to it."""
        self._made: dict[str, FleetTab] = {}

    def take(self, state: FleetState) -> None:
        """Take what the thread has read."""
        facts = self.facts
        if state.fleet is not None and (facts is None or facts.fleet is not state.fleet):
            self.facts = FleetFacts(state.fleet)
            self._made.clear()

    @property
    def tab(self) -> FleetTab | None:
        """The tab in sight; None before the first reading is done."""
        if self.facts is None:
            return None
        found = self._made.get(self.name)
        if found is None:
            if self.name in _MADE:
                found = _MADE[self.name](self.facts)
            else:
                found = NodesTab(
                    self.facts, self._only, self._why, self.words, ordered=self._ordered
                )
            self._made[self.name] = found
        return found

    @property
    def row(self) -> str:
        """The selected row of the tab in sight; "" for none."""
        return self.selected.get(self.name, "")

    @row.setter
    def row(self, name: str) -> None:
        self.selected[self.name] = name

    @property
    def narrowed(self) -> bool:
        """Whether the tab Nodes shows some nodes only."""
        return bool(self._only or self.words)

    def show(self, name: str) -> None:
        """Show a tab; of the nodes all."""
        if name == NODES and self.narrowed:
            self.show_all()
        self.name, self._from = name, ""

    def choose(self, hosts: tuple[str, ...], why: str, *, ordered: bool = False) -> None:
        """Show these nodes alone; `ordered`: in this order."""
        if self.name != NODES:
            self._from = self.name
        self._only, self._why, self._ordered, self.words = hosts, why, ordered, ""
        self._made.pop(NODES, None)
        self.selected[NODES] = ""
        self.name = NODES

    def filter(self, words: str) -> None:
        """Show the nodes that these words or this list name."""
        self.words = words
        self._made.pop(NODES, None)

    def show_all(self) -> None:
        """Show all nodes again."""
        self._only, self._why, self._ordered, self.words = (), "", False, ""
        self._made.pop(NODES, None)

    def back(self) -> None:
        """Undo a choice of nodes, and go back to where it was made."""
        if self.name == NODES and self.narrowed:
            self.show_all()
            self.name, self._from = self._from or NODES, ""
