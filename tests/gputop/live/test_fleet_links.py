"""Pairs' files that come, change and go are read once each."""

from __future__ import annotations

from pathlib import Path

from gputop.live.fleet_links import FleetLinks, LinkReading
from gputop.topology.fleet.fleet import Growing
from tests.gputop.screens.fleet.made import fabric, pairs


def test_links_follow_the_folder(tmp_path: Path) -> None:
    growing, reading = Growing(str(tmp_path)), LinkReading(str(tmp_path), fabric())
    assert reading.look(growing.look().beside) == FleetLinks()
    pairs(tmp_path)
    found = reading.look(growing.look().beside)
    assert (found.looks, found.unfinished) == (96, 0)
    assert [(one.hosts, one.rail) for one in found.found.culprits] == [(("g11",), 3)]
    assert found.leaves.leaves == ("leaf0", "leaf1", "leaf2", "leaf3")
    assert reading.look(growing.look().beside) is found
    for path in (tmp_path / "net").iterdir():
        path.unlink()
    assert reading.look(growing.look().beside).looks == 0


def test_a_file_that_cannot_be_believed_is_named(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    text = '{"schema": "gputop.net/1", "hosts": ["g1"], "status": "finished"}'
    (tmp_path / "net" / "odd.json").write_text(text)
    found = LinkReading(str(tmp_path)).look(Growing(str(tmp_path)).look().beside)
    assert found.unusable == (("net/odd.json", "a look names two or more different hosts"),)


def test_leaves_are_guessed_only_for_the_map_and_that_is_said(tmp_path: Path) -> None:
    pairs(tmp_path, 1)
    found = LinkReading(str(tmp_path)).look(Growing(str(tmp_path)).look().beside)
    # g1 to g32 show no groups.
    assert (found.leaves.leaves, found.assumption) == ((), "")
