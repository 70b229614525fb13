"""Actions of the app that take more than a line: choose a theme or a demo, export."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.app import SystemCommand

from gputop.answers import QUESTIONS
from gputop.pages.glossary import glossary
from gputop.printing.ticket import ticket
from gputop.screens import NAMES
from gputop.screens.diff import NAME, DiffScreen
from gputop.screens.key_line import COMMON, REPLAY
from gputop.screens.node.identity import identity_lines
from gputop.screens.question import QuestionScreen, questions
from gputop.screens.view import runs_library
from gputop.search import CommandProvider, ThingProvider
from gputop.terminal.clean import clean, clean_block
from gputop.terminal.writing import write_whole
from gputop.topology.flags.catalogue.catalogue import catalogue
from gputop.topology.flags.what_if.changes import LIBRARIES
from gputop.topology.flags.what_if.study import versions_named
from gputop.topology.model.characters import json_text
from gputop.topology.recorded.demos import demo
from gputop.topology.recorded.feeds import DemoFeed
from gputop.widgets.key import commands, help_rows
from gputop.widgets.palette import Palette
from gputop.widgets.panels import (
    ChoicePanel,
    ConfirmPanel,
    DockedChoicePanel,
    HelpPanel,
    TypedChoicePanel,
    WhyPanel,
)
from gputop.widgets.spans import left, text_of

if TYPE_CHECKING:
    from textual.app import App
    from textual.command import Provider
    from textual.screen import Screen

    from gputop.answers.question import AnyQuestion
    from gputop.app import GpuTop
    from gputop.base_app import BaseApp
    from gputop.measuring.announcing import Announcement
    from gputop.screens.plugged import PluginView
    from gputop.topology.model.finding import Finding
    from gputop.topology.model.severity import Verdict
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.report import Report


def choose_theme(app: BaseApp[Any]) -> None:
    """Choose a theme, also for the next start; the one under the cursor shows at once."""
    before = app.theme
    names = [name for name in app.available_themes if name.startswith("gputop-")]
    names += [name for name in app.available_themes if name not in names]

    def show(name: str | None) -> None:
        app.theme = before if name is None else name

    def take(name: str | None) -> None:
        if name is None:
            show(None)
        else:
            app.keep_theme(name)

    app.push_screen(DockedChoicePanel("Theme", [(n, n) for n in names], before, preview=show), take)


def confirm_run(app: GpuTop, announced: Announcement, go: Callable[[], None]) -> None:
    """Say what a run would load, and start it on Enter."""

    def answered(answer: str | None) -> None:
        if answer:
            go()

    app.push_screen(ConfirmPanel(announced.title, announced.lines, app), answered)


def offers_demos(report: Report | None) -> bool:
    """Whether no GPU answers here, or a demo is shown already."""
    if report is None:
        return False
    answers = any(gpu.uuid is not None for gpu in report.snapshot.machine.gpus)
    return not answers or report.snapshot.is_demo


def open_palette(
    app: App[Any], providers: Sequence[type[Provider]] = (CommandProvider, ThingProvider)
) -> None:
    """Open the palette of commands and of things, unless it is open."""
    if not Palette.is_open(app):
        # Without an id: the palette before it may not have left the list of screens yet.
        app.push_screen(Palette(*providers))


def palette_commands(app: GpuTop) -> Iterator[SystemCommand]:
    """Commands of the palette: the screens, what the shown one offers, what all offer."""
    played = REPLAY if app.sessions.replay is not None else ()
    common = [
        command._replace(title=app.words.fill(command.title), help=app.words.fill(command.help))
        for command in commands((*COMMON, *played), app.run_action)
        if (offers_demos(app.report) or command.title != "Demo nodes")
        and (runs_library(app.report) or "library" not in command.title)
    ]
    yield from common[: len(NAMES)]
    for question in questions():
        about = QUESTIONS[question.name].removesuffix(".")
        yield SystemCommand(
            question.name.capitalize(), about, partial(open_question, app, question)
        )
    for view in app.plugin_views:
        yield SystemCommand(view.title, "Of a plugin", partial(open_plugin, app, view))
    if app.view is not None:
        yield from app.view.commands()
    yield from common[len(NAMES) :]


def open_plugin(app: GpuTop, view: PluginView) -> None:
    """Show the screen of a plugin; it is made when it is opened first."""

    def made() -> Screen[Any]:
        kind = type(app)
        return view.kind(view.name, app).data_bind(kind.report, kind.probe)

    if view.name not in app._modes:
        app.add_mode(view.name, made)
    app.action_screen(view.name)


def open_named(app: GpuTop, name: str) -> None:
    """Show the screen of the question of that name."""
    for question in questions():
        if question.name == name:
            open_question(app, question)


def choose_other(app: GpuTop) -> None:
    """Choose what the node is compared with: a file of this folder, a demo, or what is typed."""

    def take(name: str | None) -> None:
        if name is not None:
            compare(app, name)

    offers = partial(others, _files(Path.cwd()))
    hint = "a file, a folder, FILE@TIME of a recording, or a demo"
    app.push_screen(TypedChoicePanel("Compare with, as what was before", offers, hint), take)


def others(files: Sequence[str], typed: str) -> list[tuple[str, str]]:
    """What the node may be compared with that goes with what is typed."""
    wanted = typed.strip()
    found = {wanted: "as typed"} if wanted and os.path.exists(wanted) else {}
    found |= {name: "a file of this folder" for name in files if wanted in name}
    found |= {name: demo.title(name) for name in demo.names() if wanted in name}
    if wanted:
        found.setdefault(wanted, "as typed")
    return [(name, f"{name}: {what}") for name, what in list(found.items())[:MOST_OFFERED]]


def _files(folder: Path) -> list[str]:
    """The files of a folder that may hold a node, the newest first."""
    try:
        entries = [one for one in islice(os.scandir(folder), MOST_FILES) if one.is_file()]
        dated = [(one.stat().st_mtime, one.name) for one in entries]
    except OSError:
        return []
    return [name for _, name in sorted(dated, reverse=True) if name.endswith(NODE_FILES)]


def compare(app: GpuTop, name: str) -> None:
    """Show the node beside another; the screen is made when it is opened first."""

    def made() -> Screen[Any]:
        kind = type(app)
        return DiffScreen(app).data_bind(kind.report, kind.probe)

    app.compared = (name, b"")
    if NAME not in app._modes:
        app.add_mode(NAME, made)
    if app.view is not None and app.view.name == NAME:
        app.view.on_screen_resume()
    else:
        app.action_screen(NAME)


def open_question(app: GpuTop, question: AnyQuestion) -> None:
    """Show the screen of a question; it is made when it is opened first."""

    def made() -> Screen[Any]:
        kind = type(app)
        return QuestionScreen(question, app).data_bind(kind.report, kind.probe)

    if question.name not in app._modes:
        app.add_mode(question.name, made)
    app.action_screen(question.name)


def choose_demo(app: GpuTop) -> None:
    """Choose a demo node and show it."""

    def look(name: str | None) -> None:
        if name is not None:
            app.follow(DemoFeed(name, interval=app.interval))

    # First the one with faults, which shows most; each on a line of its own.
    names = sorted(demo.names(), key=lambda name: name != FIRST_DEMO)
    wide = max(map(len, names)) + 2
    room = min(app.size.width * 9 // 10, 90) - wide - 7
    options = [(name, left(name, wide) + left(demo.title(name), room).rstrip()) for name in names]
    app.push_screen(ChoicePanel("Demo nodes: invented figures", options), look)


def show_why(app: GpuTop) -> None:
    """Explain the selected thing."""
    why = app.guarded(app.view.why) if app.view is not None else None
    if why is None:
        app.say(app.trouble or "nothing to explain is selected", severity="warning")
    else:
        app.push_screen(WhyPanel(why, app))


def show_help(app: GpuTop) -> None:
    """Show the keys of the screen."""
    if app.view is not None:
        everywhere = (*COMMON, *REPLAY) if app.sessions.replay is not None else COMMON
        own, common = (
            [(app.words.fill(key), app.words.fill(what)) for key, what in rows]
            for rows in (help_rows(app.view.KEYS), help_rows(everywhere, app.view.KEYS))
        )
        words = partial(glossary, app.words)
        app.push_screen(HelpPanel(app.view.TITLE, own, common, app, words))


def copy_text(app: BaseApp[Any], text: str, note: str) -> None:
    """Put a text on the clipboard of the terminal, and say so; `note` goes after it."""
    if not text.strip():
        app.say("nothing is selected", severity="warning")
        return
    app.copy_to_clipboard(clean_block(text))
    app.say(f"copied: {clean(text.strip().splitlines()[0], 60)}{note}")


_LINE = 300
"""Cells of the line about a node in a ticket."""


def ticket_of(snapshot: NodeSnapshot, verdict: Verdict, findings: Sequence[Finding]) -> str:
    """A ticket on these findings of a node."""
    node = " ".join(text_of(line).strip() for line in identity_lines(snapshot, _LINE, 1))
    return ticket(node, verdict, findings, invented=snapshot.is_demo)


def export_screen(app: BaseApp[Any], snapshot: NodeSnapshot | None, screen: str) -> None:
    """Write the picture of the screen and a snapshot to the current folder, and say so."""
    try:
        paths = export(app.export_screenshot(), snapshot, screen, Path.cwd())
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        app.say(f"cannot export: {why}", severity="error")
        return
    app.say(f"written to {paths[0].parent}: {' and '.join(path.name for path in paths)}")


FIRST_DEMO = "sick-h100-8"
USUAL = (
    ("NCCL_P2P_DISABLE", "1", "no P2P at all"),
    ("NCCL_P2P_LEVEL", "SYS", "P2P between all GPUs, even through the CPUs"),
    ("NCCL_SHM_DISABLE", "1", "no shared memory: pairs without P2P use the network"),
    ("NCCL_NVLS_ENABLE", "0", "no NVLink SHARP"),
    ("NCCL_ALGO", "Ring", "only rings"),
    ("NCCL_PROTO", "Simple", "only the protocol Simple"),
    ("NCCL_IB_DISABLE", "1", "no InfiniBand and no RoCE"),
    ("NCCL_NET_GDR_LEVEL", "LOC", "no GPUDirect RDMA"),
)
"""Changes that people try: variable, value, what it does."""
MOST_OFFERED, MOST_FILES = 40, 2000
NODE_FILES = (".json", ".json.gz", ".gtrec", ".txt", ".log", ".xml", ".tar", ".tar.gz", ".tgz")
"""How files end that may hold a node."""


def choose_what_if(app: GpuTop) -> None:
    """Choose among the changes that people try, or type any variable or version."""

    def take(choice: str | None) -> None:
        if choice is not None:
            name, _, value = choice.partition("=")
            app.what_if.change(name, value)

    offers = partial(offered, app)
    hint = "NAME=VALUE, a part of a name, or a version: 2.30"
    app.push_screen(TypedChoicePanel("What if", offers, hint), take)


def offered(app: GpuTop, typed: str) -> list[tuple[str, str]]:
    """The changes that go with what is typed, each with what it does."""
    found, study = dict[str, str](), app.what_if.study()
    if study is not None:
        here = study.whose()
        for number in versions_named(here, typed):
            found[f"{here.name.upper()}={number}"] = f"this version instead of {here.version}"
    if typed.partition("=")[0].strip().upper() not in LIBRARIES or "=" not in typed:
        found |= _variables(app, typed)
    labels = {one: f"{one}…" if one.endswith("=") else one for one in found}
    return [(one, f"{labels[one]}: {what}") for one, what in list(found.items())[:MOST_OFFERED]]


def _variables(app: GpuTop, typed: str) -> dict[str, str]:
    name, equals, value = (part.strip() for part in typed.strip().partition("="))
    wanted, known = name.upper(), catalogue()
    found = {
        f"{usual}={tried}": what
        for usual, tried, what in USUAL
        if wanted in usual and tried.startswith(value)
    }
    for flag in sorted(known.flags, key=lambda flag: len(flag.name)) if wanted else ():
        if wanted in flag.name:
            what = app.words.fill(flag.short or flag.changes)
            values = (value,) if value else flag.tries
            found |= {f"{flag.name}={one}": what for one in values}
            if not equals:
                found.setdefault(f"{flag.name}=", what)
    if value and not found and re.fullmatch(r"\w+", name):
        found[f"{wanted}={value}"] = "not in the catalogue"
    return found


def export(
    picture: str, snapshot: NodeSnapshot | None, screen: str, folder: Path
) -> tuple[Path, ...]:
    """Write a picture (SVG) and the snapshot (JSON) side by side; existing files stay as they are.

    Raises OSError, and ValueError for a snapshot that JSON cannot hold.
    """
    host = snapshot.machine.host if snapshot is not None else None
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", (host.hostname or "" if host else ""))[:40].strip("-.")
    stem = "-".join(
        part for part in ("gputop", name, screen, time.strftime("%Y%m%d-%H%M%S")) if part
    )
    contents = {".svg": picture}
    if snapshot is not None:
        contents[".json"] = json_text(snapshot)
    written: list[Path] = []
    try:
        for suffix, text in contents.items():
            path = folder / f"{stem}{suffix}"
            write_whole(path, text, fresh=True)
            written.append(path)
    except (OSError, ValueError):
        # A picture without its snapshot is half an export.
        for path in written:
            path.unlink(missing_ok=True)
        raise
    return tuple(written)
