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
from gputop.screens import NAMES
from gputop.screens.log.screen import LogScreen
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.node import Node
from gputop.topology.report import Report
from gputop.widgets.bars import Bar
from gputop.widgets.board import Board
from gputop.widgets.spans import text_of
from tests.support.app import demo_report, give, press, rounds, text
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
JOB_COMMANDS = {"jobs": ("jobs",), "jobs --json": ("jobs", "--json")}
LOG_COMMANDS = {"log": ("log",), "log --json": ("log", "--json")}


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
            found[name] = Door(done.stdout, json.loads(done.stdout) if done.stdout else None)
        else:
            found[name] = Door(done.stdout)
        found[f"{words[0]} exit"] = Door(str(done.returncode))
    return found


def of_node(snapshot: NodeSnapshot, folder: Path) -> Doors:
    """What every command says of a node."""
    path = folder / "node.json"
    path.write_bytes(msgspec.json.encode(snapshot))
    return commands(COMMANDS, ("--from", str(path)))


def shown(pilot: Pilot[Any]) -> Door:
    """Every line of the screen, whether it is scrolled into view or not."""
    screen = pilot.app.screen
    bars = (text_of(bar.line) for bar in screen.query(Bar))
    return Door("\n".join((*bars, *(board.text() for board in screen.query(Board)))))


async def screens(snapshot: NodeSnapshot) -> Doors:
    """What the app's screens show of a node, the page of each GPU and a what-if included."""
    node = Node(snapshot).decide()
    found: Doors = {}
    async with GpuTop().run_test(size=(300, 80)) as pilot:
        await give(pilot, Report(node, diagnose(Case(node))))
        for number, name in enumerate(NAMES, start=1):
            await press(pilot, str(number))
            found[f"{name} screen"] = shown(pilot)
        pages = []
        await press(pilot, "1")
        for gpu in range(len(snapshot.machine.gpus)):
            await press(pilot, "w")
            pages.append(f"GPU{gpu}\n{shown(pilot).text}")
            await press(pilot, "escape", "down")
        found["why screen"] = Door("\n".join(pages))
        await press(pilot, "3", "w")
        found["why pair screen"] = shown(pilot)
        await press(pilot, "escape", "5", "&")
        pilot.app.screen.query_one(Input).value = FLAG
        await press(pilot, "enter")
        if "no prediction" in text(pilot, "#setting"):
            return found
        await _until(pilot, lambda: "pairs with P2P" in text(pilot, "#details"))
        found["flags screen"] = shown(pilot)
        await press(pilot, "v")
        await _until(pilot, lambda: "P2P for" in text(pilot, "#what-if"))
        await press(pilot, "3")
        found["pairs what-if screen"] = shown(pilot)
    return found


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
