"""Nothing simulated is shown without the word: all screens, all commands, a file of it included."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import msgspec
import pytest

from gputop.app import GpuTop
from gputop.screens import NAMES
from gputop.topology.model.snapshot import NodeSnapshot, encode
from gputop.topology.node import Node
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.report import Report
from tests.gputop.simulating.test_simulated_suite import figures, ran
from tests.grid import share
from tests.support.app import app_of, give, picture, press
from tests.support.command import gputop_here

DEMO, WORD = "sick-h100-8", "simulated"
COMMANDS = (
    ("check",),
    ("check", "-v"),
    ("check", "--json"),
    ("explain", "0", "3"),
    ("explain", "0", "3", "--json"),
    ("topo",),
    ("flags", "NCCL_P2P_LEVEL"),
    ("snapshot",),
)


@cache
def bare_and_measured() -> tuple[NodeSnapshot, NodeSnapshot]:
    bare = DemoFeed(DEMO).at(0)
    found = tuple(figures(ran(bare, level="quick")))
    return bare, msgspec.structs.replace(bare, measurements=found)


def test_what_a_command_adds_for_simulated_figures_says_so(tmp_path: Path) -> None:
    files = []
    for number, snapshot in enumerate(bare_and_measured()):
        files.append(tmp_path / f"{number}.json")
        files[-1].write_bytes(encode(snapshot))
    told = 0
    for command in COMMANDS:
        bare, measured = (
            gputop_here(*command, "--from", str(file)).stdout.replace(file.name, "")
            for file in files
        )
        known = set(bare.splitlines())
        new = [line for line in measured.splitlines() if line not in known]
        told += bool(new)
        assert WORD in "\n".join(new).lower() or not new, command
    assert told >= 5


def test_the_probe_command_says_so_in_each_block_and_in_json() -> None:
    text = gputop_here("probe", "--demo", DEMO, "p2p", "host", "collectives", "--quick").stdout
    blocks = [block for block in text.split("\n\n") if "GB/s" in block]
    assert len(blocks) >= 6
    assert [block for block in blocks if WORD not in block] == []
    document = json.loads(gputop_here("probe", "--demo", DEMO, "host", "--json").stdout)
    assert document["simulated"] is True
    assert document["source"] == [f"demo {DEMO}"]
    assert {figure["device_kind"] for figure in document["measurements"]} == {WORD}


@pytest.mark.parametrize("source", share([f"demo {DEMO}", "node.json"], 2))
async def test_every_screen_says_so(source: str) -> None:
    _, measured = bare_and_measured()
    snapshot = msgspec.structs.replace(measured, source=(source,))
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, Report(Node(snapshot).decide()))
        for number, name in enumerate(NAMES, start=1):
            await press(pilot, str(number))
            assert WORD in picture(pilot).splitlines()[0], name
        await press(pilot, str(NAMES.index("probes") + 1), "w")
        assert picture(pilot).count(WORD) > 1
        assert app_of(pilot).trouble == ""
