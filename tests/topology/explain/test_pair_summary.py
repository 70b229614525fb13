"""What the summary of a pair says: the way that its bytes take, under a what-if too."""

from __future__ import annotations

import pytest

from gputop.topology.explain.pair_summary import NO_P2P, P2P, PairSummary, pair_summary
from gputop.topology.flags.what_if.changes import with_changes
from gputop.topology.flags.what_if.remedy import remedy
from gputop.topology.flags.what_if.study import Study
from gputop.topology.node import Node
from gputop.topology.recorded.load import load
from tests.support.app import demo_report
from tests.support.places import RECORDINGS

OFF = {"NCCL_P2P_DISABLE": "1"}


def summary(demo: str, first: int, last: int, changes: dict[str, str | None]) -> PairSummary:
    report = demo_report(demo)
    node = report.node.follow(with_changes(report.snapshot, changes)).decide()
    gpus = node.snapshot.machine.gpus
    return pair_summary(node, gpus[first].address, gpus[last].address)


def test_without_p2p_the_route_and_its_speed_are_those_through_the_host() -> None:
    with_p2p = summary("sick-h100-8", 0, 3, {})
    assert (with_p2p.state, with_p2p.link_gbs, with_p2p.detour) == (P2P, 400.0, False)
    assert with_p2p.route == "GPU0━450━NVSwitch━400━GPU3"
    without = summary("sick-h100-8", 0, 3, {**OFF})
    assert (without.state, without.detour) == (NO_P2P, True)
    assert without.route == "GPU0─63.0─sw─63.0─CPU0─63.0─sw─31.5─GPU3"
    assert without.link_gbs == pytest.approx(31.5, abs=0.1)


def test_over_a_network_that_nobody_saw_neither_is_known() -> None:
    found = summary("sick-h100-8", 0, 7, {**OFF})
    assert (found.state, found.route, found.link_gbs) == (NO_P2P, "", None)


def test_the_only_way_of_a_pair_on_pcie_is_no_detour() -> None:
    found = summary("pcie-l40s-8", 0, 4, {})
    assert (found.state, found.detour) == (NO_P2P, False)
    assert found.route == "GPU0─31.5─sw─63.0─CPU0══CPU1─63.0─sw─31.5─GPU4"


def test_what_is_tried_out_is_what_has_to_go() -> None:
    report = demo_report("sick-h100-8")
    study = Study(report.snapshot, made=report.prediction)
    first, *_, last = (gpu.address for gpu in report.snapshot.machine.gpus)
    assert remedy(study, first, last) is None, "it has P2P"
    change = remedy(study, first, last, OFF)
    assert change is not None
    assert (change.name, change.value, change.gained, change.lost) == (*OFF, None, 28, 0)


def test_a_text_without_addresses_has_the_pairs_that_the_prediction_has() -> None:
    path = RECORDINGS / "amd-public" / "mi210-4-showtopo.txt"
    node = Node(load([str(path)]).snapshot).decide()
    first, second, *_ = (gpu.address for gpu in node.snapshot.machine.gpus)
    found = pair_summary(node, first, second)
    assert (found.state, found.uses) == (P2P, "P2P/IPC, path XGMI")
