"""The made-up cluster of `gputop fleet --demo`: what is planted in it is found, and no more."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gputop.commands.fleet.made_up import (
    HOSTS,
    LATE,
    LINKS_DOWN,
    OLD_DRIVER,
    SLOW_COMPUTE,
    SLOW_RAIL,
    make_fleet,
)
from gputop.topology.fleet.hosts import expand
from tests.support.command import gputop_here
from tests.support.terminal import Terminal


@pytest.fixture(scope="module")
def document() -> Any:
    done = gputop_here("fleet", "--demo", "--json")
    assert done.returncode == 2
    return json.loads(done.stdout)


def test_what_is_planted_is_found_and_no_other_node_is_accused(document: Any) -> None:
    state = {host: found["state"] for host, found in document["hosts"].items()}
    odd = {host: word for host, word in state.items() if word != "healthy"}
    assert odd == {
        LINKS_DOWN: "slow",
        OLD_DRIVER: "odd",
        SLOW_COMPUTE: "odd",
        SLOW_RAIL[0]: "slow",
        LATE: "cannot-tell",
        "g33": "missing",
        "g34": "missing",
    }
    assert len(state) == len(HOSTS) + 2
    assert any("simulated" in text for text in document["assumptions"])
    rail = [finding for finding in document["findings"] if finding["id"] == "net-link"]
    assert [expand(finding["hosts"]) for finding in rail] == [(SLOW_RAIL[0],)]
    assert len(document["figures"]) > 10


def test_text_says_each_cause_once_and_what_an_odd_group_has_that_others_have_not() -> None:
    lines = gputop_here("fleet", "--demo", "--text").stdout.splitlines()
    counts, named = lines[:2]
    groups = dict(group.rsplit(" ", 1) for group in named.strip().split(" · "))
    told = re.findall(r"(\d+) (?:of \d+ nodes )?(missing|slow|odd|cannot tell)", counts)
    assert {state: len(expand(hosts)) for state, hosts in groups.items()} == {
        state: int(count) for count, state in told
    }
    signs = {"missing": "✗", "slow": "▼", "odd": "▽", "cannot tell": "?"}
    for state, hosts in groups.items():
        whose = {line[0] for line in lines for host in expand(hosts) if f" {host}: " in line[1:8]}
        assert whose <= {signs[state], "•", " "}
    assert [line for line in lines if line.startswith(f"▽ {OLD_DRIVER}: ")]
    about = [line for line in lines if line.startswith(f"▼ {LINKS_DOWN}: ")]
    assert [line.rpartition("[")[2] for line in about] == [
        "nvlink-down]",
        "pcie-width]",
        "figure-odd, wiring-differs]",
    ]
    assert f"  {OLD_DRIVER}: the same, but power limit 500 W; driver 550.54.15" in lines
    assert f"  {LINKS_DOWN}: the same, but GPU3 has 16 NVLinks up and 9 more" in lines


def test_nothing_is_left_behind_and_a_node_opens(tmp_path: Path) -> None:
    with Terminal(("fleet", "--demo"), environment={"TMPDIR": str(tmp_path)}) as terminal:
        terminal.wait_for("q +quit")
        terminal.wait_for("2 of 34 nodes missing")
        terminal.send("q")
        terminal.wait_end()
        assert terminal.process.returncode == 0
    assert not list(tmp_path.iterdir())


def test_the_files_hold_what_opens_a_node(tmp_path: Path) -> None:
    leaves = make_fleet(tmp_path / "demo")
    assert leaves.read_text().count("SwitchName=") == 5
    made = json.loads((tmp_path / "demo" / "g1.json").read_text())
    assert made["fleet"]["snapshot"]["machine"]["gpus"]
    assert made["fleet"]["simulated"] is True
