"""What the app keeps of a run of probes."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from gputop.live.probe_controller import ProbeController, _import_early
from gputop.messages import ProbeMeasured, SuiteChanged
from tests.support.app import demo_report
from tests.support.measured import one
from tests.support.runs import run_of, suite_of


def test_a_run_ends_with_the_keys_of_its_own_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    report = demo_report("hgx-h100-8")
    host: Any = SimpleNamespace(
        probe=None, suite=None, nccl_check=None, refresher=None,
        what_if=SimpleNamespace(real=report), size=SimpleNamespace(width=200),
    )  # fmt: skip
    controller = ProbeController(host, lambda announced, go: go())
    begun: list[tuple[str, ...]] = []
    probing: Any = SimpleNamespace(start_suite=lambda names, *rest: begun.append(names))
    monkeypatch.setattr(controller, "_probing", lambda: probing)
    for figure in (one("p2p", "copy", 1.0, "GB/s"), one("gemm", "gemm", 2.0, "TFLOP/s")):
        controller.start((), probe=figure.probe)
        controller.take(SuiteChanged(suite_of(run_of(figure.probe, "running"))))
        controller.take(ProbeMeasured(figure))
        controller.take(SuiteChanged(suite_of(run_of(figure.probe))))
        assert host.probe.measured == {figure.key}
    assert begun == [("p2p",), ("gemm",)]


def test_an_early_import_that_fails_is_left_to_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gputop.live.probing", None)
    _import_early()
    with pytest.raises(ImportError):
        __import__("gputop.live.probing")
