"""A plan as JSON, schema gputop.fleet-plan/1."""

from __future__ import annotations

from typing import Any

from ..hosts import fold
from .culprits import Culprit
from .plan import FleetPlan, PlannedPair
from .sequential import (
    FALSE_ACCUSATION,
    FALSE_ACQUITTAL,
    SICK_RATE,
    WELL_RATE,
    clean_looks,
    missed,
)


def plan_fields(plan: FleetPlan) -> dict[str, Any]:
    """The plan as plain values, without the fields that every document has."""
    rounds, node_seconds = plan.expected
    return {
        "round": plan.number,
        "verdict": plan.verdict,
        "strategy": plan.wish.strategy,
        "hosts": fold(plan.wish.hosts),
        "topology": plan.wish.fabric.source or None,
        "pairs": [_pair(pair) for pair in plan.pairs],
        "sets": [list(one) for one in plan.sets],
        "idle": list(plan.idle),
        "cost": {
            "rounds": rounds,
            "node_seconds": round(node_seconds, 1),
            "this_round_seconds": round(plan.seconds, 1),
            "this_round_node_seconds": round(plan.node_seconds, 1),
            "seconds_per_look": plan.wish.look_seconds,
        },
        "culprits": [culprit_fields(culprit) for culprit in plan.culprits],
        "suspects": [
            {"host": one.host, "rails": [r for r in one.rails if r >= 0], "bad_looks": one.bad}
            for one in plan.found.suspects
        ],
        "suspected_switches": [
            {"switches": list(one.switches), "rail": one.rail} for one in plan.found.switches
        ],
        "candidates": list(plan.candidates),
        "doubts": list(plan.doubts),
        "looks": plan.measured,
        "rule": {
            "well_bad_share": WELL_RATE,
            "sick_bad_share": SICK_RATE,
            "false_accusation": FALSE_ACCUSATION,
            "false_acquittal": FALSE_ACQUITTAL,
            "good_looks_that_acquit": clean_looks(),
            "flapping_missed": round(missed(plan.wish.rounds * plan.wish.looks), 4),
        },
    }


def culprit_fields(culprit: Culprit) -> dict[str, Any]:
    """One culprit."""
    return {
        "kind": culprit.kind,
        "hosts": list(culprit.hosts),
        "rail": culprit.rail,
        "switch": culprit.switch or None,
        "direction": culprit.direction,
        "fails": culprit.fails,
        "said": culprit.said,
        "because": culprit.because,
    }


def _pair(pair: PlannedPair) -> dict[str, Any]:
    return {"a": pair.first, "b": pair.second, "looks": pair.looks, "why": pair.why}
