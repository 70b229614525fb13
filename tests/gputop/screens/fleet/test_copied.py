"""What `y` copies on each tab of Fleet: no name of a node is obeyed in it."""

from __future__ import annotations

import json
from pathlib import Path

from gputop.screens.fleet.figures import FiguresTab
from gputop.screens.fleet.groups import GroupsTab
from gputop.screens.fleet.nodes import NodesTab
from gputop.screens.fleet.odd import OddTab
from gputop.screens.fleet.tab import FleetFacts
from gputop.screens.fleet.tabs import LinksTab
from gputop.topology.fleet.hosts import is_host
from gputop.topology.fleet.merging.growing import read_fleet
from tests.support.fleet_made import node, slower
from tests.support.hostile_names import HOSTILE, obeyed

TABS = (OddTab, GroupsTab, FiguresTab, LinksTab, NodesTab)


def copied(folder: Path, slow: list[str]) -> list[str]:
    """Every line of every tab of some sound nodes and some slow ones; one more is missing."""
    folder.mkdir()
    made = [node(f"g{number}") for number in range(2 * len(slow))]
    made += [slower(node(name), "gemm gemm bf16", 0.2) for name in slow]
    for number, one in enumerate(made):
        (folder / f"{number}.json").write_text(json.dumps(one))
    facts = FleetFacts(read_fleet(str(folder), [*slow, "missing-7"]))
    tabs = [tab(facts) for tab in TABS]
    lines = [line for tab in tabs for row in tab.names for line in tab.copied(row)]
    return [line for line in lines if " median " not in line]


def test_no_tab_copies_a_hostile_name(tmp_path: Path) -> None:
    names = [name for name in HOSTILE if is_host(name)]
    assert {"ALL", "DEFAULT", "none", "0x1f"} <= set(names)
    sound = copied(tmp_path / "sound", [f"slow-a{number}x" for number in range(len(names))])
    for word in ("scontrol", "--nodelist"):
        assert any(word in line and "slow-a" in line for line in sound)
    found = copied(tmp_path / "hostile", names)
    assert [(name, line) for name in names for line in obeyed(name, found, sound)] == []
