"""Installed plugins in the commands and the app: the example, hostile ones, ten at the start."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from gputop.answers.plugins import line, plugins
from gputop.app import GpuTop
from gputop.topology import plugins as registry
from gputop.topology.plugins import PLUGINS
from gputop.topology.recorded.feeds import DemoFeed
from tests.support.command import gputop, gputop_here
from tests.support.plugins_made import distribution, example, rule_plugin, use

HOSTILE = (
    'return RULES.finding(NOTICE, "\\x1b[2Jtitle", evidence=[("a", "\\x1b[31m", "c")], impact="i")'
)
QUESTION = """
from gputop.answers.question import Answer, Question, Request
from gputop.topology.model.page import Page, Text
class Asked(Request, frozen=True, kw_only=True):
    \"\"\"Say hello.\"\"\"
class Said(Answer, frozen=True, kw_only=True, tag="example.hello/1"):
    word: str = "hello"
Q = Question(name="hello", request=Asked, answer=lambda asked: Said(source=()),
             page=lambda said: Page(title="hello", blocks=(Text(said.word),)))
"""
SCREEN = """
from gputop.screens.view import View
from gputop.widgets.board import Board
class Clock(View):
    TITLE = "Clock"
    def body(self):
        yield Board(id="clock")
    def draw(self, report):
        self.query_one("#clock", Board).show(((("of a plugin", ""),),))
class Sick(Clock):
    TITLE = "Sick"
    def body(self):
        raise RuntimeError("no body")
class Leaver(Clock):
    TITLE = "Leaver"
    def draw(self, report):
        raise SystemExit
"""
SOURCE = """
from gputop.topology.model.machine import Gpu
from gputop.topology.model.part import PartialNode
from gputop.topology.model.source import Source
def parse(raw):
    return PartialNode(gpus=(Gpu(address="0000:0a:00.0", vendor="nvidia", index=0, name="Made"),))
S = Source(id="made", interval_seconds=10, deadline_seconds=5, reader=lambda: dict, parse=parse)
"""
PROBE = """
from ..protocol.messages import MeasuredValue
from ..protocol.quantity import Quantity
from ..protocol.spec import ProbeSpec
RATE = Quantity("made_rate", "made rate", unit="kilo/s")
SPEC = ProbeSpec(name="made-up", title="Made up", measures="Nothing.", method="made/1",
    minimum_gpus=1, memory_bytes_per_gpu=0, start_seconds=0.1, seconds_per_gpu=0.1,
    seconds_per_pair=0.0, needs_torch=False, quantities=(RATE,))
def run(request, emit):
    emit(MeasuredValue(RATE.key, "cpu:0", "", SPEC.method, "cpu", "none", "to nobody", value=5.0,
                       unit=RATE.unit))
"""


def test_the_example_shows_in_the_commands(tmp_path: Path) -> None:
    example(tmp_path / "site")
    path = str(tmp_path / "site")
    asked = gputop("rule", "example-power-of-two", PYTHONPATH=path)
    assert "Added by: gputop-example 1.0" in asked.stdout
    assert "How bad: notice" in asked.stdout
    rule_plugin(tmp_path / "site", "silent")
    listed = gputop("rules", PYTHONPATH=path).stdout.splitlines()
    (row,) = (line.split() for line in listed if line.startswith("example-power-of-two"))
    assert row[1] == "notice"
    (row,) = (line.split() for line in listed if line.startswith("rule-of-silent"))
    assert row[1:3] == ["not", "said"]
    checked = gputop("check", "--quick", "--demo", "hgx-h100-8", "--gpus", "0-2", PYTHONPATH=path)
    assert "[example-power-of-two]" in checked.stdout
    assert checked.returncode == 0
    assert checked.stderr == ""


def test_doctor_names_distribution_version_and_what_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    example(tmp_path / "site")
    rule_plugin(tmp_path / "site", "ours", rule="gpu-lost")
    distribution(tmp_path / "site", "bad\x1b[2J", {"themes": {"t\x07": "made_none:T"}})
    use(monkeypatch, tmp_path / "site")
    found = plugins()
    told = line(found)
    assert "gputop-example 1.0: " in told
    for what in ("rules power-of-two", "formats lsgpu", "themes midnight", "figures example"):
        assert what in told
    assert "not used: rules ours: there is a rule gpu-lost already" in told
    assert "not used: themes t: ModuleNotFoundError" in told
    assert told.isprintable()
    document = json.loads(gputop_here("doctor", "--json").stdout)
    assert document["answers"]["plugins"] == told
    assert len(document["plugins"]) == 6


def test_a_hostile_finding_is_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rule_plugin(tmp_path / "site", "hostile", HOSTILE)
    use(monkeypatch, tmp_path / "site")
    done = gputop_here("check", "--quick", "--demo", "hgx-h100-8", "--verbose")
    assert "[rule-of-hostile]" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


def test_a_question_is_a_command_and_a_broken_one_is_a_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = {"hello": "made_hello:Q", "check": "made_hello:Q", "none": "made_nothing:Q"}
    distribution(tmp_path / "site", "hello", {"answers": made}, {"made_hello": QUESTION})
    use(monkeypatch, tmp_path / "site")
    done = gputop_here("hello")
    assert done.stdout == "hello\n"
    assert "answers plugin none of hello 1.0: ModuleNotFoundError" in done.stderr
    assert json.loads(gputop_here("hello", "--json").stdout)["schema"] == "example.hello/1"
    assert "Say hello." in gputop_here("--help").stdout
    assert gputop_here("nothing").returncode == 64


def test_a_probe_of_a_plugin_runs_where_it_is_named(tmp_path: Path) -> None:
    group = {"probes": {"made-up": "made_probe", "p2p": "made_probe"}}
    distribution(tmp_path / "site", "probes", group, {"made_probe": PROBE})
    path = str(tmp_path / "site")
    done = gputop("probe", "made-up", "--selftest", PYTHONPATH=path)
    assert "5" in done.stdout, done.stderr
    assert "there is a probe p2p already" in done.stderr


def test_a_source_of_a_plugin_is_asked(tmp_path: Path) -> None:
    group = {"sources": {"made": "made_source:S"}}
    distribution(tmp_path / "site", "sources", group, {"made_source": SOURCE})
    done = gputop("snapshot", PYTHONPATH=str(tmp_path / "site"))
    (gpu,) = json.loads(done.stdout)["machine"]["gpus"]
    assert gpu["name"] == "Made"


@pytest.mark.parametrize(
    ("reader", "parse"),
    [
        ("lambda: os._exit(0)", "PartialNode()"),
        ("lambda: lambda: os._exit(0)", "PartialNode()"),
        ("lambda: dict", "os._exit(0)"),
        ("lambda: lambda: sys.exit(0)", "PartialNode()"),
        ("lambda: dict", "sys.exit(0)"),
    ],
)
def test_a_source_that_would_end_the_process_fails_alone(
    reader: str, parse: str, tmp_path: Path
) -> None:
    text = SOURCE.partition("def parse")[0] + (
        f"import os, sys\nS = Source(id='made', interval_seconds=10, deadline_seconds=5,"
        f" reader={reader}, parse=lambda raw: {parse})\n"
    )
    group = {"sources": {"made": "made_leaver:S"}}
    distribution(tmp_path / "site", "leaver", group, {"made_leaver": text})
    done = gputop("snapshot", PYTHONPATH=str(tmp_path / "site"))
    assert done.returncode == 0
    assert json.loads(done.stdout)["machine"]["host"]
    why = "SystemExit" if "sys." in reader + parse else "it called os._exit, which would have ended"
    assert f"made: {why}" in done.stderr


async def looked_up(pilot: Pilot[Any]) -> None:
    """Wait until the plugins were looked up and joined."""
    for _ in range(200):
        await pilot.pause(0.02)
        if not PLUGINS.held and PLUGINS._hears is not None:
            break
    await pilot.pause(0.05)


async def test_the_app_wears_a_theme_and_opens_a_screen_of_a_plugin(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    example(tmp_path / "site")
    group = {"screens": {f"{name}": "made_clock:Clock" for name in ("clock", "node")}}
    group["screens"] |= {"sick": "made_clock:Sick", "leaver": "made_clock:Leaver"}
    distribution(tmp_path / "site", "clock", group, {"made_clock": SCREEN})
    use(monkeypatch, tmp_path / "site")
    PLUGINS.hold()
    app = GpuTop(DemoFeed("hgx-h100-8"))
    async with app.run_test(size=(80, 24)) as pilot:
        await looked_up(pilot)
        assert "example-midnight" in app.available_themes
        app.theme = "example-midnight"
        await pilot.pause(0.2)
        assert app.current_theme.name == "example-midnight"
        assert app.is_running
        assert [view.name for view in app.plugin_views] == ["clock", "sick", "leaver"]
        commands = {each.title: each for each in app.get_system_commands(app.screen)}
        commands["Clock"].callback()
        await pilot.pause(0.2)
        assert app.view is not None
        assert app.view.name == "clock"
        commands["Leaver"].callback()
        await pilot.pause(0.2)
        assert app.view.name == "leaver"
        assert app.is_running
        commands["Sick"].callback()
        await pilot.pause(0.2)
        assert app.view.name == "sick"
        assert app.is_running
        told = [notice.message for notice in app._notifications]
    assert any("RuntimeError: no body" in text for text in told)
    assert any("there is a screen node already" in why for _, why in PLUGINS.listed())


async def test_ten_plugins_are_looked_up_behind_the_first_row_and_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for number in range(10):
        rule_plugin(tmp_path / "site", f"p{number}")
    use(monkeypatch, tmp_path / "site")
    seen: list[str] = []
    settle, entries = GpuTop._settle, registry._entries_in

    def settled(app: GpuTop) -> None:
        seen.append(f"settled, {sum(name.startswith('made_p') for name in sys.modules)} imported")
        settle(app)

    def looked(folders: Any) -> Any:
        seen.append(threading.current_thread().name)
        return entries(folders)

    monkeypatch.setattr(GpuTop, "_settle", settled)
    monkeypatch.setattr(registry, "_entries_in", looked)
    PLUGINS.hold()
    async with GpuTop(DemoFeed("hgx-h100-8")).run_test(size=(80, 24)) as pilot:
        await looked_up(pilot)
    assert seen == ["settled, 0 imported", "plugins"]
    assert sum(name.startswith("made_p") for name in sys.modules) == 10
