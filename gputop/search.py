"""What the palette finds: pairs, findings, devices, jobs, actions, words, variables, demos."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import IntEnum
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from textual.command import Hit, Hits, Provider
from textual.content import Content
from textual.system_commands import SystemCommandsProvider

from gputop.pages import glossary
from gputop.probes import catalog
from gputop.screens import NAMES
from gputop.terminal.clean import clean
from gputop.topology.flags.catalogue.catalogue import Catalogue, catalogue
from gputop.topology.flags.what_if.study import versions_named
from gputop.topology.jobs.grouping import jobs
from gputop.topology.recorded.demos import demo
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.wiring.gpu_names import gpu_label
from gputop.widgets.panels import WhyPanel

if TYPE_CHECKING:
    from gputop.app import GpuTop

_GPU = r"\s*(?:gpu)?\s*(\d{1,3})"
PAIR = re.compile(rf"{_GPU}(?:\s*(?:-|→|>|,|to)\s*|\s+){_GPU}\s*", re.IGNORECASE)
"""Two numbers of GPUs: "0 5", "0-5", "gpu0 to gpu5"."""
ONE = re.compile(rf"{_GPU}\s*", re.IGNORECASE)
STEP = 1000.0
"""Between the scores of two kinds, more than any score of Textual's."""
BEGINS, IN_TITLE = 100.0, 50.0
"""What a title gains that begins with the query, or has all of its words."""
TRIES, PAUSE_SECONDS = 40, 0.05
"""How long an action waits for its screen."""


class ThingKind(IntEnum):
    """What is found, the last one first."""

    DEMO = 1
    THEME = 2
    VARIABLE = 3
    WORD = 4
    ACTION = 5
    JOB = 6
    DEVICE = 7
    FINDING = 8
    EXACT = 9


class Thing(NamedTuple):
    """One thing that can be found."""

    kind: ThingKind
    title: str
    about: str
    go: Callable[[], Any]


class CommandProvider(SystemCommandsProvider):
    """The commands of the palette, among the other things in their order."""

    async def search(self, query: str) -> Hits:
        """Give those that match; the one whose title is asked for goes before all else."""
        async for hit in super().search(query):
            assert isinstance(hit, Hit)
            begins = (hit.text or "").lower().startswith(query.lower().strip())
            kind = ThingKind.EXACT if begins else ThingKind.ACTION
            yield replace(hit, score=kind * STEP + min(hit.score, BEGINS) - STEP / 10 * begins)


class ThingProvider(Provider):
    """Finds things by the words of their title and of what is said about them."""

    async def startup(self) -> None:
        """Read the catalogue in a thread: that takes longer than a key may."""
        self._catalogue = await asyncio.to_thread(catalogue)

    async def search(self, query: str) -> Hits:
        """Give what has every word."""
        app = cast("GpuTop", self.app)
        asked = *_asked_for(app, query), *_versions(app, query)
        for thing in (*asked, *_things(app, self._catalogue)):
            if (hit := hit_of(thing, query)) is not None:
                yield hit


def hit_of(thing: Thing, query: str) -> Hit | None:
    """The thing with its place among others, where it has every word; else None."""
    title, words = thing.title.lower(), query.lower().split()
    if not words or not all(word in f"{title} {thing.about.lower()}" for word in words):
        return None
    named = all(word in title for word in words)
    kind = thing.kind if named or thing.kind >= ThingKind.JOB else 0
    score = kind * STEP + STEP / 2 - min(len(title), 90) / 10
    score += IN_TITLE * named + BEGINS * title.startswith(" ".join(words))
    return Hit(score, Content(clean(thing.title, 120)), thing.go, help=clean(thing.about, 160))


def _asked_for(app: GpuTop, query: str) -> Iterator[Thing]:
    """The GPU of a number or the pair of two, with the query in its title."""
    if app.report is None:
        return
    numbered = {str(gpu.number): gpu.address for gpu in app.report.snapshot.machine.gpus}
    found = ONE.fullmatch(query) or PAIR.fullmatch(query)
    numbers = [str(int(number)) for number in found.groups()] if found else []
    devices = [numbered[number] for number in numbers if number in numbered]
    if not found or len({*devices}) != len(found.groups()):
        return
    title = f"{' → '.join(f'GPU{number}' for number in numbers)} ({query.strip()})"
    screen, about = ("node", "The GPU on Node") if len(devices) == 1 else ("pairs", "The pair")
    yield Thing(ThingKind.EXACT, title, about, partial(go_to, app, screen, *devices))


def _versions(app: GpuTop, query: str) -> Iterator[Thing]:
    """Other versions of the library, to try one out; with the query in their titles."""
    study = app.what_if.study() if len(query.strip()) > 2 else None
    if study is None:
        return
    here = study.whose()
    name = here.name.upper()
    for number in versions_named(here, query) if query.strip().lower() != here.name else ():
        title = f"{name} {number} instead of {here.version} ({query.strip()})"
        try_out = partial(app.what_if.change, name, number)
        yield Thing(ThingKind.EXACT, title, "What if: another version, on all screens", try_out)


def _things(app: GpuTop, known: Catalogue) -> Iterator[Thing]:
    yield from _devices(app)
    shown = app.findings.shown(app.report)
    for finding in () if shown is None else shown.of_node.findings:
        title, about = f"{finding.title} · {finding.id}", f"The finding: {finding.severity.word}"
        yield Thing(ThingKind.FINDING, title, about, _named(app, "findings", finding.id))
    yield from _processes(app)
    yield from _actions(app)
    words = app.words
    for word, meaning in glossary.terms(words).items():
        yield Thing(ThingKind.WORD, word, meaning, partial(_explain, app, word))
    for flag in known.flags:
        about = words.fill(flag.changes)
        yield Thing(ThingKind.VARIABLE, flag.name, about, _named(app, "flags", flag.name))
    for theme in app.available_themes:
        kind = ThingKind.THEME if theme.startswith("gputop-") else ThingKind.DEMO
        yield Thing(kind, f"Theme {theme}", "The colours", partial(app.keep_theme, theme))
    if app.check_action("demos", ()):
        for name in demo.names():
            follow = partial(app.follow, DemoFeed(name, interval=app.interval))
            yield Thing(ThingKind.DEMO, f"Demo {name}", demo.title(name), follow)


def _devices(app: GpuTop) -> Iterator[Thing]:
    report = app.report
    for node, held in () if report is None else report.graph.nodes(data=True):
        label = held["label"]
        if held["kind"] == "gpu":
            title = f"{label} · {getattr(held['record'], 'name', None) or 'GPU'} · {node}"
            yield Thing(ThingKind.DEVICE, title, "The GPU on Node", _go(app, "node", node))
        elif held["kind"] == "nic":
            title = f"{label} · NIC · {node}"
            yield Thing(ThingKind.DEVICE, title, "The NIC on Map", _go(app, "map", node))


def _processes(app: GpuTop) -> Iterator[Thing]:
    report = app.report
    for job in () if report is None else jobs(report.snapshot):
        yield Thing(ThingKind.JOB, job.name, "The job", _named(app, "jobs", f"job:{job.key}"))
        for user in job.processes:
            gpus = map(report.snapshot.machine.gpu, user.gpus) if report else ()
            where = " ".join(gpu_label(gpu) for gpu in gpus if gpu is not None)
            rank = "" if user.reading.rank is None else f"rank {user.reading.rank} · "
            title = f"{rank}pid {user.pid} · {user.reading.command or 'process'} · {where}"
            yield Thing(ThingKind.JOB, title, job.name, _named(app, "jobs", f"pid:{user.pid}"))


def _actions(app: GpuTop) -> Iterator[Thing]:
    """Probes, and what the keys of the other screens do; those of this one are commands."""
    for name in catalog.NAMES:
        spec = catalog.load(name).SPEC
        yield Thing(ThingKind.ACTION, f"Probe {name}", spec.measures, _named(app, "probes", name))
    here = "" if app.view is None else app.view.name
    for screen in (name for name in NAMES if name != here):
        for key in import_module(f"gputop.screens.{screen}.screen").SCREEN.KEYS:
            if key.command:
                title = f"{key.command} · {screen.capitalize()}"
                yield Thing(
                    ThingKind.ACTION,
                    app.words.fill(title),
                    app.words.fill(key.about),
                    partial(_run_on, app, screen, key.action),
                )


def _explain(app: GpuTop, word: str) -> None:
    app.push_screen(WhyPanel(glossary.entry(word, app.words), app))


def _run_on(app: GpuTop, screen: str, action: str) -> None:
    """Show a screen and then do what a key of it does."""
    app.action_screen(screen)
    _when_shown(app, screen, action, TRIES)


def _when_shown(app: GpuTop, screen: str, action: str, tries: int) -> None:
    view = app.view
    if view is not None and view.name == screen and view.is_whole:
        app.call_later(app.run_action, action, view)
    elif tries:
        app.set_timer(PAUSE_SECONDS, partial(_when_shown, app, screen, action, tries - 1))


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
