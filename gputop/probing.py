"""Probes for the app: run off the event loop, every event a message."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from gputop import messages
from gputop.topology.machine import Machine


class Probing:
    """Runs one probe at a time in a thread of its own; `post` is called from that thread."""

    def __init__(self, post: Callable[[Any], object]) -> None:
        self._post = post
        self._cancel = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        """Whether a probe is under way."""
        return self._thread is not None and self._thread.is_alive()

    def start(
        self,
        probe: str,
        addresses: tuple[str, ...],
        force: bool = False,
        machine: Machine | None = None,
    ) -> None:
        """Begin to measure those GPUs; a second wish while one runs is ignored."""
        if self.running:
            return
        self._cancel = threading.Event()
        self._thread = threading.Thread(
            target=self._run,
            args=(probe, addresses, force, machine or Machine(), self._cancel),
            name=f"probe {probe}",
            daemon=True,
        )
        self._thread.start()

    def cancel(self) -> None:
        """Ask the probe to end; its end comes as a message."""
        self._cancel.set()

    def close(self) -> None:
        """The app leaves: end the probe. Does not wait; the worker dies with its parent anyway."""
        self._cancel.set()

    def _run(
        self,
        probe: str,
        addresses: tuple[str, ...],
        force: bool,
        machine: Machine,
        cancel: threading.Event,
    ) -> None:
        # Imported here: the app opens without the probes' code.
        from gputop.measuring import measure, to_measurement, wish_for
        from gputop.probes import protocol
        from gputop.probes.interpreters import Choice

        hello: protocol.Hello | None = None

        def hear(message: protocol.Message) -> None:
            nonlocal hello
            if isinstance(message, protocol.Hello):
                hello = message
            elif isinstance(message, protocol.Progress):
                self._post(messages.ProbeProgress(message.done, message.total, message.what))
            elif isinstance(message, protocol.Measurement):
                self._post(messages.ProbeMeasured(to_measurement(message, probe, hello)))

        def begin(choice: Choice) -> None:
            python = choice.chosen
            if python is not None:
                self._post(messages.ProbeStarted(probe, python.path, python.how_found))

        try:
            told = measure(
                wish_for(probe, machine, addresses, force=force),
                hear,
                cancel,
                begin,
            )
        except Exception as error:  # noqa: BLE001 - the worker border: the screen gets a sentence
            self._post(messages.ProbeEnded("failed", f"{type(error).__name__}: {error}"))
            return
        outcome = told.outcome
        self._post(messages.ProbeEnded(outcome.status, outcome.message, told.forcible))
