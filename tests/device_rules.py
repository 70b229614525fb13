"""Shared by the tests of rules about GPUs: bases with values set, and what these rules say."""

from __future__ import annotations

from typing import Any

from gputop.topology.report import Report
from gputop.topology.rules import (
    clocks_held,
    driver,
    ecc,
    fabric,
    fabric_manager,
    gpu_presence,
    gpu_use,
    imex,
    memory_errors,
    models,
    modes,
    power,
    recovery_action,
    sharing,
    throttle_hardware,
    throttle_thermal,
)
from gputop.topology.rules.case import Case
from gputop.topology.rules.engine import Diagnosis, diagnose
from gputop.topology.rules.finding import Finding
from gputop.topology.snapshot import NodeSnapshot

from .rule_cases import base, edited

MODULES = (
    gpu_presence,
    recovery_action,
    driver,
    ecc,
    fabric_manager,
    fabric,
    imex,
    memory_errors,
    gpu_use,
    sharing,
    throttle_hardware,
    clocks_held,
    throttle_thermal,
    power,
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


def told(snapshot: NodeSnapshot, **rest: Any) -> Diagnosis:
    """What the rules about GPUs say."""
    return diagnose(Case(Report(snapshot), **rest), RULES)


def about(rule: str, snapshot: NodeSnapshot, **rest: Any) -> list[Finding]:
    """What one of them says."""
    return [one for one in told(snapshot, **rest).findings if one.id == rule]
