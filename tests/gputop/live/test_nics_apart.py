"""A mistake of ours in the NICs between nodes takes neither the prediction nor a what-if away."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.live.refresh import Refresher
from gputop.live.what_if_work import work_out
from gputop.messages import RefreshFailed, ReportReady
from gputop.topology.flags.what_if.study import Study
from tests.support.app import StepFeed, demo_report, gpu, snapshot_of
from tests.support.findings_made import diagnosis

TROUBLE = "ZeroDivisionError: by purpose"


@pytest.fixture(autouse=True)
def no_nics(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*asked: Any) -> Any:
        raise ZeroDivisionError("by purpose")

    monkeypatch.setattr("gputop.topology.nccl.decide.predict.nics_between_nodes", fail)


def test_the_prediction_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.live.refresh.PREDICT_AFTER_SECONDS", 0.0)
    posted: list[Any] = []
    refresher = Refresher(StepFeed(snapshot_of((gpu(0), gpu(1)))), posted.append)
    refresher._tick()
    refresher._decide()
    first, last, failed = posted
    assert isinstance(first, ReportReady)
    assert isinstance(failed, RefreshFailed)
    assert (failed.what, failed.text) == ("no NICs between nodes", TROUBLE)
    assert last.report.prediction is not None
    assert last.report.node.nic_views == (), "no screen meets the mistake again"


def test_a_what_if_stays_and_says_what_is_missing() -> None:
    real = demo_report("pcie-l40s-8")
    outcome = work_out(
        Study(real.snapshot), real, {"NCCL_P2P_DISABLE": "1"}, lambda node: diagnosis()
    )
    assert outcome is not None
    assert outcome.node.prediction is not None
    assert outcome.node.nic_views == ()
    assert outcome.summary[-1] == f"no NICs between nodes: {TROUBLE}"
    assert len(outcome.summary) > 1
