"""What predictions share leaves no trace in any of them."""

from __future__ import annotations

import pytest

from gputop.topology.nccl.decide import prediction_cache, untuned
from gputop.topology.nccl.decide.predict import predict
from gputop.topology.nccl.decide.prediction_cache import PredictionCache
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.system.prepared import PreparedSystem
from gputop.topology.recorded.feeds import DemoFeed
from tests.grid import share

APART = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}
CHANGES: tuple[dict[str, str], ...] = (
    {},
    {"NCCL_P2P_LEVEL": "LOC"},
    APART,
    {"NCCL_P2P_LEVEL": "SYS"},
    {"NCCL_NET_GDR_LEVEL": "SYS"},
    {"NCCL_NVB_DISABLE": "1"},
    {"NCCL_IB_DISABLE": "1", **APART},
    {"CUDA_VISIBLE_DEVICES": "0,1,2"},
    {},
)


@pytest.mark.parametrize(
    ("demo", "nodes"),
    share(
        [("hgx-h100-8", 1), ("hgx-h100-8", 2), ("mi300x-8", 1), ("mi300x-8", 2),
         ("pcie-l40s-8", 2), ("pcie-l40s-8", 1), ("dgx-1v", 1), ("dgx-1v", 2)], 3,
    ),
)  # fmt: skip
def test_predictions_in_a_row_equal_each_alone(
    monkeypatch: pytest.MonkeyPatch, demo: str, nodes: int
) -> None:
    node, shared = DemoFeed(demo).at(7), PredictionCache()
    for changes in CHANGES:
        monkeypatch.setattr(untuned, "_kept", [])
        after = predict(node, Settings(changes), nodes=nodes, cache=shared)
        monkeypatch.setattr(untuned, "_kept", [])
        assert after == predict(node, Settings(changes), nodes=nodes), changes


def test_one_system_serves_all_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Counted(PreparedSystem):
        def __init__(self, *given: object) -> None:
            made.append(given)
            super().__init__(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(prediction_cache, "PreparedSystem", Counted)
    monkeypatch.setattr(untuned, "_kept", [])
    node, shared = DemoFeed("hgx-h100-8").at(7), PredictionCache()
    for level in ("LOC", "PHB", "SYS"):
        predict(node, Settings({"NCCL_P2P_LEVEL": level}), cache=shared)
    assert len(made) == 1
    predict(node, Settings({"NCCL_NVB_DISABLE": "1"}), cache=shared)
    assert len(made) == 2
