"""The answer of `gputop check` as JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from gputop import __version__
from gputop.checking.answer import CheckAnswer
from gputop.topology.model.finding import Finding

SCHEMA = "gputop.check/1"
LEFT_OUT = ("cause", "look", "sureness", "count", "cost", "brief")
"""Fields of a finding that rules do not fill, and what title and consequence say in words."""


def document(answer: CheckAnswer) -> dict[str, Any]:
    """The answer as one JSON object, schema gputop.check/1."""
    diagnosis = answer.diagnosis
    host = answer.node.machine.host
    return {
        "schema": SCHEMA,
        "gputop": __version__,
        "source": list(answer.node.source),
        "assumptions": list(answer.assumptions),
        "node": None if host is None else host.hostname,
        "taken_at": answer.node.taken_at,
        "mode": answer.mode,
        "expect": answer.expect or None,
        "expect_unconfirmed": list(answer.unconfirmed),
        "policy": list(answer.policy),
        "gpus": list(answer.gpus),
        "measured": [msgspec.to_builtins(run) for run in answer.measured.runs],
        "verdict": diagnosis.verdict,
        "exit_code": answer.exit_code,
        "findings": [_finding(finding) for finding in diagnosis.findings],
        "silenced": [
            {**_finding(silenced.finding), "reason": silenced.reason}
            for silenced in diagnosis.silenced
        ],
        "examined": list(diagnosis.examined),
        "not_examined": [*diagnosis.unexamined, *diagnosis.elsewhere],
        "counts": {
            "examined": len(diagnosis.examined),
            "not_examined": len(diagnosis.unexamined),
            "of_other_vendors": len(diagnosis.elsewhere),
        },
        "evidence_missing": [msgspec.to_builtins(lack) for lack in diagnosis.lacking],
        "elapsed_seconds": round(answer.elapsed_seconds, 3),
        "fleet": msgspec.to_builtins(answer.fleet),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(finding)
    return {name: value for name, value in fields.items() if name not in LEFT_OUT}
