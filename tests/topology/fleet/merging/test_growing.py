"""Outputs of nccl-tests, one a node: who is slower than the others is odd."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.topology.fleet.intake import Intake
from gputop.topology.fleet.merging.growing import Growing, LinkReading, read_fleet
from gputop.topology.fleet.planning.links import FleetLinks
from tests.gputop.screens.fleet.made import fabric, pairs

HEAD = """# nThread 1 nGpus 8 minBytes 1073741824 maxBytes 1073741824 step: 2(factor)
#  Rank  0 Group  0 Pid   1 on {host} device  0 [0000:19:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   1 on {host} device  1 [0000:3b:00] NVIDIA H100 80GB HBM3
"""
COLUMNS = (
    "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
    "#   (B) (elements)                 (us) (GB/s) (GB/s)         (us) (GB/s) (GB/s)\n"
)
ROW = "1073741824 268435456 float sum -1 4000.0  {rate}  {rate}  0  4000.0  {rate}  {rate}  0\n"


@pytest.mark.parametrize(("slow", "odd"), [(300.0, [("slow", "figure-odd", "g4")]), (468.0, [])])
def test_a_slow_output_is_odd(tmp_path: Path, slow: float, odd: list[tuple[str, str, str]]) -> None:
    for number in range(1, 9):
        rate = slow if number == 4 else 470.0 + number / 10
        text = HEAD.format(host=f"g{number}") + COLUMNS + ROW.format(rate=f"{rate:.2f}")
        (tmp_path / f"g{number}.txt").write_text(text)
    found = read_fleet(str(tmp_path))
    said = [(item.severity, item.id, item.folded) for item in found.findings if item.hosts]
    assert said == odd
    if odd:
        (item,) = (item for item in found.findings if item.hosts)
        assert item.title.startswith("nccl-tests all reduce busbw")
        assert "300 GB/s, where the median of 8 equal nodes is 470.4" in item.title
        assert item.evidence[0].source == "g4.txt"


# Pairs' files that come, change and go are read once each.
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
