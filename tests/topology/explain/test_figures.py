"""What is said of a measured figure of a pair."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gputop.topology.explain.why import why_pair
from gputop.topology.model.page import Page
from gputop.topology.model.snapshot import Measurement
from gputop.topology.node import Node
from tests.support.snapshots import demo_node, gpus_of
from tests.topology.explain.explanations_read import answer, asked, because


def measured(report: Node, **facts: Any) -> Node:
    a, b = gpus_of(report)[:2]
    item = Measurement(probe="p2p", src=a, dst=b, **facts)
    return Node(msgspec.structs.replace(report.snapshot, measurements=(item,)))


def why_measured(name: str, **facts: Any) -> Page:
    report = measured(demo_node(name), **facts)
    return why_pair(report, *gpus_of(report)[:2])


@pytest.mark.parametrize(
    ("value", "share", "word"),
    [
        (396.1, "88 %", "healthy"),
        (340.0, "76 %", "healthy (look: 89 % of the reference)"),
        (200.0, "44 %", "low (53 % of the reference)"),
    ],
)
def test_a_figure_is_compared_with_payload_and_the_healthy_one(
    value: float, share: str, word: str
) -> None:
    why = why_measured(
        "hgx-h100-8", quantity="write_bandwidth", value=value, unit="GB/s", engine="copy engine"
    )
    reason = because(why, "How fast was it")
    assert f"{share} of 450 GB/s payload" in reason
    assert reason.endswith(f": {word}")
    assert "nccl issue" in reason
    assert "What was measured?" not in asked(why)


def test_a_figure_without_reference_is_not_judged() -> None:
    why = why_measured("pcie-l40s-8", quantity="write_bandwidth", value=20.0, unit="GB/s")
    assert "no reference" not in because(why, "How fast was it")  # one PCIe switch above the two
    report = demo_node("pcie-l40s-8")
    gpus = gpus_of(report)
    item = Measurement(
        probe="p2p", quantity="write_bandwidth", src=gpus[0], dst=gpus[7], value=9.0, unit="GB/s"
    )
    across = why_pair(
        Node(msgspec.structs.replace(report.snapshot, measurements=(item,))), gpus[0], gpus[7]
    )
    assert "no reference" in because(across, "How fast was it")
    assert "low" not in because(across, "How fast was it")


def test_a_staged_copy_is_no_p2p() -> None:
    why = why_measured(
        "hgx-h100-8",
        quantity="write_bandwidth",
        value=20.0,
        unit="GB/s",
        engine="copy, staged through the host",
    )
    assert "no P2P" in because(why, "How fast was it")
    assert "low" not in because(why, "How fast was it")


def test_one_way_beside_the_other_is_held_against_one_payload() -> None:
    why = why_measured("hgx-h100-8", quantity="both_ways_bandwidth", value=375.0, unit="GB/s")
    reason = because(why, "while the other way ran")
    assert "83 % of 450 GB/s payload" in reason
    assert "scaled" not in reason
    assert reason.endswith(": healthy")


def test_both_ways_added_are_held_against_twice_the_payload() -> None:
    why = why_measured("hgx-h100-8", quantity="together_bandwidth", value=784.0, unit="GB/s")
    reason = because(why, "both ways, added")
    assert "87 % of 900 GB/s payload" in reason
    assert "scaled" not in reason
    assert reason.endswith(": healthy")


def test_the_speed_of_wrong_data_is_not_judged() -> None:
    why = why_measured(
        "hgx-h100-8", quantity="write_bandwidth", value=395.0, unit="GB/s", verdict="wrong-data"
    )
    reason = because(why, "How fast was it, one way")
    assert "wrong" in reason
    assert "good" not in reason


def test_a_verdict_without_a_figure() -> None:
    why = why_measured("hgx-h100-8", quantity="bytes_arrive", verdict="corrupt")
    assert answer(why, "Data verified") == "corrupt"
    assert "press p" not in because(why, "Data verified")
