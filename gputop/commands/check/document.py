"""The answer of `gputop check` as JSON, and as an exit code."""

from __future__ import annotations

from typing import Any

import msgspec

from gputop import __version__
from gputop.checking.measure import Measured
from gputop.exits import ANSWERED, CANNOT_TELL, FAILURES, INTERRUPTED, WARNINGS
from gputop.topology.diagnosis.engine import VERDICTS, Diagnosis
from gputop.topology.model.snapshot import NodeSnapshot

SCHEMA = "gputop.check/1"
EXIT_CODES = dict(zip(VERDICTS, (ANSWERED, WARNINGS, FAILURES, CANNOT_TELL), strict=True))


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """All that a check has to say."""

    diagnosis: Diagnosis
    node: NodeSnapshot
    mode: str
    """"quick", "default" or "full": what was done, not what was asked."""
    gpus: tuple[str, ...]
    """PCI addresses that were examined."""
    measured: Measured = Measured()
    expect: str = ""
    policy: tuple[str, ...] = ()
    """Files of site policy that were read."""
    assumptions: tuple[str, ...] = ()
    elapsed_seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """What a script is told."""
        return INTERRUPTED if self.measured.interrupted else EXIT_CODES[self.diagnosis.verdict]

    @property
    def probes(self) -> tuple[str, ...]:
        """Probes that gave figures."""
        return tuple(run.probe for run in self.measured.runs if run.figures)


def document(answer: Answer) -> dict[str, Any]:
    """One JSON object, schema gputop.check/1."""
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
        "policy": list(answer.policy),
        "gpus": list(answer.gpus),
        "measured": [msgspec.to_builtins(run) for run in answer.measured.runs],
        "verdict": diagnosis.verdict,
        "exit_code": answer.exit_code,
        "findings": [msgspec.to_builtins(one) for one in diagnosis.findings],
        "silenced": [
            {**msgspec.to_builtins(one.finding), "reason": one.reason} for one in diagnosis.silenced
        ],
        "examined": list(diagnosis.examined),
        "not_examined": [*diagnosis.unexamined, *diagnosis.elsewhere],
        "elapsed_seconds": round(answer.elapsed_seconds, 3),
    }
