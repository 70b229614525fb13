"""Pairs' files that come, change and go are read once each."""

from __future__ import annotations

from pathlib import Path

from gputop.topology.fleet.intake import Intake
from gputop.topology.fleet.merging.growing import Growing
from gputop.topology.fleet.merging.link_reading import LinkReading
from gputop.topology.fleet.planning.links import FleetLinks
from tests.gputop.screens.fleet.made import fabric, pairs


def test_links_follow_the_folder(tmp_path: Path) -> None:
    growing = Growing(str(tmp_path), fabric=fabric())
    assert growing.look().links == FleetLinks()
    pairs(tmp_path)
    fleet = growing.look()
    found = fleet.links
    assert (found.looks, found.unfinished) == (96, 0)
    assert [(one.hosts, one.rail) for one in found.found.culprits] == [(("g11",), 3)]
    assert found.leaves.leaves == ("leaf0", "leaf1", "leaf2", "leaf3")
    assert growing.look() is fleet
    # Nodes that come leave what pairs say as it is, while their hardware is the same.
    intake, reading = Intake(str(tmp_path)), LinkReading(str(tmp_path), fabric())
    intake.take()
    beside = list(intake.beside())
    links = reading.look(beside, {"g1": "8 × H100"})
    assert reading.look(beside, {"g1": "8 × H100"}) is links
    assert reading.look(beside, {"g1": "8 × A100"}) is not links
    for path in (tmp_path / "net").iterdir():
        path.unlink()
    assert growing.look().links.looks == 0


def test_a_file_that_cannot_be_believed_is_named(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    text = '{"schema": "gputop.net/1", "hosts": ["g1"], "status": "finished"}'
    (tmp_path / "net" / "odd.json").write_text(text)
    found = Growing(str(tmp_path)).look().links
    assert found.unusable == (("net/odd.json", "a look names two or more different hosts"),)


def test_leaves_are_guessed_only_for_the_map_and_that_is_said(tmp_path: Path) -> None:
    pairs(tmp_path, 1)
    found = Growing(str(tmp_path)).look().links
    # g1 to g32 show no groups.
    assert (found.leaves.leaves, found.assumption) == ((), "")
