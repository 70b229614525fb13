"""The answer of a check, with its exit code."""

from __future__ import annotations

import msgspec

from gputop.checking.measure import Measured
from gputop.exits import INTERRUPTED
from gputop.topology.diagnosis.engine import Diagnosis
from gputop.topology.fleet.section import FleetSection
from gputop.topology.model.snapshot import NodeSnapshot


class CheckAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a check."""

    diagnosis: Diagnosis
    node: NodeSnapshot
    mode: str
    """"quick", "default" or "full": the level that was carried out, not the requested one."""
    gpus: tuple[str, ...]
    """PCI addresses of the examined GPUs."""
    measured: Measured = Measured()
    expect: str = ""
    unconfirmed: tuple[str, ...] = ()
    """What no source confirms about that reference node, in words."""
    policy: tuple[str, ...] = ()
    """Policy files that were read."""
    assumptions: tuple[str, ...] = ()
    elapsed_seconds: float = 0.0
    fleet: FleetSection | None = None
    """What a fleet compares; None where nobody asked for it."""

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        return INTERRUPTED if self.measured.interrupted else self.diagnosis.verdict.exit_code

    @property
    def probes(self) -> tuple[str, ...]:
        """Probes that returned figures."""
        return tuple(run.probe for run in self.measured.runs if run.figures)
