"""Runs the probes of a plan in worker processes, until the last one ends or the user cancels."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from gputop.measuring import busy
from gputop.measuring.guard import Guard
from gputop.measuring.planning import SELFTEST_DEVICES, Plan, Planned
from gputop.measuring.runs import (
    MOST_NOTES,
    ProbeResult,
    circumstances,
    result_of,
    said,
    seconds_of,
    stop_after,
    to_measurement,
    with_names,
    worker_request,
)
from gputop.measuring.state import ProbeStep, SuiteState
from gputop.measuring.workers import Workers
from gputop.probes.protocol import messages as protocol
from gputop.probes.protocol.outcome import Outcome
from gputop.probes.runner.client import Session
from gputop.probes.runner.interpreters import InterpreterChoice
from gputop.topology.model.page import SIMULATED
from gputop.topology.model.snapshot import Measurement


@dataclass(frozen=True)
class Began:
    """The GPUs are free and a Python was found; the probes that it runs follow."""

    choice: InterpreterChoice


@dataclass(frozen=True)
class Changed:
    """A step began, moved on or ended."""

    state: SuiteState


@dataclass(frozen=True)
class Figure:
    """A probe reported one figure."""

    measurement: Measurement


@dataclass(frozen=True)
class Ended:
    """A probe has ended or will not run."""

    planned: Planned
    result: ProbeResult


Event = Began | Changed | Figure | Ended


@dataclass(frozen=True)
class SuiteResult:
    """The result of a suite."""

    state: SuiteState
    ends: tuple[Ended, ...]
    """One for each step, in order."""


class Guards(Protocol):
    """What a suite asks before it loads a GPU."""

    def begin(self, *, patient: bool = True) -> Callable[[], busy.BusyAnswer]:
        """Start the check before the suite; the returned function waits for the verdict."""

    def again(self) -> busy.BusyAnswer:
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
        self._ends: list[Ended] = []
        self._blind: tuple[str, ...] = ()
        self._busy: tuple[str, ...] = ()
        self._choice: InterpreterChoice | None = None
        self._begun = False
        """Whether a probe has run."""
        self._state = replace(plan.state(), started_at=time.time())
        self._started = time.monotonic()

    def run(self) -> SuiteResult:
        """Run all steps; the failure of a worker is an `Ended`, never an exception."""
        self._on_event(Changed(self._state))
        try:
            stop = self._prepare() if self._plan.runs else None
            no_torch: ProbeResult | None = None
            for planned in self._plan.steps:
                if planned.step.over:
                    text = planned.step.text
                    self._end(planned, ProbeResult(outcome=Outcome(planned.step.state, text, 0.0)))
                    continue
                lost = no_torch if no_torch and self._workers.takes_torch(planned) else None
                result = stop or lost or self._run_step(planned)
                self._end(planned, result)
                if result.outcome.status == "no-torch" and self._workers.takes_torch(planned):
                    no_torch = result  # every other worker with torch would fail alike
                elif self._cancel.is_set():
                    stop = ProbeResult(
                        outcome=Outcome("cancelled", "Cancelled before it began.", 0.0)
                    )
                else:
                    stop = stop or stop_after(planned.step.name, result.outcome)
        finally:
            self._workers.close()
        elapsed = round(time.monotonic() - self._started, 3)
        self._change(
            running=False,
            elapsed_seconds=elapsed,
            text=summary(self._state.steps, elapsed, simulated=self._plan.simulated),
            forcible=any(end.result.forcible for end in self._ends),
        )
        return SuiteResult(self._state, tuple(self._ends))

    def _prepare(self) -> ProbeResult | None:
        """Check the GPUs, begin to look for torch; the result of all steps if GPUs are in use."""
        verdict_of = self._guard.begin(patient=not self._plan.force)
        self._workers.look()
        self._workers.begin()
        verdict = verdict_of()
        self._blind, self._busy = verdict.blind, verdict.busy
        elapsed = round(time.monotonic() - self._started, 3)
        if self._cancel.is_set():
            return ProbeResult(outcome=Outcome("cancelled", "Cancelled before it began.", elapsed))
        if verdict.busy and not self._plan.force:
            outcome = Outcome("refused", busy.refusal(verdict), elapsed)
            return ProbeResult(outcome=outcome, blind=verdict.blind, forcible=True)
        return None

    def _choose(self, planned: Planned) -> ProbeResult | None:
        """Choose the Python of a probe; its result if there is none."""
        before = self._choice
        started = time.monotonic()
        choice = self._choice = self._workers.choice(planned)
        if choice.chosen is None:
            elapsed = round(time.monotonic() - started, 3)
            outcome = Outcome("no-torch", " ".join(choice.sentences()), elapsed)
            return ProbeResult(outcome=self._workers.advised(planned, outcome), choice=choice)
        if before is None or before.chosen != choice.chosen:
            self._on_event(Began(choice))
            self._change(text=SIMULATED if self._plan.simulated else choice.sentences()[0])
        return None

    def _run_step(self, planned: Planned) -> ProbeResult:
        """Run one probe, in the shared worker or in its own."""
        missing = self._choose(planned)
        if missing is not None:
            return missing
        assert self._choice is not None
        assert self._choice.chosen is not None
        self._step(planned, state="running")
        refused = self._strangers(planned)
        if refused is not None:
            return refused
        request = planned.request
        seconds = seconds_of(request, planned.spec, len(request.addresses) or SELFTEST_DEVICES)
        message = worker_request(request, seconds, self._workers.library_of(planned))
        hear = _Hearing(self, planned)
        session = self._workers.session(planned, self._choice.chosen.path)
        outcome = session.run(message, hear, seconds, last=self._workers.is_last(planned))
        if outcome.status == "no-torch" and self._workers.can_turn_to_torch(planned):
            return self._run_step(planned)
        outcome = self._workers.advised(planned, _fair(outcome, planned))
        return result_of(request, outcome, self._choice, self._blind, self._busy)

    def _strangers(self, planned: Planned) -> ProbeResult | None:
        """Before each process on the GPUs but the first, look for those of others there."""
        first, self._begun = not self._begun, True
        if first or self._plan.force or self._workers.holds_gpus(planned):
            return None
        verdict = self._guard.again()
        if not verdict.busy:
            return None
        return ProbeResult(outcome=Outcome("refused", busy.refusal(verdict), 0.0), forcible=True)

    def _end(self, planned: Planned, result: ProbeResult) -> None:
        outcome = result.outcome
        state = outcome.status
        fields: dict[str, Any] = {"elapsed_seconds": outcome.elapsed_seconds}
        if state == "finished":
            step = self._state.step(planned.step.name)
            fields["done"] = 0 if step is None else step.total
        text = with_names(outcome.message, self._names)
        self._step(planned, state=state, text=text, **fields)
        ended = Ended(planned, result)
        self._ends.append(ended)
        self._on_event(ended)

    def _step(self, planned: Planned, **fields: Any) -> None:
        self._change(
            steps=tuple(
                replace(step, **fields) if step.name == planned.step.name else step
                for step in self._state.steps
            )
        )

    def _change(self, **fields: Any) -> None:
        self._state = replace(self._state, **fields)
        self._on_event(Changed(self._state))

    def heard(self, planned: Planned, message: protocol.Message, hearing: _Hearing) -> None:
        """Handle one message of the running probe."""
        if not self._plan.simulated:
            self._workers.warm()
        if isinstance(message, protocol.Progress):
            what = with_names(message.what, self._names)
            self._step(planned, done=message.done, total=message.total, what=what)
        elif isinstance(message, protocol.MeasuredValue):
            hearing.figures += 1
            self._step(planned, figures=hearing.figures)
            request = planned.request
            more = circumstances(request, message, self._busy)
            self._on_event(Figure(to_measurement(message, request.probe, hearing.hello, more)))
        elif isinstance(message, protocol.Note) and len(hearing.notes) < MOST_NOTES:
            hearing.notes.append(message)
            self._step(planned, notes=said(hearing.notes, self._names))


MakeSuite = Callable[[Plan, Callable[[Event], None], threading.Event], Suite]
"""Makes the suite of a plan: a real one, or that of a demo."""


class _Hearing:
    """Collects the messages of one probe."""

    def __init__(self, suite: Suite, planned: Planned) -> None:
        self._suite = suite
        self._planned = planned
        self.hello: protocol.Hello | None = None
        self.figures = 0
        self.notes: list[protocol.Note] = []

    def __call__(self, message: protocol.Message) -> None:
        if isinstance(message, protocol.Hello):
            self.hello = message
        self._suite.heard(self._planned, message, self)


def _fair(outcome: Outcome, planned: Planned) -> Outcome:
    """A timeout counts as failed, not as a finding, if the user allowed less than the estimate."""
    given, usual = planned.request.deadline_seconds, planned.step.estimate_seconds
    if outcome.status != "timed-out" or given is None or given >= usual:
        return outcome
    text = f"No end after {given:.0f} s, as long as was allowed; about {usual:.0f} s are usual."
    kept = tuple(figure for figure in outcome.measurements if figure.verdict != "timed-out")
    return replace(outcome, status="failed", message=text, measurements=kept)


def summary(
    steps: tuple[ProbeStep, ...], elapsed_seconds: float, *, simulated: bool = False
) -> str:
    """Summarise a suite in one sentence."""
    if len(steps) == 1:
        return steps[0].text
    by_state: dict[str, list[str]] = {}
    for step in steps:
        by_state.setdefault(step.state, []).append(step.name)
    finished = len(by_state.pop("finished", ()))
    # How long a simulation took says nothing of what a run would take.
    done = SIMULATED if simulated else f"finished in {elapsed_seconds:.0f} s"
    parts = [f"{finished} of {len(steps)} probes {done}"]
    parts += [f"{state}: {', '.join(names)}" for state, names in by_state.items()]
    return "; ".join(parts) + "."
