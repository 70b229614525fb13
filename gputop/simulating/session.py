"""The worker of a simulated suite: it says what a real one would say, and loads nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from importlib import import_module

from gputop.probes import catalog
from gputop.probes.protocol.messages import (
    Done,
    Hello,
    MeasuredValue,
    Message,
    Note,
    Progress,
    WorkerRequest,
)
from gputop.probes.protocol.outcome import Outcome
from gputop.simulating.node import SimulatedNode
from gputop.simulating.step import SimulatedStep
from gputop.topology.model.page import SIMULATED

NOTE = (
    "Simulated: no GPU was measured. The figures are what this hardware should give, lowered by "
    "the faults of the demo, with some noise; what has no reference is left out."
)


class SimulatedSession:
    """Answers one request after the other, with the messages of a worker."""

    def __init__(self, node: SimulatedNode, seconds: Callable[[WorkerRequest], float]) -> None:
        self._node = node
        self._seconds = seconds
        self._cancel = threading.Event()

    def __call__(
        self, interpreter: str, cancel: threading.Event, **start: object
    ) -> SimulatedSession:
        """Be started, as a suite starts its workers; nothing that `start` asks for is needed."""
        self._cancel = cancel
        return self

    def __enter__(self) -> SimulatedSession:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """Whether a request can be made at once."""
        return True

    def begin(self) -> None:
        """Start; there is nothing to start."""

    def close(self) -> None:
        """End; there is nothing to end."""

    def run(
        self,
        request: WorkerRequest,
        on_event: Callable[[Message], None],
        deadline_seconds: float,
        *,
        last: bool = False,
    ) -> Outcome:
        """Play one probe; `cancel` ends it before its next step."""
        started = time.monotonic()
        figures: list[MeasuredValue] = []
        note = Note(SIMULATED, NOTE)
        devices = tuple(self._node.device(key, n) for n, key in enumerate(request.devices))
        hello = Hello(
            probe=request.probe,
            method=catalog.load(request.probe).SPEC.method,
            python=SIMULATED,
            torch=SIMULATED,
            device_kind=SIMULATED,
            devices=devices,
        )

        def outcome(status: str, text: str) -> Outcome:
            seconds = round(time.monotonic() - started, 3)
            return Outcome(status, text, seconds, hello, tuple(figures), (note,))

        on_event(hello)
        on_event(note)
        # All of them first, because a progress says how many there are.
        steps = steps_of(self._node, request)
        pause = self._seconds(request) / max(len(steps), 1)
        for done, step in enumerate(steps):
            on_event(Progress(done, len(steps), f"{step.what} ({SIMULATED})"))
            if self._cancel.wait(pause) if pause > 0 else self._cancel.is_set():
                return outcome("cancelled", f"Cancelled during: {step.what} ({SIMULATED}).")
            for figure in step.figures:
                figures.append(figure)
                on_event(figure)
        on_event(Progress(len(steps), len(steps), SIMULATED))
        on_event(Done())
        if not figures:
            return outcome("failed", "Nothing says what this hardware should give here.")
        return outcome("finished", f"Simulated: {len(figures)} figures, no GPU was measured.")


def steps_of(node: SimulatedNode, request: WorkerRequest) -> tuple[SimulatedStep, ...]:
    """The steps of one probe on these devices."""
    module = import_module(f"{__package__}.{request.probe.replace('-', '_')}")
    devices = [node.device(key, number) for number, key in enumerate(request.devices)]
    return tuple(module.steps(node, devices, request.params))
