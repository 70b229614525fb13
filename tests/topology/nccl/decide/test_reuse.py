"""What follows from a prediction is what would be predicted anew."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.topology.nccl.decide import predict, untuned, untuned_builder
from gputop.topology.nccl.decide.prediction_cache import PredictionCache
from gputop.topology.nccl.nodes import System
from gputop.topology.nccl.prediction import Graphs
from gputop.topology.nccl.search.graphs import search_graphs
from gputop.topology.nccl.settings import Settings
from gputop.topology.recorded.feeds import DemoFeed
from tests.grid import share

CHANGES: tuple[dict[str, str], ...] = (
    {},
    *(
        {"NCCL_P2P_LEVEL": name}
        for name in ["LOC", "NVL", "XGMI", "PIX", "PXB", "PHB", "SYS", "bad"]
    ),
    {"NCCL_P2P_DISABLE": "1"},
    {"NCCL_P2P_DISABLE": "1", "NCCL_P2P_LEVEL": "SYS"},
    {"NCCL_P2P_LEVEL": "SYS", "NCCL_SHM_DISABLE": "1"},
    *({"NCCL_NET_GDR_LEVEL": name} for name in ["LOC", "SYS"]),
    {"NCCL_NVLS_ENABLE": "0"},
)


@pytest.mark.parametrize(
    ("demo", "library"),
    share(
        [("hgx-h100-8", None), ("hgx-h100-8", "nccl-2.18.3"), ("pcie-l40s-8", "nccl-2.18.3"),
         ("pcie-l40s-8", None), ("mi300x-8", None), ("dgx-1v", "nccl-2.18.3"), ("dgx-1v", None),
         ("mi300x-8", "nccl-2.18.3")], 2,
    ),
)  # fmt: skip
def test_every_level_equals_what_is_predicted_alone(
    monkeypatch: pytest.MonkeyPatch, demo: str, library: str | None
) -> None:
    node, shared = DemoFeed(demo).at(7), PredictionCache()
    for changes in CHANGES:
        monkeypatch.setattr(untuned, "_kept", [])
        after = predict.predict(node, Settings(changes), library=library, cache=shared)
        monkeypatch.setattr(untuned, "_kept", [])
        assert after == predict.predict(node, Settings(changes), library=library), changes


def test_nothing_is_searched_again_for_a_level_that_allows_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[System] = []

    def search(system: System, *given: Any, **more: Any) -> Graphs:
        searched.append(system)
        return search_graphs(system, *given, **more)

    monkeypatch.setattr(untuned_builder, "search_graphs", search)
    monkeypatch.setattr(untuned, "_kept", [])
    node, shared = DemoFeed("hgx-h100-8").at(7), PredictionCache()
    for level in ("NVL", "PIX", "SYS"):
        predict.predict(node, Settings({"NCCL_P2P_LEVEL": level}), cache=shared)
    assert len(searched) == 1
    predict.predict(node, Settings({"NCCL_P2P_LEVEL": "LOC"}), cache=shared)
    assert len(searched) > 1
