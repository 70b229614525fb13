"""Actions of the app that take more than a line: choose a theme or a demo, export."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gputop.screens import NAMES
from gputop.screens.key_line import COMMON
from gputop.terminal.writing import write_whole
from gputop.topology.model.characters import json_text
from gputop.topology.recorded.demos import demo
from gputop.topology.recorded.feeds import DemoFeed
from gputop.widgets.key import commands
from gputop.widgets.palette import Palette
from gputop.widgets.panels import ChoicePanel, ConfirmPanel

if TYPE_CHECKING:
    from textual.app import App, SystemCommand

    from gputop.app import GpuTop
    from gputop.measuring.announcing import Announcement
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.report import Report
    from gputop.topology.sources.feed import Feed


def choose_theme(app: App[Any]) -> None:
    """Choose a theme; the one under the cursor shows at once."""
    before = app.theme
    names = [name for name in app.available_themes if name.startswith("gputop-")]
    names += [name for name in app.available_themes if name not in names]

    def wear(name: str | None) -> None:
        app.theme = before if name is None else name

    app.push_screen(ChoicePanel("Theme", [(n, n) for n in names], before, preview=wear), wear)


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


def open_palette(app: App[Any]) -> None:
    """Open the palette of commands, unless it is open."""
    if not Palette.is_open(app):
        # Without an id: the palette before it may not have left the list of screens yet.
        app.push_screen(Palette())


def palette_commands(app: GpuTop) -> Iterator[SystemCommand]:
    """Commands of the palette: the screens, what the shown one offers, what all offer."""
    common = [
        command._replace(title=app.words.say(command.title), help=app.words.say(command.help))
        for command in commands(COMMON, app.run_action)
        if offers_demos(app.report) or command.title != "Demo nodes"
    ]
    yield from common[: len(NAMES)]
    if app.view is not None:
        yield from app.view.commands()
    yield from common[len(NAMES) :]


class Follower(Protocol):
    """An app that shows the node of a feed."""

    interval: float

    def follow(self, feed: Feed) -> None:
        """Show another node from here on."""

    def push_screen(self, screen: ChoicePanel, callback: Callable[[str | None], None]) -> object:
        """Show a list to choose from."""


def choose_demo(app: Follower) -> None:
    """Choose a demo node and show it."""

    def look(name: str | None) -> None:
        if name is not None:
            app.follow(DemoFeed(name, interval=app.interval))

    options = [(name, f"{name}: {demo.title(name)}") for name in demo.names()]
    app.push_screen(ChoicePanel("Demo nodes: invented figures", options), look)


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
