"""Probes for the app: run off the event loop, every event a message."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gputop import messages
from gputop.topology.snapshot import NodeSnapshot

if TYPE_CHECKING:
    from gputop.measuring import Told


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
        force: bool,
        snapshot: NodeSnapshot,
    ) -> None:
        """Begin to measure those GPUs of a node; a second wish while one runs is ignored."""
        if self.running:
            return
        self._cancel = threading.Event()
        self._thread = threading.Thread(
            target=self._run,
            args=(probe, addresses, force, snapshot, self._cancel),
            name=f"probe {probe}",
            daemon=True,
        )
        self._thread.start()

    def start_suite(
        self,
        names: tuple[str, ...],
        addresses: tuple[str, ...],
        force: bool,
        level: str,
        snapshot: NodeSnapshot,
    ) -> None:
        """Begin to run these probes, all when none is named; ignored while something runs."""
        raise NotImplementedError

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
        snapshot: NodeSnapshot,
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
                wish_for(probe, snapshot.machine, addresses, force=force),
                hear,
                cancel,
                begin,
            )
        except Exception as error:  # noqa: BLE001 - the worker border: the screen gets a sentence
            self._post(messages.ProbeEnded("failed", f"{type(error).__name__}: {error}"))
            return
        outcome = told.outcome
        if outcome.logs:
            self._check(snapshot, told)
        self._post(messages.ProbeEnded(outcome.status, outcome.message, told.forcible))

    def _check(self, snapshot: NodeSnapshot, told: Told) -> None:
        """Lay the logs beside the prediction, here and not on the event loop: it takes a while."""
        from gputop.log_reading import examine
        from gputop.nccl_check import check_run, log_of, transports

        try:
            check = check_run(snapshot, told, {})
            read = examine(log_of(told), snapshot, library=check.library)
        except Exception as error:  # noqa: BLE001 - the worker border: the figures stand without it
            text = f"the logs could not be compared: {type(error).__name__}: {error}"
            self._post(messages.NcclChecked(None, text))
            return
        for figure in transports(check, time.time()):
            self._post(messages.ProbeMeasured(figure))
        self._post(messages.NcclChecked(check, read=read))
