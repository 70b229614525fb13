"""Whether the terminal shows after each key what it shows after all is drawn again.

`python -m tests.harness.redraw` presses every key of every screen at three sizes on all demos, two
recordings, a pasted text and a fleet, and Ctrl+L behind each; `--share` takes as much of the keys.
A cell that Ctrl+L changes was stale: what had changed there was not drawn.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from gputop.screens import NAMES
from gputop.screens.fleet.keys import COMMON_FLEET, FLEET_KEYS, TABS
from gputop.screens.key_line import COMMON
from gputop.topology.recorded.demos import demo
from gputop.widgets.key import Key
from tests.support.fleet_made import write
from tests.support.painting.line import Line
from tests.support.places import RECORDINGS

SIZES = ((80, 24), (120, 40), (160, 50))
FILES = (
    RECORDINGS / "hgx-h200-4gpu-live" / "snapshot.json",
    RECORDINGS / "mi300x-amdsmi-7",
    RECORDINGS / "hgx-h200-4gpu-vm" / "nvidia-smi-topo-m.txt",
)
SENT = {
    "up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D", "home": "\x1b[H",
    "end": "\x1b[F", "pageup": "\x1b[5~", "pagedown": "\x1b[6~", "delete": "\x1b[3~", "tab": "\t",
    "shift+tab": "\x1b[Z", "enter": "\r", "escape": "\x1b", "space": " ", "backspace": "\x7f",
    "ampersand": "&", "slash": "/", "question_mark": "?", "ctrl+p": "\x10",
}  # fmt: skip
"""Textual's name of a key -> what a terminal sends."""
MOVES = {"up", "down", "left", "right", "home", "end", "pageup", "pagedown", "tab"}
ENDS = {"q", "ctrl+z"}
DOWN, ESCAPE, BACKSPACE, AGAIN = SENT["down"], SENT["escape"], SENT["backspace"], "\x0c"
TYPED = {"slash": "g", "ctrl+p": "g", "ampersand": "1", "f": "p"}
"""What is typed into a line that the key opens."""
QUIET_SECONDS, SURE_SECONDS, FIRST_SECONDS, LONGEST_SECONDS = 0.15, 0.5, 60.0, 20.0
_SETUP = """
import sys
from gputop.screens import notice
notice.Notice.__init__.__defaults__ = tuple(
    0.1 if one == 6 else one for one in notice.Notice.__init__.__defaults__
)
from textual.widgets import Input
Input._toggle_cursor = lambda self: None
from gputop.__main__ import main
sys.exit(main())
"""
"""What the app says goes at once, not between two looks, and no cursor blinks."""


Screens = dict[str, dict[str, str]]
"""The key of a screen -> Textual's name of each of its keys, with its action."""


class Source(NamedTuple):
    """What is opened, and the screens and keys of its app."""

    name: str
    arguments: tuple[str, ...]
    screens: Screens


def actions_of(keys: Iterable[Key]) -> dict[str, str]:
    """Textual's name of each of these keys -> what it does, but for those that end the app."""
    found: dict[str, str] = {}
    for key in keys:
        for name in key.key.split(","):
            found.setdefault(name, key.action)
    return {name: action for name, action in found.items() if name and name not in ENDS}


def node_screens() -> Screens:
    """The screens of a node with their keys."""
    found = {}
    for place, name in enumerate(NAMES, start=1):
        own = import_module(f"gputop.screens.{name}.screen").SCREEN.KEYS
        found[str(place)] = actions_of((*own, *COMMON))
    return found


def sources(folder: Path) -> tuple[Source, ...]:
    """All that is looked at; the fleet is written to the folder."""
    node = node_screens()
    write(folder, 40)
    # An hour between two readings: what moves would be drawn by itself.
    demos = [Source(name, ("--demo", name, "--interval", "3600"), node) for name in demo.names()]
    files = [Source(path.name, ("--from", str(path)), node) for path in FILES]
    keys = actions_of((*FLEET_KEYS, *COMMON_FLEET))
    tabs = {str(place): keys for place in range(1, len(TABS) + 1)}
    return (*demos, *files, Source("fleet", ("fleet", str(folder)), tabs))


class Trial(NamedTuple):
    """One app at one size."""

    source: Source
    size: tuple[int, int]
    folder: str
    """Where it runs: `x` writes files there."""

    def stale(self, share: float, made: random.Random) -> list[str]:
        """Press a share of the keys; tells of cells that were stale, and are again in peace."""
        chosen = {
            screen: {key: keys[key] for key in keys if made.random() < share}
            for screen, keys in self.source.screens.items()
        }
        found = {screen for screen, _ in self.pressed(chosen, QUIET_SECONDS)}
        again = {screen: chosen[screen] for screen in found}
        return [told for _, told in self.pressed(again, SURE_SECONDS)] if again else []

    def pressed(self, screens: Screens, quiet: float) -> list[tuple[str, str]]:
        """Press these keys; screen and what was stale there. Ends where the program does."""
        found = []
        given = {"XDG_STATE_HOME": self.folder, "XDG_CONFIG_HOME": self.folder}
        with Line(
            self.source.arguments,
            self.size,
            command=[sys.executable, "-c", _SETUP],
            folder=self.folder,
            environment=given,
        ) as line:
            line.watch(FIRST_SECONDS, lambda: "quit" in line.text())
            until_at_rest(line, SURE_SECONDS)
            for screen, key, action in _all(screens):
                self._go(line, screen, quiet)
                for number, step in enumerate(_steps(key, action)):
                    self._press(line, step, quiet)
                    if (code := line.process.poll()) is not None:
                        # The terminal would echo each further key, as if a cell were stale.
                        return [(screen, f"{screen} {key} and {number} more: it ended with {code}")]
                    if told := self._differs(line, quiet):
                        found.append((screen, f"{screen} {key} and {number} more: {told}"))
        return found

    def _go(self, line: Line, screen: str, quiet: float) -> None:
        """Close what is open, cancel what is running, and show the screen."""
        for key in (ESCAPE, ESCAPE, ESCAPE, screen):
            self._press(line, key, quiet)

    @staticmethod
    def _press(line: Line, key: str, quiet: float) -> None:
        line.press(key)
        until_at_rest(line, quiet)

    @staticmethod
    def _differs(line: Line, quiet: float) -> str:
        before, count = line.shown.cells(), line.count
        line.press(AGAIN)
        line.watch(FIRST_SECONDS, lambda: line.count > count)
        until_at_rest(line, quiet)
        after = line.shown.cells()
        cells = [
            (y, x)
            for y, row in enumerate(before)
            for x, cell in enumerate(row)
            if cell != after[y][x]
        ]
        if not cells:
            return ""
        y, x = cells[0]
        return (
            f"{len(cells)} cells, the first at row {y}, column {x}: {before[y][x]} is {after[y][x]}"
        )


def _all(screens: Screens) -> Iterator[tuple[str, str, str]]:
    for screen, keys in screens.items():
        for key, action in keys.items():
            yield screen, key, action


def _steps(key: str, action: str) -> tuple[str, ...]:
    """What is pressed between two looks: the key, and what goes on from there."""
    sent = SENT.get(key, key)
    if action.removeprefix("app.").startswith(("probe", "run")):
        return (sent + ESCAPE + ESCAPE, DOWN)  # what runs shows another figure at each look
    if key in MOVES:
        return (sent,)
    return (sent, TYPED[key], BACKSPACE) if key in TYPED else (sent, DOWN, DOWN)


def until_at_rest(line: Line, seconds: float) -> None:
    """Wait until for so long nothing came and no thread of the program had anything to do.

    However busy the machine is, a thread that still has to draw can be told from one that waits.
    """
    last = began = time.monotonic()
    while (now := time.monotonic()) - last < seconds and now - began < LONGEST_SECONDS:
        if line.take() > 0 or any(state == "R" for state in _states(line.process.pid)):
            last = time.monotonic()


def _states(process: int) -> Iterator[str]:
    """What each thread does, as the kernel names it."""
    for task in Path(f"/proc/{process}/task").glob("*/stat"):
        with suppress(OSError):  # it has ended
            yield task.read_text().rpartition(")")[2].split()[0]


def trials(folder: Path, only: str = "") -> list[Trial]:
    """All of them, those whose source has this in its name."""
    checks = folder / "checks"
    return [
        Trial(source, size, str(folder))
        for source in sources(checks)
        for size in SIZES
        if only in source.name
    ]


def main() -> int:
    """Press the keys; 1 where a cell was stale."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.redraw")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only sources whose name holds this")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(given.processes) as pool:
        todo = trials(Path(folder), given.only)
        made = [random.Random(f"{given.seed} {place}") for place in range(len(todo))]
        count = 0
        run = partial(_listed, given.share)
        for trial, found in zip(todo, pool.map(run, todo, made), strict=True):
            count += len(found)
            print(
                f"{trial.source.name} {trial.size}: {len(found)} stale",
                *found,
                sep="\n  ",
                flush=True,
            )
    print(f"{count} stale, seed {given.seed}, share {given.share}")
    return 1 if count else 0


def _listed(share: float, trial: Trial, made: random.Random) -> list[str]:
    return trial.stale(share, made)


if __name__ == "__main__":
    raise SystemExit(main())
