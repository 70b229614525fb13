"""What probes are asked, how far they are and how they ended: for screens and the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from gputop.probes.protocol.outcome import Outcome
from gputop.probes.protocol.status import ProbeLevel, Status

if TYPE_CHECKING:
    from collections.abc import Hashable

    from gputop.probes.protocol.spec import ProbeSpec
    from gputop.probes.runner.interpreters import InterpreterChoice
    from gputop.topology.model.snapshot import Measurement

NOT_YET = Outcome(Status.WAITING, "", 0.0)


class ProbeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One probe to run, on which GPUs and how."""

    probe: str
    addresses: tuple[str, ...]
    """PCI addresses; empty with `selftest`."""
    level: ProbeLevel = ProbeLevel.NORMAL
    names: tuple[tuple[str, str], ...] = ()
    """(address, label) of each GPU, for messages."""
    kinds: tuple[tuple[str, str], ...] = ()
    """("SRC DST", kind): pairs of the same kind are compared with each other."""
    force: bool = False
    """Measure although a GPU is in use."""
    selftest: bool = False
    """Run on the CPU to test the program itself; the figures say nothing about a GPU."""
    python: str | None = None
    deadline_seconds: float | None = None
    params: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class ProbeRun:
    """One probe of a suite: what it costs, how far it is, and how it ended."""

    spec: ProbeSpec
    request: ProbeRequest
    named: bool = False
    """Whether the user named it."""
    estimate_seconds: float = 0.0
    """Expected time at the level and on the GPUs of this suite."""
    memory_bytes_per_gpu: int = 0
    """Memory that it needs on each GPU; it takes less where less is free."""
    status: Status = Status.WAITING
    done: int = 0
    total: int = 0
    """0 until the probe has said how many steps it takes."""
    what: str = ""
    """What is measured right now."""
    text: str = ""
    """Why it ended as it did, or why it is skipped; one sentence."""
    elapsed_seconds: float | None = None
    """None until it has ended."""
    figures: int = 0
    """How many figures have arrived."""
    notes: tuple[str, ...] = ()
    """Lines of its notes as plain text, in the order in which they came; bounded."""
    outcome: Outcome = NOT_YET
    """The end as its worker put it."""
    choice: InterpreterChoice | None = None
    measurements: tuple[Measurement, ...] = ()
    """The figures, once it has ended."""
    blind: tuple[str, ...] = ()
    """What the busy check could not see."""
    forcible: bool = False
    """Whether `force` would run it after all."""
    taken_at: float | None = None
    """When it ended, seconds since the epoch."""

    @property
    def name(self) -> str:
        """Its name on the command line: "p2p-concurrent"."""
        return self.spec.name

    @property
    def over(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self.status.over


@dataclass(frozen=True)
class SuiteState:
    """The state of a suite; its steps are in the order in which they run."""

    steps: tuple[ProbeRun, ...]
    level: ProbeLevel = ProbeLevel.NORMAL
    running: bool = True
    started_at: float = 0.0
    """Seconds since the epoch."""
    estimate_seconds: float = 0.0
    """Expected time for all steps, with the start of torch."""
    text: str = ""
    """The Python in use while it runs; at the end one sentence on the result."""
    elapsed_seconds: float | None = None
    """None until the suite is over."""
    forcible: bool = False
    """Whether the same request would run with `force`."""
    simulated: bool = False
    """Whether it belongs to a demo, on which nothing is measured."""
    broken: bool = False
    """Whether a mistake of ours ended it."""
    measured: frozenset[Hashable] = frozenset()
    """Keys of its figures, once it has ended."""

    @property
    def status(self) -> Status:
        """The result of the suite; RUNNING until then."""
        found = [step.status for step in self.steps]
        if self.running:
            return Status.RUNNING
        if self.broken:
            return Status.FAILED
        for status in (Status.CANCELLED, Status.FINISHED):
            if status in found:
                return status
        return next((status for status in found if status != Status.SKIPPED), Status.SKIPPED)

    @property
    def name(self) -> str:
        """The probe, or "probes" for several."""
        return self.steps[0].name if len(self.steps) == 1 else "probes"

    @property
    def current(self) -> ProbeRun | None:
        """The step that runs."""
        return next((step for step in self.steps if step.status == Status.RUNNING), None)

    def step(self, name: str) -> ProbeRun | None:
        """The step of that name."""
        return next((step for step in self.steps if step.name == name), None)

    @property
    def left_seconds(self) -> float:
        """Expected time for the steps that have not ended."""
        left = 0.0
        for step in self.steps:
            if not step.over:
                share = step.done / step.total if step.total else 0.0
                left += step.estimate_seconds * (1.0 - min(1.0, share))
        return left
