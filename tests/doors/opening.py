"""The doors: what each command prints and each screen shows of one node."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from textual.pilot import Pilot
from textual.widgets import Input

from gputop.app import GpuTop
from gputop.fleet_app import FleetApp
from gputop.live.fleet_watch import FleetWatch
from gputop.screens import NAMES
from gputop.screens.flags.list import FlagList
from gputop.screens.flags.screen import FlagsScreen
from gputop.screens.log.screen import LogScreen
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.node import Node
from gputop.topology.recorded.load import load
from gputop.topology.report import Report
from gputop.widgets.bars import Bar
from gputop.widgets.board import Board
from gputop.widgets.spans import text_of
from tests.support.app import app_of, demo_report, give, press, rounds, settle, text
from tests.support.command import gputop_here

FLAG = "NCCL_P2P_DISABLE"
"""The variable that the what-if sets to 1."""
WIDE = "400"
"""Columns, so that no fact is broken into two lines."""
COMMANDS: dict[str, tuple[str, ...]] = {
    "check": ("check", "--quick"),
    "check -v": ("check", "--quick", "--verbose"),
    "check --json": ("check", "--quick", "--json"),
    "explain": ("explain",),
    "explain --json": ("explain", "--json"),
    "explain what-if --json": ("explain", "--set", f"{FLAG}=1", "--json"),
    "explain what-if": ("explain", "--set", f"{FLAG}=1"),
    "flags": ("flags", FLAG),
    "flags --json": ("flags", FLAG, "--json"),
    "topo": ("topo",),
    "topo --json": ("topo", "--json"),
}
FLEET_COMMANDS = {"fleet": ("fleet",), "fleet --json": ("fleet", "--json")}
JOB_COMMANDS = {"jobs": ("jobs",), "jobs --json": ("jobs", "--json")}
PROBE_COMMANDS = {
    "probe": ("probe", "p2p", "--quick"),
    "probe --json": ("probe", "p2p", "--quick", "--json"),
}
LOG_COMMANDS = {"log": ("log",), "log --json": ("log", "--json")}


NODE = "node.json"
CHECKS = "checks"
"""The folder of the saved check of a node, which a fleet reads."""
PAIRS = 4
"""So many pairs of the row of the selected one are opened."""
FINDINGS = 12
NO_ANSWER = "gputop.no-answer/1"
"""The document of a command that has nothing to say, whose exit code says so too."""


class Door(NamedTuple):
    """What one door said."""

    text: str
    """What is printed or shown."""
    document: Any = None
    """The JSON, of a door that prints one."""


Doors = dict[str, Door]


def commands(asked: dict[str, tuple[str, ...]], options: Sequence[str]) -> Doors:
    """Run each of these commands with the options that name the node or the log."""
    found: Doors = {}
    for name, words in asked.items():
        done = gputop_here(*words, *options, COLUMNS=WIDE)
        if name.endswith("--json"):
            document = json.loads(done.stdout) if done.stdout else {"schema": NO_ANSWER}
            found[name] = Door(done.stdout, None if document["schema"] == NO_ANSWER else document)
        else:
            found[name] = Door(done.stdout)
        found[f"{words[0]} exit"] = Door(str(done.returncode))
    return found


def of_node(snapshot: NodeSnapshot, folder: Path) -> Doors:
    """What every command says of a node, and what a fleet says of its saved check."""
    path = folder / NODE
    path.write_bytes(msgspec.json.encode(snapshot))
    doors = commands(COMMANDS, ("--from", str(path)))
    ranks = {pair["src"] for pair in (doors["explain --json"].document or {}).get("pairs", ())}
    if len(ranks) != len(snapshot.machine.gpus):
        # The numbers of ranks are those of GPUs only where the library takes all of them.
        doors = {name: door for name, door in doors.items() if not name.startswith("explain")}
    if any(variable.name == FLAG for variable in snapshot.environment):
        # Then "not set" is the what-if, and the rest is about the node with the variable.
        doors = {name: door for name, door in doors.items() if not _tries(name)}
    (folder / CHECKS).mkdir()
    (folder / CHECKS / "check.json").write_text(doors["check --json"].text)
    return {**doors, **commands(FLEET_COMMANDS, (str(folder / CHECKS),))}


def _tries(door: str) -> bool:
    return "what-if" in door or door.startswith("flags")


def shown(pilot: Pilot[Any]) -> Door:
    """Every line of the screen, whether it is scrolled into view or not."""
    screen = pilot.app.screen
    bars = (text_of(bar.line) for bar in screen.query(Bar))
    return Door("\n".join((*bars, *(board.text() for board in screen.query(Board)))))


async def screens(folder: Path, demo: NodeSnapshot | None = None) -> Doors:
    """What the app's screens show of the file that the commands read, with a what-if too.

    A demo is shown as one: a file has no job that is simulated.
    """
    snapshot = demo or load([str(folder / NODE)]).snapshot
    node = Node(snapshot).decide()
    found: Doors = {}
    async with GpuTop().run_test(size=(300, 80)) as pilot:
        await give(pilot, Report(node, diagnose(Case(node))))
        for number, name in enumerate(NAMES, start=1):
            await press(pilot, str(number))
            found[f"{name} screen"] = shown(pilot)
        found |= await _panels(pilot, len(snapshot.machine.gpus))
        if not any(variable.name == FLAG for variable in snapshot.environment):
            found |= await _what_if(pilot)
    return {**found, **await _fleet_screen(folder)}


async def _panels(pilot: Pilot[Any], gpus: int) -> Doors:
    """What the screens say of one GPU, pair or finding after the other, under a heading of each."""
    pages: dict[str, list[str]] = {"node": [], "why": [], "map": []}
    pairs: dict[str, list[str]] = {"answer": [], "steps": [], "why": []}
    await press(pilot, "1")
    for _ in range(gpus):
        detail = text(pilot, "#detail")
        heading = f"PAGE {detail.partition(' · ')[0].strip().replace(' ', '')}"
        pages["node"].append(f"{heading}\n{detail}")
        await press(pilot, "w")
        pages["why"].append(f"{heading}\n{shown(pilot).text}")
        await press(pilot, "escape", "down")
    await press(pilot, "2")
    for _ in range(2 * min(gpus, PAIRS)):
        pages["map"].append(text(pilot, "#chosen"))
        await press(pilot, "tab")
    await press(pilot, "3")
    for _ in range(min(gpus, PAIRS)):
        answer = text(pilot, "#answer")
        heading = " ".join(("PAIR", *answer.split()[:3]))
        pairs["answer"].append(f"PAIR{answer}")
        pairs["steps"].append(f"{heading}\n{text(pilot, '#steps')}")
        await press(pilot, "w")
        pairs["why"].append(f"{heading}\n{shown(pilot).text}")
        await press(pilot, "escape", "right")
    await press(pilot, "6")
    findings: dict[str, None] = {}
    while (page := text(pilot, "#finding")) not in findings and len(findings) < FINDINGS:
        findings[page] = None
        await press(pilot, "down")
    return {
        **{f"{name} panel": Door("\n".join(lines)) for name, lines in pages.items()},
        **{f"pair {name}": Door("\n".join(lines)) for name, lines in pairs.items()},
        "finding panel": Door("\n\nFINDING\n".join(("", *findings))),
    }


async def _what_if(pilot: Pilot[Any]) -> Doors:
    """What Flags says of the flag, and Pairs with it set."""
    await press(pilot, "5", "&")
    pilot.app.screen.query_one(Input).value = FLAG
    await press(pilot, "enter")
    flags = pilot.app.screen.query_one(FlagList)
    while flags.selected != FLAG:  # other variables speak of it too
        await press(pilot, "down")
    if "no prediction" in text(pilot, "#setting"):
        return {}
    view = app_of(pilot).view
    assert isinstance(view, FlagsScreen)
    await _until(pilot, lambda: view.flags.answered)
    found = {"flags screen": shown(pilot)}
    await press(pilot, "v")
    app = app_of(pilot)
    await _until(pilot, lambda: bool(app.what_if.summary))
    await press(pilot, "3")
    return {**found, "pairs what-if screen": shown(pilot)}


async def _fleet_screen(folder: Path) -> Doors:
    """What the screen Fleet shows of saved checks."""
    watch = FleetWatch(str(folder / CHECKS))
    watch.look()
    async with FleetApp(watch).run_test(size=(300, 80)) as pilot:
        await settle(pilot)
        return {"fleet screen": shown(pilot)}


async def _until(pilot: Pilot[Any], done: Callable[[], bool]) -> None:
    async for _ in rounds(pilot):
        if done():
            return
    raise AssertionError("what was waited for did not come")


async def log_screen(path: Path) -> Doors:
    """What the screen Log shows of a file."""
    async with GpuTop().run_test(size=(300, 80)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, str(NAMES.index("log") + 1))
        screen = pilot.app.screen
        assert isinstance(screen, LogScreen)
        screen.open_path(str(path))
        await _until(pilot, lambda: screen._reading is None and path.name in shown(pilot).text)
        return {"log screen": shown(pilot)}
