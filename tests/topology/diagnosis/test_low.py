"""No figure that is judged low ends as healthy, whatever else is known of it."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.expectation.judgement import LOW
from gputop.topology.node import Node

from ...grid import share
from ...support.rule_cases import base, edited, with_figures

LIVE = "hgx-h200-4gpu-live"
KINDS = ("p2p", "host", "on_device", "collectives")
JUDGED = (
    "write_bandwidth",
    "write_sweep",
    "read_bandwidth",
    "kernel_write_bandwidth",
    "both_ways_bandwidth",
    "together_bandwidth",
    "kernel_latency",
    "h2d_bandwidth",
    "d2h_bandwidth",
    "memory_copy",
    "memory_triad",
    "gemm",
    "all_reduce_busbw",
    "all_gather_busbw",
)
KNOWN: dict[str, dict[str, Any]] = {
    "nothing": {},
    "eight lanes under load": {"pcie_width": 8, "pcie_generation": 5},
    "generation 4 under load": {"pcie_width": 16, "pcie_generation": 4},
    "heat": {"throttle": ["sw-thermal"]},
    "a power cap": {"throttle": ["sw-power-cap"]},
    "set clocks": {"throttle": ["application-clocks"]},
}


@pytest.mark.parametrize(
    ("one_gpu", "known", "quantity"), share(product([False, True], KNOWN, JUDGED), 5)
)
def test_a_low_figure_is_reported(*, one_gpu: bool, known: str, quantity: str) -> None:
    whole = with_figures(base(LIVE), KINDS)
    where = f"measurements[quantity={quantity}"
    if one_gpu and "busbw" not in quantity:
        where += ",src=0000:00:07.0"
    falls = 3.0 if quantity == "kernel_latency" else 0.5
    edits: list[dict[str, Any]] = [{"path": f"{where}].value", "times": falls}]
    edits += [
        {"path": f"{where}].details.{name}", "value": value} for name, value in KNOWN[known].items()
    ]
    report = Node(edited(whole, edits))
    report = report.decide()
    case = Case(report)
    low = [figure for figure, judgement in case.judged if judgement.verdict == LOW]
    assert low
    found = diagnose(case)
    assert found.verdict != "healthy", [finding.title for finding in found.findings]
    named = {
        device
        for finding in found.findings
        if finding.severity != "notice"
        for device in finding.devices
    }
    # Where all that a GPU sends is low, the finding names that GPU.
    assert all(named & {figure.src, figure.dst} for figure in low if figure.src)
