"""The two workers of a suite: one for what the driver alone can measure, one that has torch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from gputop.measuring.planning import Planned
from gputop.probes.runner.interpreters import (
    InterpreterChoice,
    find_interpreter,
    own_interpreter,
)

Find = Callable[..., InterpreterChoice]


class Workers:
    """Finds their Pythons and starts them when they are needed; for the thread of one suite."""

    def __init__(
        self,
        make_session: Callable[..., Any],
        python: str | None,
        cancel: threading.Event,
        find: Find | None = None,
        own: Callable[[], InterpreterChoice] | None = None,
    ) -> None:
        """`python`: the one that the user names for torch."""
        self._make_session = make_session
        self._python = python
        self._cancel = cancel
        self._find = find or find_interpreter
        self._own = own or own_interpreter
        self._found: Future[InterpreterChoice] = Future()
        self._sessions: dict[bool, Any] = {}
        """Whether it has torch -> the worker."""

    def look(self) -> None:
        """Begin to look for a Python with torch; it takes a tenth of a second and more."""
        threading.Thread(target=self._look, name="interpreters", daemon=True).start()

    def _look(self) -> None:
        try:
            self._found.set_result(self._find(self._python, self._cancel))
        except Exception as error:  # noqa: BLE001 - raised where the answer is needed
            self._found.set_exception(error)

    def choice(self, planned: Planned) -> InterpreterChoice:
        """The Python of a probe; waits for the one with torch."""
        return self._found.result() if planned.spec.needs_torch else self._own()

    def session(self, planned: Planned, python: str) -> Any:
        """The worker of a probe, which may not have started yet."""
        torch = planned.spec.needs_torch
        if torch not in self._sessions:
            self._sessions[torch] = self._make_session(python, self._cancel, torch=torch)
        return self._sessions[torch]

    def holds_gpus(self, planned: Planned) -> bool:
        """Whether the process that will run a probe has had the GPUs all the time.

        With torch every probe is a process of its own.
        """
        session = self._sessions.get(False)
        return not planned.spec.needs_torch and session is not None and session.alive

    def warm(self) -> None:
        """Start the worker that imports torch, as soon as its Python is known."""
        if True in self._sessions or not self._found.done() or self._found.exception() is not None:
            return
        choice = self._found.result()
        if choice.chosen is not None and not self._cancel.is_set():
            session = self._make_session(choice.chosen.path, self._cancel, torch=True)
            self._sessions[True] = session
            session.begin()

    def close(self) -> None:
        """End both."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()
