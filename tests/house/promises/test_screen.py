"""A screen is one folder and one line, a theme is one file: tried in a copy of the checkout."""

from __future__ import annotations

import json

from gputop.screens import NAMES as SCREENS
from gputop.topology.toml import tomllib
from gputop.widgets.status import number_key
from tests.house.promises.worked_examples import example, line
from tests.support.copied_checkout import CopiedCheckout
from tests.support.places import ROOT

SCREEN, NAMES = "gputop/screens/clock/screen.py", "gputop/screens/__init__.py"
THEME = "midnight.toml"
LOOK = """
import asyncio, json, sys
from gputop.app import GpuTop
from gputop.messages import ReportReady
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.node import Node
from gputop.topology.report import Report
from gputop.widgets.bars import Bar
from gputop.widgets.board import Board
from gputop.widgets.spans import text_of

async def look():
    seen = {}
    app = GpuTop()
    async with app.run_test(size=(120, 40)) as pilot:
        async def press(*keys):
            await pilot.press(*keys)
            await pilot.pause(0.1)
        app.post_message(ReportReady(Report(Node(DemoFeed("dgx-1v").at(7)))))
        await press(sys.argv[1])
        seen["tabs"] = text_of(app.screen.query_one("#top", Bar).line)
        seen["line"] = text_of(app.screen.query_one("#keys", Bar).line)
        await press("b")
        seen["body"] = app.screen.query_one("#clock", Board).text()
        commands = {command.title: command for command in app.get_system_commands(app.screen)}
        seen["palette"] = {title: commands[title].help for title in ("Clock", "Add a beat")}
        await commands["Add a beat"].callback()
        await pilot.pause(0.1)
        seen["again"] = app.screen.query_one("#clock", Board).text()
        await press("question_mark")
        seen["help"] = app.screen.query_one(Board).text()
        seen["themes"] = sorted(app.available_themes)
        for theme in ("gputop-made", "midnight"):
            app.theme = theme
            await pilot.pause(0.1)
            seen[theme] = app.get_css_variables()["background"]
    print(json.dumps(seen))

asyncio.run(look())
"""


def test_a_screen_is_a_folder_and_a_line_and_a_theme_is_a_file(checkout: CopiedCheckout) -> None:
    checkout.write("gputop/screens/clock/__init__.py", "")
    checkout.write(SCREEN, example(SCREEN))
    key = number_key(len(SCREENS))
    checkout.add_line(NAMES, f'"{SCREENS[-1]}",', line(NAMES))
    dark = (ROOT / "themes/dark.toml").read_text()
    assert 'name = "gputop-dark"' in dark
    made = dark.replace('name = "gputop-dark"', 'name = "gputop-made"')
    background = next(line for line in made.splitlines() if line.startswith("background ="))
    checkout.write("themes/made.toml", made.replace(background, 'background = "#123456"'))
    checkout.write(f"own/gputop/themes/{THEME}", example(THEME))
    done = checkout.python("-c", LOOK, key, XDG_CONFIG_HOME=str(checkout.root / "own"))
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert f"{key} Clock" in seen["tabs"]
    assert seen["line"].startswith(" b beat ")
    assert "beats: 1" in seen["body"]
    assert seen["palette"] == {
        "Clock": f"Show the screen Clock ({key})",
        "Add a beat": "One more (b)",
    }
    assert "beats: 2" in seen["again"]
    help_lines = [" ".join(line.split()) for line in seen["help"].splitlines()]
    assert "b add a beat" in help_lines
    assert any(line.startswith(f"1 to {key} screens:") and "Clock" in line for line in help_lines)
    assert {"gputop-made", "midnight"} <= set(seen["themes"])
    assert seen["gputop-made"] == "#123456"
    assert seen["midnight"] == tomllib.loads(example(THEME))["colors"]["background"]
