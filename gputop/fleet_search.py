"""What the palette of a fleet finds besides commands: nodes, findings, figures."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import Hit, Hits, Provider
from textual.content import Content

from gputop.screens.fleet.figures import FiguresTab
from gputop.screens.fleet.odd import OddTab
from gputop.search import BEST, GOOD, Thing
from gputop.terminal.clean import clean

if TYPE_CHECKING:
    from gputop.fleet_app import FleetApp

MOST_HITS = 60
"""More than that are for the filter of the tab Nodes."""


class FleetProvider(Provider):
    """Finds things by the words of their title."""

    async def search(self, query: str) -> Hits:
        """Give what has every word."""
        words = query.lower().split()
        count = 0
        for thing in _things(cast("FleetApp", self.app)):
            title = thing.title.lower()
            if not words or not all(word in title for word in words):
                continue
            score = BEST if title.startswith(words[0]) else GOOD
            shown = Content(clean(thing.title, 120))
            yield Hit(score - len(title) / 1000, shown, thing.go, help=clean(thing.about, 160))
            count += 1
            if count >= MOST_HITS:
                return


def _things(app: FleetApp) -> Iterator[Thing]:
    screen = app.fleet_screen
    facts = screen.tabs.facts
    if facts is None:
        return
    odd, figures = OddTab(facts), FiguresTab(facts)
    for name, item in zip(odd.names, facts.fleet.findings, strict=True):
        about = f"{len(item.hosts)} nodes" if item.hosts else "The finding"
        yield Thing(f"{item.title} · {item.id}", about, partial(screen.show_row, "odd", name))
    for name in figures.names:
        go = partial(screen.show_row, "figures", name)
        yield Thing(figures.title(name), "The figure on all nodes", go)
    for host in facts.fleet.hosts:
        _, _, word = facts.fleet.states[host].shown
        yield Thing(host, f"The node, {word}", partial(screen.show_row, "nodes", host))
