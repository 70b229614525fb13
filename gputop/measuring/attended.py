"""A suite run from the command line: progress goes to stderr, Ctrl+C ends it."""

from __future__ import annotations

import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from gputop.measuring.running import MakeSuite, Suite
from gputop.measuring.state import ProbeRun, SuiteState
from gputop.probes.runner.interpreters import InterpreterChoice
from gputop.terminal.clean import clean
from gputop.terminal.lines import warn
from gputop.terminal.output import overwrite

if TYPE_CHECKING:
    from types import FrameType

    from gputop.measuring.planning import Plan
    from gputop.measuring.running import Event

LEAVE_SECONDS = 10.0
"""How long a worker may take to end after Ctrl+C; a driver call may hold it up."""
STOP_SECONDS = 1.0
"""The same after `stop`: who stops a suite has a deadline."""
_TICK_SECONDS = 0.1
asker_left: ContextVar[Callable[[], bool]] = ContextVar("asker_left", default=lambda: False)
"""In a thread that answers somebody: whether nobody waits for the suite any more."""


class Attended:
    """Runs a suite in a thread and answers to the person at the terminal."""

    def __init__(
        self,
        plan: Plan,
        make: MakeSuite = Suite,
    ) -> None:
        """`make`: makes the suite of the plan."""
        self._plan = plan
        self._make = make
        self._cancel = threading.Event()
        self._events: queue.SimpleQueue[Event | BaseException | None] = queue.SimpleQueue()
        self._line = _Line()
        self._give_up = float("inf")
        self.state: SuiteState | None = None
        """How far the suite is; None before its first event."""
        self.interrupted = False
        self.stopped = False
        """Whether `stop` ended the suite."""

    def stop(self) -> None:
        """End the suite from another thread, like Ctrl+C."""
        self.stopped = True
        self._give_up = min(self._give_up, time.monotonic() + STOP_SECONDS)
        self._cancel.set()

    def ends(self) -> Iterator[ProbeRun]:
        """Yield the end of each probe; after Ctrl+C only those that arrive in time."""
        try:
            with self._interrupts():
                # Off the main thread, so that Ctrl+C reaches us while a driver call blocks.
                threading.Thread(target=self._run, name="probes", daemon=True).start()
                yield from self._ends()
        finally:
            self._cancel.set()
            self._line.close()

    def _ends(self) -> Iterator[ProbeRun]:
        while time.monotonic() < self._give_up:
            if not self.stopped and asker_left.get()():
                self.stop()
            try:
                event = self._events.get(timeout=_TICK_SECONDS)
            except queue.Empty:
                continue
            if event is None:
                break
            if isinstance(event, BaseException):
                raise event
            if isinstance(event, InterpreterChoice):
                if not self._plan.simulated:
                    self._say(*event.sentences())
            elif isinstance(event, SuiteState):
                self.state = event
                self._line.show(event)
            elif isinstance(event, ProbeRun):
                self._line.close()
                yield event

    @contextmanager
    def _interrupts(self) -> Iterator[None]:
        """Let Ctrl+C end the suite instead of whatever line of ours runs at that moment.

        A `KeyboardInterrupt` while a figure is judged or printed would lose all figures.
        """
        before = signal.getsignal(signal.SIGINT)
        main = threading.current_thread() is threading.main_thread()
        if not main or before in (signal.SIG_IGN, None):
            yield
            return

        def interrupt(number: int, frame: FrameType | None) -> None:
            if self.interrupted:
                # Nobody waits after a second Ctrl+C: workers die with this process.
                signal.signal(signal.SIGINT, before)
                self._give_up = 0.0
            else:
                self.interrupted = True
                self._give_up = time.monotonic() + LEAVE_SECONDS
                self._cancel.set()

        signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _run(self) -> None:
        try:
            self._make(self._plan, self._events.put, self._cancel).run()
        except BaseException as error:  # noqa: BLE001 - handed to the main thread
            self._events.put(error)
        finally:
            self._events.put(None)

    def _say(self, *lines: str) -> None:
        self._line.close()
        for line in lines:
            warn(line)


class _Line:
    """One progress line, overwritten in place; nothing where stderr is not a terminal."""

    def __init__(self) -> None:
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._open = False

    def show(self, state: SuiteState) -> None:
        step = state.current
        if not self._terminal or step is None:
            return
        text = f"{step.name} "
        if step.total:
            text += f"{step.done}/{step.total} "
        if len(state.steps) > 1:
            over = sum(step.over for step in state.steps)
            text = f"[{over + 1}/{len(state.steps)}, {state.left_seconds:.0f} s left] {text}"
        overwrite(clean(text + step.what, 79))
        self._open = True

    def close(self) -> None:
        if self._open:
            overwrite("")
            self._open = False
