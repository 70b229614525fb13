"""What travels to the terminal: bytes of each step, and how long keys take on a slow line.

`python -m tests.harness.bench.wire` prints both for Textual's own driver and for ours; `--slow` the
second alone. The program runs in a terminal of 120x40, on a demo whose figures move every second.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from pyte.screens import Char

from tests.support.painting.line import Line

DEMO = "hgx-h100-8"
DOWN, RIGHT = "\x1b[B", "\x1b[C"
NAMED = {DOWN: "down", RIGHT: "right"}
BACK = {DOWN: "\x1b[A", RIGHT: "\x1b[D"}
MARK = "›"
IDLE_SECONDS = 10
LONGEST_SECONDS = 30
QUIET_SECONDS = 0.5
"""Without a byte: what a key changed is drawn. Figures of the demo move every second."""
SLOW_BYTES_PER_SECOND = 1000
ROOM = 0.8
"""Of the budget may be used."""


class Step(NamedTuple):
    """One row of the table: keys that lead there, the key that is measured, the most bytes."""

    name: str
    before: str
    key: str
    budget: int


STEPS = (
    Step("arrow key on Node", "1", DOWN, 5_000),
    Step("arrow key on Pairs", "3", RIGHT, 1_200),
    Step("Node to Map", "1", "2", 25_000),
    Step("Map to Pairs", "2", "3", 25_000),
    Step("Pairs to Probes", "3", "4", 25_000),
    Step("Probes to Flags", "4", "5", 25_000),
    Step("Flags to Findings", "5", "6", 25_000),
    Step("Findings to Jobs", "6", "7", 25_000),
    Step("Jobs to Node", "7", "1", 25_000),
)
START_BUDGET, IDLE_BUDGET = 30_000, 700


def measured(painted: bool) -> dict[str, int]:
    """Bytes of each step."""
    found = {}
    with Line(["--demo", DEMO], painted=painted) as line:
        line.watch(60, lambda: "checks done" in line.text())
        line.until_quiet(QUIET_SECONDS)
        found["start"] = line.count
        line.watch(2)
        before = line.count
        line.watch(IDLE_SECONDS)
        found["Node idle, a second"] = (line.count - before) // IDLE_SECONDS
        for step in STEPS:
            line.press(step.before)
            line.watch(2.5)
            line.until_quiet(QUIET_SECONDS)
            before = line.count
            line.press(step.key)
            line.watch(LONGEST_SECONDS, lambda before=before: line.count > before)  # type: ignore[misc]
            line.until_quiet(QUIET_SECONDS)
            # The figures that move meanwhile are counted too.
            found[step.name] = line.count - before
        line.press("q")
        line.watch(5, lambda: line.process.poll() is not None)
    return found


def table() -> bool:
    """Print the table; whether the budget is held with room to spare."""
    budgets = {"start": START_BUDGET, "Node idle, a second": IDLE_BUDGET}
    budgets |= {step.name: step.budget for step in STEPS}
    theirs, ours = measured(painted=False), measured(painted=True)
    print(f"{f'120x40, {DEMO}, bytes':30}{'Textual':>10}{'painted':>10}{'budget':>10}")
    for name, budget in budgets.items():
        over = " over" * (ours[name] > ROOM * budget)
        print(f"{name:30}{theirs[name]:10,}{ours[name]:10,}{budget:10,}{over}")
    return all(ours[name] <= ROOM * budget for name, budget in budgets.items())


Cells = dict[tuple[int, int], Char]


def selected_where(screen: str, key: str) -> Cells:
    """What the key selects, as a line that costs no time shows it: the same each time.

    That is where a mark appears, or else which cells get another ground below the same text.
    """
    with Line(["--demo", DEMO]) as line:
        line.watch(60, lambda: "H100" in line.text())
        line.press(screen)
        line.watch(2)
        views = [line.shown.cells()]
        for pressed in (key, BACK[key], key):
            line.press(pressed)
            line.watch(2)
            views.append(line.shown.cells())
    changed = {
        (y, x): cell
        for y, row in enumerate(views[1])
        for x, cell in enumerate(row)
        if _look(cell) == _look(views[3][y][x]) != _look(views[0][y][x]) == _look(views[2][y][x])
    }
    marks = {place: cell for place, cell in changed.items() if cell.data == MARK}
    grounds = {
        place: cell for place, cell in changed.items() if cell.bg != views[0][place[0]][place[1]].bg
    }
    return marks or grounds


def _look(cell: Char) -> tuple[str, str]:
    return cell.data, cell.bg


def slow(painted: bool, answers: bool, screen: str, key: str, times: int) -> list[float]:
    """Seconds from a key until all cells that it selects are drawn, on a slow line."""
    seconds = []
    wanted = selected_where(screen, key)
    assert wanted
    with Line(["--demo", DEMO], painted=painted, answers=answers) as line:
        line.watch(60, lambda: "H100" in line.text())
        line.press(screen)
        line.watch(3)
        line.speed = SLOW_BYTES_PER_SECOND
        line.watch(20)

        def drawn() -> bool:
            buffer = line.shown.buffer
            return all(_look(buffer[y][x]) == _look(cell) for (y, x), cell in wanted.items())

        for _ in range(times):
            line.press(key)
            seconds.append(line.watch(LONGEST_SECONDS, drawn))
            line.watch(12)
            line.press(BACK[key])
            line.watch(12)
    return seconds


def slow_table(times: int) -> None:
    """Print how long keys take on a slow line."""
    kinds: tuple[tuple[str, bool, bool], ...] = (
        ("painted", True, True),
        ("painted, no answers", True, False),
        ("Textual", False, True),
    )
    print(f"{SLOW_BYTES_PER_SECOND:,} bytes a second: seconds from a key to the new selection")
    for name, painted, answers in kinds:
        for screen, key, title in (("1", DOWN, "Node"), ("3", RIGHT, "Pairs")):
            found = slow(painted, answers, screen, key, times)
            print(f"{name:22}{title:8}" + " ".join(f"{one:6.2f}" for one in found), flush=True)


def main() -> int:
    """Measure; 1 where the budget is not held."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.bench.wire")
    parser.add_argument("--slow", action="store_true", help="only the slow line")
    parser.add_argument("--times", type=int, default=3, help="key presses on the slow line")
    given = parser.parse_args()
    held = given.slow or table()
    began: Callable[[], float] = time.monotonic
    start = began()
    slow_table(given.times)
    print(f"the slow line took {began() - start:.0f} s")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
