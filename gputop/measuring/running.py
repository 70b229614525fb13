"""Runs the probes of a plan in worker processes, until the last one ends or the user cancels."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Protocol

from gputop.measuring import busy
from gputop.measuring.guard import Guard
from gputop.measuring.planning import SELFTEST_DEVICES, Plan
from gputop.measuring.runs import (
    MOST_NOTES,
    circumstances,
    measurements_of,
    note_lines,
    seconds_of,
    stop_after,
    to_measurement,
    with_names,
    worker_request,
)
from gputop.measuring.state import ProbeRun, SuiteState
from gputop.probes.protocol import messages as protocol
from gputop.probes.protocol.outcome import Outcome
from gputop.probes.protocol.status import Status
from gputop.probes.runner.client import Session
from gputop.probes.runner.interpreters import (
    InterpreterChoice,
    find_interpreter,
    own_interpreter,
)
from gputop.probes.runner.nccl_library import TORCH, NcclLibrary, library_for
from gputop.topology.model.gathered import gathered
from gputop.topology.model.page import SIMULATED
from gputop.topology.model.snapshot import Measurement

Event = InterpreterChoice | SuiteState | Measurement | ProbeRun
"""What a suite reports: the Python of the probes that follow; its state when a step began, moved
on or ended; a figure; a probe that has ended or will not run."""

NOT_BEGUN = "Cancelled before it began."

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


class Guards(Protocol):
    """What a suite asks before it loads a GPU."""

    def begin(self, *, patient: bool = True) -> Callable[[], busy.BusyAnswer]:
        """Start the check before the suite; the returned function waits for the verdict."""

    def recheck(self) -> busy.BusyAnswer:
        """Check whether another process has come meanwhile."""


class Suite:
    """One run of a plan; `run` calls `on_event` in its own thread."""

    def __init__(
        self,
        plan: Plan,
        on_event: Callable[[Event], None],
        cancel: threading.Event,
        *,
        session: Callable[..., Any] = Session,
        guard: Guards | None = None,
        find: Callable[..., InterpreterChoice] | None = None,
        own: Callable[[], InterpreterChoice] | None = None,
    ) -> None:
        self._plan = plan
        self._on_event = on_event
        self._cancel = cancel
        self._workers = Workers(session, plan, cancel, find, own)
        names = self._names = dict(plan.steps[0].request.names) if plan.steps else {}
        watched = () if plan.selftest else plan.addresses
        self._guard: Guards = guard or Guard(watched, names, cancel)
        self._blind: tuple[str, ...] = ()
        self._busy: tuple[str, ...] = ()
        self._choice: InterpreterChoice | None = None
        self._begun = False
        """Whether a probe has run."""
        self._state = replace(plan.state(), started_at=time.time())
        self._started = time.monotonic()

    def run(self) -> SuiteState:
        """Run all steps; the failure of a worker ends its step, and is never an exception."""
        self._on_event(self._state)
        try:
            stop = self._prepare() if self._plan.runs else None
            no_torch: ProbeRun | None = None
            for planned in self._plan.steps:
                if planned.over:
                    self._end(_ended(planned, Outcome(planned.status, planned.text, 0.0)))
                    continue
                lost = no_torch if no_torch and self._workers.takes_torch(planned) else None
                earlier = stop or lost
                run = _ended_like(planned, earlier) if earlier else self._run_step(planned)
                self._end(run)
                if run.status == Status.NO_TORCH and self._workers.takes_torch(planned):
                    no_torch = run  # every other worker with torch would fail alike
                elif self._cancel.is_set():
                    stop = _ended(run, Outcome(Status.CANCELLED, NOT_BEGUN, 0.0))
                elif stop is None and (end := stop_after(run)) is not None:
                    stop = _ended(planned, end)
        finally:
            self._workers.close()
        elapsed = round(time.monotonic() - self._started, 3)
        self._change(
            running=False,
            elapsed_seconds=elapsed,
            text=summary(self._state.steps, elapsed, simulated=self._plan.simulated),
            forcible=any(run.forcible for run in self._state.steps),
        )
        return self._state

    def _prepare(self) -> ProbeRun | None:
        """Check the GPUs, begin to look for torch; the end of all steps if GPUs are in use."""
        verdict_of = self._guard.begin(patient=not self._plan.force)
        self._workers.look()
        self._workers.begin()
        verdict = verdict_of()
        self._blind, self._busy = verdict.blind, verdict.busy
        elapsed = round(time.monotonic() - self._started, 3)
        first = self._plan.runs[0]
        if self._cancel.is_set():
            return _ended(first, Outcome(Status.CANCELLED, NOT_BEGUN, elapsed))
        if verdict.busy and not self._plan.force:
            outcome = Outcome(Status.REFUSED, busy.refusal(verdict), elapsed)
            return _ended(first, outcome, blind=verdict.blind, forcible=True)
        return None

    def _choose(self, planned: ProbeRun) -> ProbeRun | None:
        """Choose the Python of a probe; its result if there is none."""
        before = self._choice
        started = time.monotonic()
        choice = self._choice = self._workers.choice(planned)
        if choice.chosen is None:
            elapsed = round(time.monotonic() - started, 3)
            outcome = Outcome(Status.NO_TORCH, " ".join(choice.sentences()), elapsed)
            return _ended(planned, self._workers.advised(planned, outcome), choice=choice)
        if before is None or before.chosen != choice.chosen:
            self._on_event(choice)
            self._change(text=SIMULATED if self._plan.simulated else choice.sentences()[0])
        return None

    def _run_step(self, planned: ProbeRun) -> ProbeRun:
        """Run one probe, in the shared worker or in its own."""
        missing = self._choose(planned)
        if missing is not None:
            return missing
        assert self._choice is not None
        assert self._choice.chosen is not None
        self._step(planned, status=Status.RUNNING)
        refused = self._strangers(planned)
        if refused is not None:
            return refused
        request = planned.request
        seconds = seconds_of(request, planned.spec, len(request.addresses) or SELFTEST_DEVICES)
        message = worker_request(request, seconds, self._workers.library_of(planned))
        listener = _Listener(self, planned)
        session = self._workers.session(planned, self._choice.chosen.path)
        outcome = session.run(message, listener, seconds, last=self._workers.is_last(planned))
        if outcome.status == Status.NO_TORCH and self._workers.can_turn_to_torch(planned):
            return self._run_step(planned)
        outcome = self._workers.advised(planned, _fair(outcome, planned))
        return _ended(
            planned,
            outcome,
            choice=self._choice,
            measurements=measurements_of(request, outcome, self._busy),
            blind=self._blind,
            taken_at=time.time(),
        )

    def _strangers(self, planned: ProbeRun) -> ProbeRun | None:
        """Before each process on the GPUs but the first, look for those of others there."""
        first, self._begun = not self._begun, True
        if first or self._plan.force or self._workers.holds_gpus(planned):
            return None
        verdict = self._guard.recheck()
        if not verdict.busy:
            return None
        outcome = Outcome(Status.REFUSED, busy.refusal(verdict), 0.0)
        return _ended(planned, outcome, forcible=True)

    def _end(self, run: ProbeRun) -> None:
        """Put the end of a probe into the state, which knows how far it came."""
        before = self._state.step(run.name) or run
        now = replace(
            run,
            text=with_names(run.text, self._names),
            done=before.total if run.status == Status.FINISHED else before.done,
            total=before.total,
            what=before.what,
            figures=before.figures,
            notes=before.notes,
        )
        self._replace(now)
        self._on_event(now)

    def _step(self, planned: ProbeRun, **fields: Any) -> None:
        self._replace(replace(self._state.step(planned.name) or planned, **fields))

    def _replace(self, run: ProbeRun) -> None:
        steps = self._state.steps
        self._change(steps=tuple(run if step.name == run.name else step for step in steps))

    def _change(self, **fields: Any) -> None:
        self._state = replace(self._state, **fields)
        self._on_event(self._state)

    def on_worker_message(
        self, planned: ProbeRun, message: protocol.Message, listener: _Listener
    ) -> None:
        """Handle one message of the running probe."""
        if not self._plan.simulated:
            self._workers.warm()
        if isinstance(message, protocol.Progress):
            what = with_names(message.what, self._names)
            self._step(planned, done=message.done, total=message.total, what=what)
        elif isinstance(message, protocol.MeasuredValue):
            listener.figures += 1
            self._step(planned, figures=listener.figures)
            request = planned.request
            more = circumstances(request, message, self._busy)
            self._on_event(to_measurement(message, request.probe, listener.hello, more))
        elif isinstance(message, protocol.Note) and len(listener.notes) < MOST_NOTES:
            listener.notes.append(message)
            self._step(planned, notes=note_lines(listener.notes, self._names))


MakeSuite = Callable[[Plan, Callable[[Event], None], threading.Event], Suite]
"""Makes the suite of a plan: a real one, or that of a demo."""


class _Listener:
    """Collects the messages of one probe."""

    def __init__(self, suite: Suite, planned: ProbeRun) -> None:
        self._suite = suite
        self._planned = planned
        self.hello: protocol.Hello | None = None
        self.figures = 0
        self.notes: list[protocol.Note] = []

    def __call__(self, message: protocol.Message) -> None:
        if isinstance(message, protocol.Hello):
            self.hello = message
        self._suite.on_worker_message(self._planned, message, self)


def _ended(run: ProbeRun, outcome: Outcome, **more: Any) -> ProbeRun:
    return replace(
        run,
        outcome=outcome,
        status=Status(outcome.status),
        text=outcome.message,
        elapsed_seconds=outcome.elapsed_seconds,
        **more,
    )


def _ended_like(run: ProbeRun, other: ProbeRun) -> ProbeRun:
    """End a run for the reason for which another one ended."""
    more = {"choice": other.choice, "blind": other.blind, "forcible": other.forcible}
    return _ended(run, other.outcome, **more)


def _fair(outcome: Outcome, planned: ProbeRun) -> Outcome:
    """A timeout counts as failed, not as a finding, if the user allowed less than the estimate."""
    given, usual = planned.request.deadline_seconds, planned.estimate_seconds
    if outcome.status != Status.TIMED_OUT or given is None or given >= usual:
        return outcome
    text = f"No end after {given:.0f} s, as long as was allowed; about {usual:.0f} s are usual."
    kept = tuple(figure for figure in outcome.measurements if figure.verdict != Status.TIMED_OUT)
    return replace(outcome, status=Status.FAILED, message=text, measurements=kept)


def summary(steps: tuple[ProbeRun, ...], elapsed_seconds: float, *, simulated: bool = False) -> str:
    """Summarise a suite in one sentence."""
    if len(steps) == 1:
        return steps[0].text
    by_state = gathered((step.status, step.name) for step in steps)
    finished = len(by_state.pop(Status.FINISHED, ()))
    # How long a simulation took says nothing of what a run would take.
    done = SIMULATED if simulated else f"finished in {elapsed_seconds:.0f} s"
    parts = [f"{finished} of {len(steps)} probes {done}"]
    parts += [f"{state}: {', '.join(names)}" for state, names in by_state.items()]
    return "; ".join(parts) + "."
