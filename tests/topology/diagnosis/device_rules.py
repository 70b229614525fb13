"""Shared by the tests of rules about GPUs: bases with values set, and what these rules say."""

from __future__ import annotations

from typing import Any

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import Diagnosis, diagnose
from gputop.topology.diagnosis.rules.devices import (
    clocks,
    driver,
    models,
    modes,
    presence,
    recovery_action,
)
from gputop.topology.diagnosis.rules.jobs import gpu_use, sharing
from gputop.topology.diagnosis.rules.memory import errors as memory_errors
from gputop.topology.diagnosis.rules.nvlink import fabric
from gputop.topology.model.finding import Finding
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.node import Node

from ...support.rule_cases import base, edited

MODULES = (
    presence,
    recovery_action,
    driver,
    fabric,
    memory_errors,
    gpu_use,
    sharing,
    clocks,
    models,
    modes,
)
RULES = tuple(rule for module in MODULES for rule in module.RULES)
H100, H200, L40S, MI300X = (
    "demo hgx-h100-8",
    "hgx-h200-4gpu-live",
    "demo pcie-l40s-8",
    "demo mi300x-8",
)


def at(name: str, *edits: tuple[str, Any]) -> NodeSnapshot:
    """A base with the values at some paths set."""
    return edited(base(name), [{"path": path, "value": value} for path, value in edits])


def device_diagnosis(snapshot: NodeSnapshot, **rest: Any) -> Diagnosis:
    """What the rules about GPUs say."""
    return diagnose(Case(Node(snapshot), **rest), RULES)


def about(rule: str, snapshot: NodeSnapshot, **rest: Any) -> list[Finding]:
    """What one of them says."""
    return [
        finding for finding in device_diagnosis(snapshot, **rest).findings if finding.id == rule
    ]
