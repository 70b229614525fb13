"""Whether a terminal shows the same with Textual's own driver and with ours, cell by cell.

`python -m tests.pictures.equal` compares with pyte, in some ten minutes:

- each screen of the demos of docs/pictures, and each tab of Fleet, at four sizes in each theme,
  with help, palette and the why of the selection;
- each snapshot that a test takes, in each theme, and whatever else a test of the app draws;
- the whole program in a terminal of its own for each way of drawing: 24-bit colours, 256, sixteen
  and none, four sizes, and a change of size.

With arguments, pytest takes those instead. Each comparison is a test.
"""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from itertools import chain
from pathlib import Path

import pytest

from gputop.screens import NAMES
from tests.pictures.fleet import each_tab
from tests.pictures.scenes import DEMOS, SIZES, each_screen
from tests.support.app import press
from tests.support.painting.judge import Watched
from tests.support.painting.judging import differences_in_all_themes
from tests.support.painting.line import Line
from tests.support.places import ROOT

SMALL = (60, 14)
"""The least room that the screens are made for."""
ALL_SIZES = (SMALL, *SIZES)
PANELS = ("question_mark", "ctrl+p", "w")
COLOURS: dict[str, dict[str, str]] = {
    "24 bits": {},
    "256": {"COLORTERM": ""},
    "sixteen": {"TERM": "xterm", "COLORTERM": ""},
    "none": {"NO_COLOR": "1"},
}
SCREENS = "".join(map(str, range(2, len(NAMES) + 1))) + "1"
"""Keys of all screens; the first one is open at the start."""
NARROWER = (100, 30)
READY = "keys"
"""In the line of keys, which the program draws at last."""
QUIET_SECONDS, LONGEST_SECONDS = 1.0, 60.0


def _named(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"


@pytest.mark.parametrize("size", ALL_SIZES, ids=_named)
@pytest.mark.parametrize("demo", DEMOS)
async def test_screens_of_a_demo(demo: str, size: tuple[int, int], judged: Watched) -> None:
    found: list[str] = []
    async for name, pilot in each_screen(demo, size):
        found += [f"{name} {one}" for one in await differences_in_all_themes(judged, pilot)]
        for panel in PANELS:
            await press(pilot, panel)
            found += [f"{panel} {one}" for one in await differences_in_all_themes(judged, pilot)]
            while len(pilot.app.screen_stack) > 1:
                await press(pilot, "escape")
    assert found == []


@pytest.mark.parametrize("size", ALL_SIZES, ids=_named)
async def test_tabs_of_a_fleet(size: tuple[int, int], tmp_path: Path, judged: Watched) -> None:
    found: list[str] = []
    async for name, pilot in each_tab(tmp_path, size):
        found += [f"{name} {one}" for one in await differences_in_all_themes(judged, pilot)]
    assert found == []


@pytest.mark.parametrize("size", [(40, 10), SMALL, (120, 40)], ids=_named)
@pytest.mark.parametrize("colours", COLOURS)
def test_whole_programs_in_terminals(colours: str, size: tuple[int, int], tmp_path: Path) -> None:
    file = tmp_path / "node.json"
    made = [sys.executable, "-m", "gputop", "snapshot", "--demo", "sick-h100-8", "-o", str(file)]
    subprocess.run(made, cwd=ROOT, check=True, capture_output=True)
    given = {**COLOURS[colours], "XDG_STATE_HOME": str(tmp_path)}
    of_file = ["--from", str(file)]
    with (
        Line(of_file, size, environment=given) as ours,
        Line(of_file, size, painted=False, environment=given) as theirs,
    ):
        for line in (ours, theirs):
            line.watch(LONGEST_SECONDS, partial(_ready, line))
        for key in (*SCREENS, NARROWER):
            for line in (ours, theirs):
                before = line.count
                if isinstance(key, str):
                    line.press(key)
                else:
                    line.resize(*key)
                line.watch(LONGEST_SECONDS, partial(_more, line, before))
            assert _first_difference(ours, theirs) == "", key


def _ready(line: Line) -> bool:
    return READY in line.text()


def _more(line: Line, before: int) -> bool:
    return line.count > before


def _first_difference(ours: Line, theirs: Line) -> str:
    """A cell that differs once both are quiet, and still does after a while; "" for none."""
    found = "not quiet yet"
    end = time.monotonic() + LONGEST_SECONDS
    while found and time.monotonic() < end:
        for line in (ours, theirs):
            line.until_quiet(QUIET_SECONDS)
        drawn, wanted = (chain.from_iterable(line.shown.cells()) for line in (ours, theirs))
        both = zip(drawn, wanted, strict=True)
        found = next((f"{one} is {other}" for one, other in both if one != other), "")
    return found


def main() -> int:
    """Run the comparisons; 1 where something differs."""
    drawn = ROOT / "tests" / "gputop"
    tests = [str(drawn / "screens"), *map(str, sorted(drawn.glob("test_*.py")))]
    # Programs in terminals go first and alone: they wait for the clock.
    runs = [["-n", "2", *sys.argv[1:]]] if sys.argv[1:] else [[__file__], ["-n", "2", *tests]]
    judging = ["-q", "-m", "not terminal", "-p", "no:cacheprovider"]
    judging += ["-p", "tests.support.painting.judging"]
    command = [sys.executable, "-m", "pytest", *judging]
    codes = [subprocess.run([*command, *run], cwd=ROOT, check=False).returncode for run in runs]
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
