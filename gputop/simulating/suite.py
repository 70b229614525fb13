"""A suite on a demo: the plan, the checks and the worker, none of which touches a GPU."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import msgspec

from gputop.measuring.busy import BusyAnswer
from gputop.measuring.planning import Plan
from gputop.measuring.running import Event, MakeSuite, Suite
from gputop.measuring.state import ProbeRun
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
from gputop.probes.protocol.status import DeviceKind, Status
from gputop.probes.runner.interpreters import Interpreter, InterpreterChoice
from gputop.simulating.node import SimulatedNode
from gputop.simulating.probes import NAMES, steps_of
from gputop.topology.model.page import SIMULATED
from gputop.topology.model.snapshot import NodeSnapshot

FASTER = 6.0
"""How many times faster than a real probe a simulated one goes by."""
_LEAST_SECONDS = 1.0
NOTE = (
    "Simulated: no GPU was measured. The figures are what this hardware should give, lowered by "
    "the faults of the demo, with some noise; what has no reference is left out."
)
NOT_SIMULATED = "Not simulated on a demo: gputop has no figures for it to expect."


def simulated_plan(plan: Plan) -> Plan:
    """The plan with the time that the simulation takes, without probes that have no reference."""
    return msgspec.structs.replace(
        plan, steps=tuple(_planned(run) for run in plan.steps), simulated=True
    )


def _planned(run: ProbeRun) -> ProbeRun:
    if run.over:
        return run
    if run.name not in NAMES:
        status = Status.REFUSED if run.named else Status.SKIPPED
        return replace(run, status=status, text=NOT_SIMULATED)
    seconds = simulated_seconds(run.name, len(run.request.addresses), run.request.level)
    return replace(run, estimate_seconds=seconds, memory_bytes_per_gpu=0)


def simulated_seconds(probe: str, gpus: int, level: str) -> float:
    """How long the simulation of a probe takes."""
    spec = catalog.load(probe).SPEC
    whole: float = spec.measuring_seconds(gpus, level)
    return max(_LEAST_SECONDS, whole / FASTER)


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
            device_kind=DeviceKind.SIMULATED,
            devices=devices,
        )

        def outcome(status: Status, text: str) -> Outcome:
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
                return outcome(Status.CANCELLED, f"Cancelled during: {step.what} ({SIMULATED}).")
            for figure in step.figures:
                figures.append(figure)
                on_event(figure)
        on_event(Progress(len(steps), len(steps), SIMULATED))
        on_event(Done())
        if not figures:
            return outcome(Status.FAILED, "Nothing says what this hardware should give here.")
        return outcome(Status.FINISHED, f"Simulated: {len(figures)} figures, no GPU was measured.")


def simulated_suite(snapshot: NodeSnapshot, *, at_once: bool = False) -> MakeSuite:
    """A function that makes the suite of a simulated plan; `at_once`: without the time it takes."""

    def seconds(request: WorkerRequest) -> float:
        level = str(request.params["level"])
        return 0.0 if at_once else simulated_seconds(request.probe, len(request.devices), level)

    def make(plan: Plan, on_event: Callable[[Event], None], cancel: threading.Event) -> Suite:
        session = SimulatedSession(SimulatedNode(snapshot), seconds)
        return Suite(plan, on_event, cancel, session=session, guard=_Free(), find=_find, own=_find)

    return make


class _Free:
    """Nobody uses a GPU of a demo."""

    def begin(self, *, patient: bool = True) -> Callable[[], BusyAnswer]:
        """The verdict before the suite."""
        return BusyAnswer

    def recheck(self) -> BusyAnswer:
        """The verdict between two probes."""
        return BusyAnswer()


def _find(explicit: str | None = None, cancel: threading.Event | None = None) -> InterpreterChoice:
    return InterpreterChoice(Interpreter(SIMULATED, "no GPU is measured"), ())
