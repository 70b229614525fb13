"""What tests let the made-up worker of the probes do, and the clock that brings its deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import msgspec
import pytest

from gputop.measuring.planning import Plan
from gputop.probes.protocol.messages import ASKING, IMPORTING, Message
from gputop.probes.runner import client
from tests.support.places import TESTS

WORKER = TESTS / "fakes" / "probe_worker.py"
Step = Sequence[Any]
Script = Sequence[Step]


def progress(done: int, total: int, what: str) -> Step:
    return "say", {"kind": "progress", "done": done, "total": total, "what": what}


HANGS: Script = (progress(3, 12, "GPU a to GPU b"), ("hang",))
IMPORTS_FOR_EVER: Script = (progress(0, 1, IMPORTING), ("hang",))
DRIVER_HANGS: Script = (progress(0, 1, IMPORTING), progress(0, 1, ASKING), ("hang",))
HANGS_IN_C: Script = (("start children",), ("hang in C",))
FIRST_FIGURE: Script = (("name itself",), ("measure",))
"""How a probe begins that measures something before it goes wrong."""


def playing(plan: Plan, **scripts: Script) -> Plan:
    """The plan with a script for the worker of these probes."""
    steps = []
    for planned in plan.steps:
        script = scripts.get(planned.name)
        if script is not None:
            request = msgspec.structs.replace(planned.request, params=(("script", script),))
            planned = replace(planned, request=request)
        steps.append(planned)
    return msgspec.structs.replace(plan, steps=tuple(steps))


class SkippingClock:
    """The clock of a module, by default the conversation with a worker; the test sets it forward.

    So a deadline passes after a certain message, however slow the machine is.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: ModuleType = client) -> None:
        self._ahead = 0.0
        monkeypatch.setattr(module, "time", self)

    def monotonic(self) -> float:
        return time.monotonic() + self._ahead

    def skip(self, seconds: float) -> None:
        self._ahead += seconds

    def skipping(self, seconds: dict[str, float]) -> Callable[[Message], None]:
        """A listener that sets the clock forward when the worker says that it does this."""

        def hear(message: Message) -> None:
            self.skip(seconds.get(getattr(message, "what", ""), 0.0))

        return hear
