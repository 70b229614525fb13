"""Findings about AMD's GPUs name AMD's library and tools."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ...support.rule_cases import base, diagnosed, edited, with_figures

NVIDIAS = re.compile(r"nvml|nvidia|dcgm|xid", re.IGNORECASE)
SICK: dict[str, list[tuple[str, Any]]] = {
    "power-limit-low": [("machine.gpus[2].power_limit_watts", 400.0)],
    "gpu-settings-differ": [
        ("machine.gpus[*].clock_memory_max_mhz", 1300),
        ("machine.gpus[2].clock_memory_max_mhz", 900),
    ],
    "gpu-firmware-mixed": [("machine.gpus[2].vbios", "113-other")],
    "throttle-hardware": [("readings.gpus[2].throttle_reasons", ["hw thermal"])],
    "page-retirement-pending": [("readings.gpus[2].ecc", {"retirement_pending": True})],
    "ecc-uncorrected": [("readings.gpus[2].ecc", {"uncorrected_volatile": 3})],
    "gpu-memory-unlisted": [
        ("readings.gpus[7].processes", []),
        ("readings.gpus[7].utilization_percent", 0),
        ("readings.gpus[7].memory_used_bytes", 50_000_000_000),
    ],
    "gpu-busy": [("readings.gpus[2].utilization_percent", 50)],
    "memory-bandwidth-low": [("measurements[probe=memory,src=0000:44:00.0].value", 500.0)],
    "compute-low": [("measurements[probe=gemm].value", 1.0)],
    "host-link-low": [("measurements[variant=pinned,src=0000:44:00.0].value", 5.0)],
}


@pytest.mark.parametrize("rule", SICK)
def test_nothing_of_nvidia_is_named(rule: str) -> None:
    edits = [{"path": path, "value": value} for path, value in SICK[rule]]
    whole = with_figures(base("demo mi300x-8"), ("host", "on_device"))
    found = [finding for finding in diagnosed(edited(whole, edits)).findings if finding.id == rule]
    assert found
    for finding in found:
        texts = [finding.title, finding.impact]
        texts += [text for e in finding.evidence for text in (e.what, e.value)]
        # Probes' figures are held against tables whose sources may name anybody.
        texts += [e.source.partition("; expected by")[0] for e in finding.evidence]
        texts += [text for fix in finding.fix for text in (fix.text, fix.command)]
        assert not [text for text in texts if NVIDIAS.search(text)]
