"""What one prediction takes from another is what it would have decided itself."""

from __future__ import annotations

import pytest

from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.nccl.decide import untuned
from gputop.topology.nccl.decide.predict import predict
from gputop.topology.nccl.settings import Settings
from gputop.topology.recorded.feeds import DemoFeed

CHANGES = (
    {"NCCL_DEBUG": "INFO"},
    {"NCCL_MIN_NCHANNELS": "8"},
    {"NCCL_ALGO": "Tree"},
    {"NCCL_RINGS": "0 1"},
    {"NCCL_P2P_LEVEL": "LOC"},
    {"NCCL_P2P_DISABLE": "1"},
    {"NCCL_NVLS_ENABLE": "0"},
    {"NCCL_CROSS_NIC": "0"},
    {"CUDA_VISIBLE_DEVICES": "0,1"},
)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> NodeSnapshot:
    monkeypatch.setattr(untuned, "_kept", [])
    return DemoFeed("hgx-h100-8").at(7)


@pytest.mark.parametrize("changes", CHANGES, ids=lambda changes: next(iter(changes)))
def test_a_prediction_after_another_equals_one_made_alone(
    node: NodeSnapshot, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str]
) -> None:
    predict(node, Settings({}))
    after = predict(node, Settings(changes))
    monkeypatch.setattr(untuned, "_kept", [])
    assert after == predict(node, Settings(changes))


def test_only_variables_that_were_asked_for_decide_anew(node: NodeSnapshot) -> None:
    before = predict(node, Settings({}))
    assert predict(node, Settings({"NCCL_DEBUG": "INFO"})).pairs is before.pairs
    assert predict(node, Settings({"NCCL_MIN_NCHANNELS": "8"})).pairs is before.pairs
    assert predict(node, Settings({"NCCL_P2P_LEVEL": "SYS"})).pairs is not before.pairs
    assert predict(node, Settings({}), nodes=2).pairs is not before.pairs
