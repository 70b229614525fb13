"""What the palette finds besides commands: GPUs, NICs, pairs, variables, findings, demos."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from textual.command import Hit, Hits, Provider
from textual.content import Content

from gputop.terminal.clean import clean
from gputop.topology.flags.catalogue.catalogue import Catalogue, catalogue
from gputop.topology.recorded.demos import demo
from gputop.topology.recorded.feeds import DemoFeed

if TYPE_CHECKING:
    from gputop.app import GpuTop

_GPU = r"\s*(?:gpu)?\s*(\d{1,3})"
PAIR = re.compile(rf"{_GPU}(?:\s*(?:-|→|>|,|to)\s*|\s+){_GPU}\s*", re.IGNORECASE)
"""Two numbers of GPUs: "0 5", "0-5", "gpu0 to gpu5"."""
BEST, GOOD = 1000.0, 0.5
"""Above the scores of commands: a title that begins so. Below: one that has every word."""


class Thing(NamedTuple):
    """One thing that can be found."""

    title: str
    about: str
    go: Callable[[], Any]


class ThingProvider(Provider):
    """Finds things by the words of their title and of what is said about them."""

    async def startup(self) -> None:
        """Read the catalogue in a thread: that takes longer than a key may."""
        self._catalogue = await asyncio.to_thread(catalogue)

    async def search(self, query: str) -> Hits:
        """Give what has every word."""
        words = query.lower().split()
        app = cast("GpuTop", self.app)
        for thing in (*_pairs(app, query), *_things(app, self._catalogue)):
            title = thing.title.lower()
            if not words or not all(word in title for word in words):
                continue
            score = BEST if title.startswith(words[0]) else GOOD
            shown = Content(clean(thing.title, 120))
            yield Hit(score - len(title) / 1000, shown, thing.go, help=clean(thing.about, 160))


def _pairs(app: GpuTop, query: str) -> Iterator[Thing]:
    """The pair of two numbers, with the query in its title, as it is what was asked for."""
    found = PAIR.fullmatch(query)
    report = app.report
    if found is None or report is None:
        return
    numbered = {str(gpu.number): gpu.address for gpu in report.snapshot.machine.gpus}
    one, other = (numbered.get(str(int(number))) for number in found.groups())
    if one is not None and other is not None and one != other:
        title = f"GPU{int(found[1])} → GPU{int(found[2])} ({query.strip()})"
        yield Thing(title, "The pair on Pairs", partial(go_to, app, "pairs", one, other))


def _things(app: GpuTop, known: Catalogue) -> Iterator[Thing]:
    report = app.report
    if report is not None:
        for node, held in report.graph.nodes(data=True):
            label = held["label"]
            if held["kind"] == "gpu":
                name = getattr(held["record"], "name", None) or "GPU"
                yield Thing(f"{label} · {name} · {node}", "The GPU on Node", _go(app, "node", node))
            elif held["kind"] == "nic":
                yield Thing(f"{label} · NIC · {node}", "The NIC on Map", _go(app, "map", node))
    shown = app.findings.shown(report)
    for finding in () if shown is None else shown.findings:
        title = f"{finding.title} · {finding.id}"
        yield Thing(title, "The finding", _named(app, "findings", finding.id))
    words = app.words
    for flag in known.flags:
        about = words.fill(flag.changes)
        yield Thing(flag.name, about, _named(app, "flags", flag.name))
    if app.check_action("demos", ()):
        for name in demo.names():
            follow = partial(app.follow, DemoFeed(name, interval=app.interval))
            yield Thing(f"Demo {name}", demo.title(name), follow)


def _go(app: GpuTop, screen: str, device: str) -> Callable[[], None]:
    return partial(go_to, app, screen, device)


def _named(app: GpuTop, screen: str, name: str) -> Callable[[], None]:
    return partial(go_to, app, screen, name=name)


def go_to(app: GpuTop, screen: str, *devices: str, name: str = "") -> None:
    """Show a screen with a device, a pair or the thing of a name selected."""
    if devices:
        app.selected.pick(*devices)
    app.selected.name = name
    if app.view is not None and app.view.name == screen:
        app.view.on_screen_resume()
    app.action_screen(screen)
