"""All that a check has to say, and the exit code that a script is told."""

from __future__ import annotations

import msgspec

from gputop.checking.measure import Measured
from gputop.exits import ANSWERED, CANNOT_TELL, FAILURES, INTERRUPTED, WARNINGS
from gputop.topology.diagnosis.engine import VERDICTS, Diagnosis
from gputop.topology.model.snapshot import NodeSnapshot

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
