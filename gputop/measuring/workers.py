"""The workers of a suite: for what the driver alone can measure, for NCCL alone, and with torch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from gputop.measuring.planning import Plan
from gputop.measuring.state import ProbeRun
from gputop.probes.protocol.outcome import Outcome
from gputop.probes.protocol.status import Status
from gputop.probes.runner.interpreters import (
    InterpreterChoice,
    find_interpreter,
    own_interpreter,
)
from gputop.probes.runner.nccl_library import TORCH, NcclLibrary, library_for

Find = Callable[..., InterpreterChoice]
_BY_DRIVER, _BY_LIBRARY, _BY_TORCH = "driver", "library", "torch"
_NO_LIBRARY = "No library of NCCL or RCCL was found either; --nccl-lib names one."


@dataclass(frozen=True)
class _Found:
    """What was found on this machine."""

    choice: InterpreterChoice
    library: NcclLibrary | None


def _named(path: str) -> NcclLibrary:
    return NcclLibrary(path, "--nccl-lib", named=True)


class Workers:
    """Finds their Pythons and starts them when they are needed; for the thread of one suite."""

    def __init__(
        self,
        make_session: Callable[..., Any],
        plan: Plan,
        cancel: threading.Event,
        find: Find | None = None,
        own: Callable[..., InterpreterChoice] | None = None,
    ) -> None:
        self._make_session = make_session
        self._plan = plan
        self._cancel = cancel
        self._find = find or find_interpreter
        self._own = own or own_interpreter
        self._found: Future[_Found] = Future()
        self._sessions: dict[str, Any] = {}
        named = plan.nccl_lib
        self._named = None if named in (None, TORCH) else _named(str(named))
        self._alone = not (plan.simulated or plan.selftest or named == TORCH)
        """Whether a library without torch may be loaded."""

    def look(self) -> None:
        """Begin to look for a Python with torch; it takes a tenth of a second and more."""
        specs = [planned.spec for planned in self._plan.runs]
        named = self._alone and self._named is not None
        if any(spec.needs_torch and not (named and spec.by_library) for spec in specs):
            threading.Thread(target=self._look, name="interpreters", daemon=True).start()

    def begin(self) -> None:
        """Start the worker that needs no torch; it takes nothing of a GPU before its request."""
        first = next((run for run in self._plan.runs if not run.spec.needs_torch), None)
        if first is None or self._plan.simulated or self._plan.selftest:
            return
        python = self._own().chosen
        if python is not None and not self._cancel.is_set():
            self.session(first, python.path).begin()

    def _look(self) -> None:
        try:
            choice = self._find(self._plan.python, self._cancel)
            library = library_for(choice) if self._alone and not self._named else None
            self._found.set_result(_Found(choice, library))
        except Exception as error:  # noqa: BLE001 - raised where the answer is needed
            self._found.set_exception(error)

    def library_of(self, planned: ProbeRun) -> NcclLibrary | None:
        """The library that a probe loads without torch; waits until it is looked for."""
        spec = planned.spec
        if not (spec.needs_torch and spec.by_library and self._alone):
            return None
        return self._named or self._found.result().library

    def can_turn_to_torch(self, planned: ProbeRun) -> bool:
        """Measure with torch from now on what a library alone cannot; False if that is no help."""
        if self.takes_torch(planned) or self._named:
            return False
        python = self._found.result().choice.chosen
        if python is None or not python.has_gpu_build:
            return False
        self._alone = False
        return True

    def advised(self, planned: ProbeRun, outcome: Outcome) -> Outcome:
        """The outcome, which says too that no library was found, where no torch is for GPUs."""
        if not (planned.spec.by_library and self._alone and self.takes_torch(planned)):
            return outcome
        python = self._found.result().choice.chosen
        for_gpus = python is not None and python.has_gpu_build
        if for_gpus or outcome.status not in (Status.NO_TORCH, Status.REFUSED):
            return outcome
        return replace(outcome, message=f"{outcome.message} {_NO_LIBRARY}")

    def takes_torch(self, planned: ProbeRun) -> bool:
        """Whether a probe measures with torch."""
        return self._kind(planned) == _BY_TORCH

    def _kind(self, planned: ProbeRun) -> str:
        if not planned.spec.needs_torch:
            return _BY_DRIVER
        return _BY_TORCH if self.library_of(planned) is None else _BY_LIBRARY

    def is_last(self, planned: ProbeRun) -> bool:
        """Whether no later probe has the same worker; of what needs no torch it says so at once."""
        runs = self._plan.runs
        later = runs[runs.index(planned) + 1 :]
        torch = planned.spec.needs_torch
        alike = [other for other in later if other.spec.needs_torch == torch]
        return not any(not torch or self._kind(other) == self._kind(planned) for other in alike)

    def choice(self, planned: ProbeRun) -> InterpreterChoice:
        """The Python of a probe; waits for the one with torch."""
        if self.takes_torch(planned):
            return self._found.result().choice
        library = self.library_of(planned)
        if library is None:
            return self._own()
        return self._own(f"without torch, with {library.path} ({library.how_found})")

    def session(self, planned: ProbeRun, python: str) -> Any:
        """The worker of a probe, which may not have started yet."""
        kind = self._kind(planned)
        if kind not in self._sessions:
            self._sessions[kind] = self._make_session(python, self._cancel, **self._more(kind))
        return self._sessions[kind]

    def _more(self, kind: str) -> dict[str, object]:
        """How a worker starts; the driver is not asked where nothing real is measured."""
        if kind == _BY_DRIVER:
            return {"driver": not (self._plan.simulated or self._plan.selftest)}
        if kind == _BY_LIBRARY:
            return {"children": True}
        several = (run for run in self._plan.runs if len(run.request.addresses) != 1)
        parts = (part for run in several for part in run.spec.imports)
        return {"torch": True, "imports": tuple(dict.fromkeys(parts))}

    def holds_gpus(self, planned: ProbeRun) -> bool:
        """Whether the process that will run a probe has had the GPUs all the time.

        With torch, and with NCCL alone, every probe is a process of its own.
        """
        session = self._sessions.get(_BY_DRIVER)
        return not planned.spec.needs_torch and session is not None and session.alive

    def warm(self) -> None:
        """Start the worker that imports torch, as soon as its Python is known."""
        if (
            _BY_TORCH in self._sessions
            or not self._found.done()
            or self._found.exception() is not None
            or not any(self.takes_torch(planned) for planned in self._plan.runs)
        ):
            return
        choice = self._found.result().choice
        if choice.chosen is not None and not self._cancel.is_set():
            more = self._more(_BY_TORCH)
            session = self._make_session(choice.chosen.path, self._cancel, **more)
            self._sessions[_BY_TORCH] = session
            session.begin()

    def close(self) -> None:
        """End all."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()
