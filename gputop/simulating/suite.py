"""A suite on a demo: the plan, the checks and the worker, none of which touches a GPU."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import msgspec

from gputop.measuring.busy import BusyAnswer
from gputop.measuring.planning import Plan, Planned
from gputop.measuring.running import Event, MakeSuite, Suite
from gputop.probes import catalog
from gputop.probes.protocol.messages import WorkerRequest
from gputop.probes.runner.interpreters import Interpreter, InterpreterChoice
from gputop.simulating import NAMES
from gputop.simulating.node import SimulatedNode
from gputop.simulating.session import SimulatedSession
from gputop.topology.model.page import SIMULATED
from gputop.topology.model.snapshot import NodeSnapshot

FASTER = 6.0
"""How many times faster than a real probe a simulated one goes by."""
_LEAST_SECONDS = 1.0
NOT_SIMULATED = "Nothing in gputop says what it should find, so it is not simulated."


def simulated_plan(plan: Plan) -> Plan:
    """The plan with the time that the simulation takes, without probes that have no reference."""
    return msgspec.structs.replace(
        plan, steps=tuple(_planned(step) for step in plan.steps), simulated=True
    )


def _planned(planned: Planned) -> Planned:
    step = planned.step
    if step.over:
        return planned
    if step.name not in NAMES:
        state = "refused" if planned.named else "skipped"
        step = replace(step, state=state, text=NOT_SIMULATED)
    else:
        request = planned.request
        seconds = _seconds(step.name, len(request.addresses), request.level)
        step = replace(step, estimate_seconds=seconds, memory_bytes_per_gpu=0)
    return msgspec.structs.replace(planned, step=step)


def _seconds(probe: str, gpus: int, level: str) -> float:
    spec = catalog.load(probe).SPEC
    whole: float = spec.measuring_seconds(gpus, level)
    return max(_LEAST_SECONDS, whole / FASTER)


def simulated_suite(snapshot: NodeSnapshot, *, at_once: bool = False) -> MakeSuite:
    """A function that makes the suite of a simulated plan; `at_once`: without the time it takes."""

    def seconds(request: WorkerRequest) -> float:
        level = str(request.params["level"])
        return 0.0 if at_once else _seconds(request.probe, len(request.devices), level)

    def make(plan: Plan, on_event: Callable[[Event], None], cancel: threading.Event) -> Suite:
        session = SimulatedSession(SimulatedNode(snapshot), seconds)
        return Suite(plan, on_event, cancel, session=session, guard=_Free(), find=_find, own=_find)

    return make


class _Free:
    """Nobody uses a GPU of a demo."""

    def begin(self, *, patient: bool = True) -> Callable[[], BusyAnswer]:
        """The verdict before the suite."""
        return BusyAnswer

    def again(self) -> BusyAnswer:
        """The verdict between two probes."""
        return BusyAnswer()


def _find(explicit: str | None = None, cancel: threading.Event | None = None) -> InterpreterChoice:
    return InterpreterChoice(Interpreter(SIMULATED, "no GPU is measured"), ())
