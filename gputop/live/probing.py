"""Probes for the app: run off the event loop, every event a message."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gputop import messages
from gputop.measuring import history, planning, running
from gputop.measuring.nccl_check import check_run, log_of, transports
from gputop.measuring.state import ProbeRun, SuiteState
from gputop.probes.protocol.status import ProbeLevel
from gputop.simulating.suite import simulated_plan, simulated_suite
from gputop.topology.diagnosis.symptoms.log import examine
from gputop.topology.model.snapshot import Measurement, NodeSnapshot

if TYPE_CHECKING:
    from gputop.measuring.running import Event


class Probing:
    """Runs one suite at a time in a thread of its own; `post` is called from that thread."""

    def __init__(self, post: Callable[[Any], object]) -> None:
        self._post = post
        self._cancel = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        """Whether something is measured."""
        return self._thread is not None and self._thread.is_alive()

    def start_suite(
        self,
        names: tuple[str, ...],
        addresses: tuple[str, ...],
        force: bool,
        level: ProbeLevel,
        snapshot: NodeSnapshot,
    ) -> None:
        """Begin these probes, all when none is named; ignored while something runs."""
        if self.running:
            return
        self._cancel = threading.Event()
        self._thread = threading.Thread(
            target=self._run,
            args=(names, addresses, force, level, snapshot, self._cancel),
            name="probes",
            daemon=True,
        )
        self._thread.start()

    def cancel(self) -> None:
        """Ask the running suite to end; its end comes as a message."""
        self._cancel.set()

    def close(self) -> None:
        """End the probe without waiting; the worker dies with its parent anyway."""
        self._cancel.set()

    def _run(
        self,
        names: tuple[str, ...],
        addresses: tuple[str, ...],
        force: bool,
        level: ProbeLevel,
        snapshot: NodeSnapshot,
        cancel: threading.Event,
    ) -> None:
        # Imported here: the app opens without the probes' code.
        posting = _Posting(self._post, snapshot)
        try:
            plan = planning.plan(names, snapshot.machine, addresses, level=level, force=force)
            make: running.MakeSuite = running.Suite
            if snapshot.is_demo:
                plan, make = simulated_plan(plan), simulated_suite(snapshot)
            make(plan, posting, cancel).run()
        except Exception as error:  # noqa: BLE001 - the worker border: the screen gets a sentence
            posting.broke(f"{type(error).__name__}: {error}")


class _Posting:
    """Turns a suite's events into messages."""

    def __init__(self, post: Callable[[Any], object], snapshot: NodeSnapshot) -> None:
        self._post = post
        self._snapshot = snapshot
        self._state = SuiteState(steps=())
        self._not_kept: dict[str, str] = {}
        """Probe -> why its run is not in the history."""

    def __call__(self, event: Event) -> None:
        if isinstance(event, SuiteState):
            self._changed(event)
        elif isinstance(event, Measurement):
            self._post(messages.ProbeMeasured(event))
        elif isinstance(event, ProbeRun):
            self._ended(event)

    def broke(self, text: str) -> None:
        """A mistake of ours ended the suite."""
        state = replace(self._state, running=False, broken=True, text=text)
        self._post(messages.SuiteChanged(state))

    def _changed(self, state: SuiteState) -> None:
        """Post the state with our own notes behind those of the probes."""
        steps = []
        for step in state.steps:
            note = self._not_kept.get(step.name)
            if note and note not in step.notes:
                step = replace(step, notes=(*step.notes, note))
            steps.append(step)
        self._state = replace(state, steps=tuple(steps))
        self._post(messages.SuiteChanged(self._state))

    def _ended(self, run: ProbeRun) -> None:
        """Compare and keep the figures of a probe; a failure here stops no other probe."""
        if run.outcome.logs:
            self._check(run)
        note = self._keep(run)
        if note:
            self._not_kept[run.name] = note
            self._changed(self._state)

    def _keep(self, run: ProbeRun) -> str:
        try:
            return history.keep_result(self._snapshot, run)
        except Exception as error:  # noqa: BLE001 - a mistake of ours costs the kept run only
            return f"the run is not kept in the history: {type(error).__name__}: {error}"

    def _check(self, run: ProbeRun) -> None:
        """Compare the logs with the prediction in this thread, because that takes a while."""
        try:
            check = check_run(self._snapshot, run, {})
            read = examine(log_of(run), self._snapshot, library=check.library)
            figures = tuple(transports(check, time.time()))
        except Exception as error:  # noqa: BLE001 - the worker border: the figures stand without it
            text = f"the logs could not be compared: {type(error).__name__}: {error}"
            self._post(messages.NcclChecked(None, text))
            return
        for figure in figures:
            self._post(messages.ProbeMeasured(figure))
        self._post(messages.NcclChecked(check, read=read))
