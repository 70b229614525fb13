"""Outputs of nccl-tests, one a node: who is slower than the others is odd."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gputop.answers.fleet import FleetAnswer, junit_suite
from gputop.printing.fleet import verdict_line
from gputop.topology.fleet.draining import drains
from gputop.topology.fleet.fleet import Fleet
from gputop.topology.fleet.intake import Intake
from gputop.topology.fleet.merging.growing import Growing, LinkReading, read_fleet
from gputop.topology.fleet.planning.fabric import SwitchFabric, fabric_of
from gputop.topology.fleet.planning.links import FleetLinks
from gputop.topology.model.severity import NodeState
from tests.gputop.screens.fleet.made import fabric, pairs, put
from tests.support.fleet_made import node

HEAD = """# nThread 1 nGpus 8 minBytes 1073741824 maxBytes 1073741824 step: 2(factor)
#  Rank  0 Group  0 Pid   1 on {host} device  0 [0000:19:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   1 on {host} device  1 [0000:3b:00] NVIDIA H100 80GB HBM3
"""
COLUMNS = (
    "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
    "#   (B) (elements)                 (us) (GB/s) (GB/s)         (us) (GB/s) (GB/s)\n"
)
ROW = "1073741824 268435456 float sum -1 4000.0  {rate}  {rate}  0  4000.0  {rate}  {rate}  0\n"

NODES = tuple(f"g{number}" for number in range(1, 17))
LEAVES = {"leaf1": NODES[:8], "leaf2": NODES[8:]}


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


# What pairs prove counts for the fleet: its verdict, its nodes, and what they share.
def look(
    first: str, second: str, number: int = 1, gbs: float = 48.5, **more: Any
) -> dict[str, Any]:
    """One look at a pair over one rail, both ways."""
    flows = [
        {"what": "send_recv", "rail": 0, "from": one, "to": two, "bytes": 1 << 26, "gbs": gbs}
        for one, two in ((first, second), (second, first))
    ]
    return {
        "schema": "gputop.net/1", "hosts": [first, second], "status": "finished", "round": number,
        "taken_at": 1.7e9 + number, "results": flows, **more,
    }  # fmt: skip


def rounds(sick: str = "", gbs: float = 24.0, status: str = "finished") -> list[dict[str, Any]]:
    """Six rounds in which each node of a leaf meets one of the other."""
    found = []
    for number in range(6):
        for place in range(8):
            pair = (NODES[place], NODES[8 + (place + number) % 8])
            if sick in pair:
                found.append(look(*pair, number + 1, gbs, status=status))
            else:
                found.append(look(*pair, number + 1))
    return found


def fleet(folder: Path, looks: list[dict[str, Any]], fabric: SwitchFabric | None = None) -> Fleet:
    """Sixteen healthy nodes and what pairs of them measured."""
    for host in NODES:
        put(folder, node(host))
    for number, made in enumerate(looks):
        (folder / f"pair-{number}.json").write_text(json.dumps(made), "utf-8")
    return read_fleet(str(folder), NODES, fabric=fabric)


def said(found: Fleet) -> list[tuple[str, str, str]]:
    return [(item.severity, item.id, item.folded) for item in found.findings]


def test_pairs_that_are_well_leave_the_fleet_healthy(tmp_path: Path) -> None:
    found = fleet(tmp_path, rounds())
    assert (found.verdict, said(found)) == ("healthy", [])


@pytest.mark.parametrize(
    ("status", "gbs", "state", "code", "drained"),
    [("finished", 24.0, "slow", 1, 0), ("timed out", 24.0, "broken", 2, 1)],
)
def test_one_judgement_everywhere(
    tmp_path: Path, status: str, gbs: float, state: str, code: int, drained: int
) -> None:
    found = fleet(tmp_path, rounds("g3", gbs, status))
    assert (found.verdict, found.states["g3"]) == (state, state)
    assert found.counts == {**found.counts, NodeState(state): 1, NodeState.HEALTHY: 15}
    assert said(found)[0] == (state, "net-node", "g3")
    assert found.verdict.exit_code == code
    written = FleetAnswer.of(found).document()
    assert written["hosts"]["g3"] == {**written["hosts"]["g3"], "state": state}
    assert written["links"]["culprits"][0]["hosts"] == ["g3"]
    assert f"1 of 16 nodes {state}" in verdict_line(found)
    assert [item.hosts for item in drains(found)] == [("g3",)] * drained
    assert [item.hosts for item in drains(found, slight=True)] == [("g3",)]
    failed = [case.get("name") for case in junit_suite(found).iter("testcase") if len(case)]
    assert failed == ["g3"]


def test_a_switch_counts_and_no_node_is_called_bad_for_it(tmp_path: Path) -> None:
    leaves = {f"leaf{number}": NODES[4 * number : 4 * number + 4] for number in range(4)}
    looks = [
        look(
            one, two, number, 24.0 if (one in leaves["leaf1"]) or (two in leaves["leaf1"]) else 48.5
        )
        for number in range(1, 5)
        for place, one in enumerate(NODES[:8])
        for two in [NODES[8 + (place + number) % 8]]
    ]
    looks += [look(one, two, 6, 24.0) for one, two in (("g5", "g6"), ("g7", "g8"))]
    found = fleet(tmp_path, looks, fabric_of("topology.conf", leaves, {"spine": tuple(leaves)}))
    assert said(found) == [("slow", "net-switch", "g[5-8]")]
    assert (found.verdict, found.counts[NodeState.HEALTHY]) == ("slow", 16)
    assert verdict_line(found) == "▼ 16 nodes healthy; what joins the nodes is slow"
    assert drains(found, slight=True) == ()
    failed = [case.get("name") for case in junit_suite(found).iter("testcase") if len(case)]
    assert failed == ["net-switch"]


def test_one_pair_that_never_finished_is_no_all_clear(tmp_path: Path) -> None:
    found = fleet(tmp_path, [look("g1", "g9", status="timed out")])
    assert said(found) == [("cannot-tell", "net-suspect", "g[1,9]")]
    assert (found.verdict, found.states["g1"]) == ("cannot tell", "cannot-tell")


def test_wrong_data_of_a_lone_pair_is_broken_and_blames_neither(tmp_path: Path) -> None:
    made = look("g1", "g9")
    made["results"][0]["verdict"] = "wrong-data"
    found = fleet(tmp_path, [made])
    assert ("broken", "net-wrong-data", "g[1,9]") in said(found)
    assert (found.verdict, found.states["g1"]) == ("broken", "healthy")


def test_a_set_that_did_not_finish_is_named(tmp_path: Path) -> None:
    made = {**look("g1", "g2"), "hosts": ["g1", "g2", "g3"], "status": "failed", "why": "no route"}
    found = fleet(tmp_path, [made])
    (item,) = found.findings
    assert (item.id, item.folded, found.verdict) == ("net-unfinished", "g[1-3]", "cannot tell")
    assert item.title == "a measurement of 3 nodes failed: no route"


@pytest.mark.parametrize(
    ("change", "id_", "verdict"),
    [
        ({"device_kind": "cpu"}, "file-other-document", "healthy"),
        ({"hosts": ["g1", "node 1"], "results": []}, "file-unnamed", "cannot tell"),
        ({"hosts": ["g1"]}, "file-damaged", "cannot tell"),
    ],
)
def test_files_of_pairs_that_do_not_count_are_named(
    tmp_path: Path, change: dict[str, Any], id_: str, verdict: str
) -> None:
    found = fleet(tmp_path, [{**look("g1", "g2"), **change}])
    assert ([item.id for item in found.findings], found.verdict) == ([id_], verdict)
    assert found.pairs == ()


def test_unlike_nodes_are_not_compared(tmp_path: Path) -> None:
    looks = [
        look(one, two, number, 24.0 if one in NODES[:4] else 48.5)
        for number in range(1, 5)
        for one, two in zip(NODES[:8:2], NODES[1:8:2], strict=True)
    ]
    looks += [look(one, two, 1) for one, two in zip(NODES[8::2], NODES[9::2], strict=True)]
    alike = fleet(tmp_path, looks)
    assert {item.id for item in alike.findings} & {"net-suspect", "net-doubt", "net-node"}
    for host in NODES[:4]:
        made = node(host)
        made["fleet"]["product"] = "8 × NVIDIA A100-SXM4-80GB"
        put(tmp_path, made)
    unlike = read_fleet(str(tmp_path), NODES)
    assert not {item.id for item in unlike.findings} & {"net-suspect", "net-node", "net-path"}


def test_who_wrote_no_check_or_lost_a_gpu_is_compared_all_the_same(tmp_path: Path) -> None:
    fleet(tmp_path, rounds("g3"))
    (tmp_path / "g3.json.gz").unlink()
    made = node("g4")
    made["fleet"]["product"] = "7 × NVIDIA H100 80GB HBM3"
    put(tmp_path, made)
    found = read_fleet(str(tmp_path), NODES)
    assert ("slow", "net-node", "g3") in said(found)
    assert not [item for item in found.findings if item.id == "net-doubt"]
