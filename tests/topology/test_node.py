"""A node is pure, keeps what did not change, and lets nobody change it."""

from __future__ import annotations

import msgspec
import pytest

from gputop.topology.model.snapshot import EnvironmentVariable, NodeSnapshot
from gputop.topology.nccl.decide import predict
from gputop.topology.node import Node
from gputop.topology.report import Report
from tests.support.snapshots import demo_node, gpus_of


def test_an_equal_machine_keeps_its_graph_and_matrix() -> None:
    first = demo_node("hgx-h100-8", 0)
    graph, matrix = first.graph, first.matrix
    later = demo_node("hgx-h100-8", 5).snapshot
    assert later.machine is not first.snapshot.machine
    second = first.follow(later)
    assert second.graph is graph
    assert second.matrix is matrix
    assert second.snapshot is later
    assert second.snapshot.readings != first.snapshot.readings


def test_another_machine_is_examined_anew() -> None:
    first = demo_node("hgx-h100-8").decide()
    machine = first.snapshot.machine
    fewer = msgspec.structs.replace(machine, gpus=machine.gpus[:4])
    second = first.follow(msgspec.structs.replace(first.snapshot, machine=fewer))
    assert second.graph is not first.graph
    assert second.islands == (tuple(gpus_of(first)[:4]),)
    assert not second.decided


def test_islands_of_the_demos() -> None:
    assert [len(group) for group in demo_node("dgx-1v").islands] == [8]
    assert [len(group) for group in demo_node("mi300x-8").islands] == [8]
    assert demo_node("pcie-l40s-8").islands == ()


def test_a_prediction_is_made_once_and_belongs_to_the_node_that_was_decided() -> None:
    first = demo_node("hgx-h100-8", 0)
    decided = first.decide()
    assert decided.prediction is not None
    assert (first.decided, first.prediction) == (False, None)
    assert decided.decide() is decided
    later = decided.follow(demo_node("hgx-h100-8", 5).snapshot)
    assert later.prediction is decided.prediction


def test_another_variable_leaves_the_prediction_open() -> None:
    decided = demo_node("hgx-h100-8").decide()
    variable = EnvironmentVariable(name="NCCL_ALGO", value="Tree", origin="environment")
    changed = msgspec.structs.replace(decided.snapshot, environment=(variable,))
    later = decided.follow(changed)
    assert not later.decided
    assert later.graph is decided.graph


def test_a_node_without_gpus_says_why_nothing_is_predicted() -> None:
    node = Node(NodeSnapshot(taken_at=0.0)).decide()
    assert node.decided
    assert node.prediction is None
    assert node.why_no_prediction


def test_to_look_at_a_node_predicts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(predict, "predict")
    report = Report(demo_node("hgx-h100-8"))
    assert report.graph
    assert report.matrix
    assert report.islands
    assert report.prediction is None
    assert not report.node.decided


def test_nothing_of_a_node_or_a_report_can_be_changed() -> None:
    node = demo_node("hgx-h100-8").decide()
    report = Report(node)
    for whole in (node, report):
        names = [name for name in dir(whole) if not name.startswith("__")]
        assert "snapshot" in names
        assert "graph" in names
        for name in (*names, "anything"):
            before = getattr(whole, name, None)
            with pytest.raises((AttributeError, TypeError)):
                setattr(whole, name, None)
            with pytest.raises((AttributeError, TypeError)):
                delattr(whole, name)
            assert getattr(whole, name, None) == before
