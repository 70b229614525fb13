"""Rules of the NVLink fabric: which states are faults, and how bad they are."""

from __future__ import annotations

import pytest

from tests.support.rule_cases import diagnosed
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
