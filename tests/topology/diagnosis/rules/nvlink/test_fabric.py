"""Rules of the NVLink fabric: which states are faults, and how bad they are."""

from __future__ import annotations

import pytest

from gputop.topology.node import Node
from gputop.topology.wiring.paths import path_between
from tests.support.rule_cases import base, diagnosed
from tests.topology.diagnosis.device_rules import H100, about, at


@pytest.mark.parametrize("state", ["not supported", "completed", None, "unknown (9)"])
def test_a_fabric_that_is_up_or_unknown_is_well(state: str | None) -> None:
    snapshot = at(
        H100, ("machine.gpus[*].fabric.state", state), ("machine.gpus[*].fabric.status", None)
    )
    assert about("fabric-state", snapshot) == []


def test_a_summary_alone_shows_the_fabric() -> None:
    def severity(word: str, *more: list[str]) -> list[str]:
        health = [["summary", word], *more]
        found = about("fabric-health", at(H100, ("machine.gpus[0].fabric.health", health)))
        return [one.severity for one in found]

    assert severity("healthy") == severity("not supported") == []
    assert severity("unhealthy") == ["broken"]
    assert severity("limited capacity") == ["slow"]
    assert severity("unhealthy", ["degraded bandwidth", "true"]) == ["slow"]
    assert severity("healthy", ["incorrect configuration", "insufficient NVLinks"]) == ["broken"]
    assert severity("healthy", ["partition assigned", "false"]) == []


@pytest.mark.parametrize(
    ("status", "rule"), [("GPU is lost", "gpu-lost"), ("In use by another client", "fabric-state")]
)
def test_a_lost_gpu_is_no_fault_of_the_fabric(status: str, rule: str) -> None:
    """NVML gives the end of a registration as a code of its own, that of a lost GPU among them."""
    sick = at(H100, ("machine.gpus[2].fabric.status", status))
    found = diagnosed(sick).findings
    assert [(one.id, one.devices) for one in found if one.severity == "broken"] == [
        (rule, (sick.machine.gpus[2].address,))
    ]


@pytest.mark.parametrize(
    ("words", "severity"),
    [("topology not supported", "broken"), ("ok", "cannot-tell"), (None, "cannot-tell")],
)
@pytest.mark.parametrize(("field", "value"), [("clique_id", 9), ("cluster_uuid", "0" * 7 + "1-0")])
def test_partitions_inside_a_node_are_told_and_change_no_link(
    words: str | None, severity: str, field: str, value: object
) -> None:
    board = base(H100)
    last = board.machine.gpus[-1].address
    edits: list[tuple[str, object]] = [
        (f"machine.gpus[{len(board.machine.gpus) - 1}].fabric.{field}", value)
    ]
    edits += [
        (f"machine.pairs[{end}={last}].{way}", words)
        for end in ("src", "dst")
        for way in ("p2p_read", "p2p_write")
    ]
    split = at(H100, *edits)
    found = diagnosed(split).findings
    assert [one.severity for one in found if one.id == "fabric-partition"] == [severity]
    assert not {"gpu-islands", "nvlink-p2p-refused"} & {one.id for one in found}
    one, other = Node(split), Node(board)
    assert one.matrix == other.matrix
    assert one.islands == other.islands
    assert one.prediction == other.prediction
    ends = board.machine.gpus[0].address, last
    assert path_between(one.graph, *ends) == path_between(other.graph, *ends)


def test_a_gpu_outside_the_fabric_is_in_no_partition() -> None:
    edits = [
        ("machine.gpus[0].fabric.clique_id", 9),
        ("machine.gpus[0].fabric.state", "in progress"),
    ]
    assert about("fabric-partition", at(H100, *edits)) == []
