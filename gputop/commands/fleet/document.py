"""A fleet as one JSON document, schema gputop.fleet/1."""

from __future__ import annotations

from typing import Any

import msgspec

from gputop import __version__
from gputop.topology.fleet.draining import drains
from gputop.topology.fleet.finding import FleetFinding
from gputop.topology.fleet.fleet import Fleet
from gputop.topology.fleet.hosts import fold
from gputop.topology.fleet.outliers import LEAST_NODES, LEAST_SHARE, LIMIT_Z
from gputop.topology.fleet.planning.document import culprit_fields
from gputop.topology.fleet.since import FleetChange

SCHEMA = "gputop.fleet/1"


def document(fleet: Fleet, exit_code: int, change: FleetChange | None = None) -> dict[str, Any]:
    """The fleet, its findings, and both tables: finding -> hosts and host -> findings."""
    return {
        "schema": SCHEMA,
        "gputop": __version__,
        "source": [fleet.folder],
        "assumptions": _assumptions(fleet),
        "verdict": fleet.verdict,
        "exit_code": exit_code,
        "counts": {"nodes": len(fleet.hosts), **fleet.counts},
        "expected": fold(fleet.expected) if fleet.expected else None,
        "findings": [_finding(item) for item in fleet.findings],
        "hosts": {
            host: {
                "state": state,
                "file": None if (report := fleet.nodes.get(host)) is None else report.path,
                "findings": list(dict.fromkeys(item.id for item in fleet.by_host.get(host, ()))),
            }
            for host, state in fleet.states.items()
        },
        "groups": [
            {**msgspec.to_builtins(group), "hosts": group.folded, "count": len(group.hosts)}
            for group in fleet.groups
        ],
        "figures": [
            {
                "figure": strip.figure.key,
                "kind": strip.figure.kind,
                "unit": strip.figure.unit,
                "product": strip.product,
                "nodes": len(strip.hosts),
                "median": strip.median,
                "mad": strip.mad,
                "limit": strip.limit,
                "healthy": strip.figure.healthy,
                "low": strip.figure.low,
                "basis": strip.figure.basis,
                "outliers": list(strip.outliers),
            }
            for strip in fleet.strips
        ],
        "drain": [
            {**msgspec.to_builtins(drain), "hosts": fold(drain.hosts)}
            for drain in drains(fleet, slight=True)
        ],
        "pairs": list(fleet.pairs),
        "links": {
            "looks": fleet.links.looks,
            "unfinished": fleet.links.unfinished,
            "culprits": [culprit_fields(item) for item in fleet.links.found.culprits],
            "suspects": [item.host for item in fleet.links.found.suspects],
            "doubts": list(fleet.links.doubts),
        },
        "change": None if change is None else _change(change),
    }


def _finding(item: FleetFinding) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(item)
    return {**fields, "hosts": item.folded, "count": len(item.hosts)}


def _change(change: FleetChange) -> dict[str, Any]:
    return {
        "worse": msgspec.to_builtins(change.worse),
        "better": msgspec.to_builtins(change.better),
        "other": msgspec.to_builtins(change.other),
        "came": [_finding(item) for item in change.came],
        "gone": [_finding(item) for item in change.gone],
    }


def _assumptions(fleet: Fleet) -> list[str]:
    said = []
    if not fleet.expected:
        said.append("which nodes should be here was not said (--nodes); none is called missing")
    if fleet.strips:
        said.append(
            f"a figure stands out from {LIMIT_Z:g} robust standard deviations and "
            f"{LEAST_SHARE:.0%} below its median, among {LEAST_NODES} nodes or more"
        )
    if any(report.simulated for report in fleet.nodes.values()):
        said.append("some nodes are demos: their figures are simulated")
    return said
