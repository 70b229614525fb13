"""The app's side of a probe: start, stream, deadline, cancel, kill, reap.

Everything is synchronous. The thread of the caller must live as long as the worker, because the
kernel ties the child to the thread that started it (see `lifeline`).
"""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Optional

from ..protocol.messages import Message, WorkerRequest
from ..protocol.outcome import Outcome
from ..protocol.plaintext import one_line
from . import leftovers
from .conversation import Conversation

WORKER = Path(__file__).resolve().parent.parent / "worker.py"
_KEEPER = Path(__file__).resolve().parent / "keeper.py"

_TERM_SECONDS = 2.0
_TERM_RANKS_SECONDS = 8.0
"""The limit for a keeper with ranks, which waits for a process on every GPU."""
_KILL_SECONDS = 2.0
_CLOSE_SECONDS = 3.0
"""A worker may take this long to end after its last message, to free GPU memory."""
_LEFT_BEHIND = 125

Listener = Callable[[Message], None]


class Session:
    """A worker that answers one request after the other; used as a context manager.

    The worker starts with `begin` or the first request. It ends with a probe that fails, and the
    next request starts another. `children`: the worker runs each probe in a child; probes get a
    folder as the parameter `folder`, which goes at the end of the worker, together with NCCL's
    files in /dev/shm. `torch`: the same, and the worker imports torch at once, and then its modules
    `imports`. `driver`: the worker starts the driver of the GPUs at once, which takes nothing of a
    GPU.
    """

    def __init__(
        self,
        interpreter: str,
        cancel: threading.Event,
        *,
        worker: Path = WORKER,
        torch: bool = False,
        children: bool = False,
        driver: bool = False,
        imports: Sequence[str] = (),
    ) -> None:
        # Not resolve(), because the path of the link selects a virtual environment.
        self._python = os.path.abspath(interpreter)
        self._cancel = cancel
        self._worker = worker
        self._torch = torch
        self._children = torch or children
        self._driver = driver
        self._imports = tuple(imports)
        self._folder = "-"
        self._shared: frozenset[tuple[str, int]] = frozenset()
        self._process: Optional[subprocess.Popen[bytes]] = None

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """Whether a worker waits for a request."""
        return self._process is not None and self._process.poll() is None

    def begin(self) -> None:
        """Start the worker now; what fails is said by the first request."""
        if not self.alive:
            self.close()
            self._start()

    def run(
        self,
        request: WorkerRequest,
        on_event: Listener,
        deadline_seconds: float,
        *,
        last: bool = False,
    ) -> Outcome:
        """Run one probe and wait for its end; `last`: also for the end of the worker.

        `on_event` gets every message at once, in this thread. Setting the session's `cancel` ends
        the run within a tenth of a second. A failing worker raises nothing; an error of `on_event`
        is raised after the worker has ended.
        """
        if not self.alive:
            self.close()
            refusal = self._start()
            if refusal:
                return Outcome("failed", refusal, 0.0)
        process = self._process
        assert process is not None
        if self._children:
            params = {**request.params, "folder": self._folder}
            request = dataclasses.replace(request, params=params)
        talk = Conversation(request, on_event, deadline_seconds, self._cancel)
        code: Optional[int] = None
        left_behind, over = False, True
        try:
            talk.talk(process)
            over = last or not talk.finished
        finally:
            if over:
                code, left_behind = self._end(talk)
        return talk.outcome(code, left_behind)

    def close(self) -> None:
        """End the worker, without a kill if it is idle."""
        if self._process is not None:
            self._end(None)

    def _start(self) -> str:
        """Start keeper and worker; returns a sentence if that fails."""
        python = self._python
        if not os.access(python, os.X_OK) or os.path.isdir(python):
            return f"{one_line(python)} is not a program that can be run."
        if self._children:
            self._shared = leftovers.shared_files()
            try:
                self._folder = leftovers.folder_path()
            except OSError:
                return "No folder for temporary files can be written; TMPDIR names another."
        keeper = sys.executable or python
        command = [keeper, "-I", "-S", str(_KEEPER), str(os.getpid()), self._folder]
        command += [python, str(self._worker), "--watched"]
        command += ["--torch", *self._imports] if self._torch else ["--children"] * self._children
        command += ["--driver"] * self._driver
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                cwd="/",
            )
        except OSError as error:
            return f"The probe could not be started: {error.strerror}."
        return ""

    def _end(self, talk: Optional[Conversation]) -> "tuple[Optional[int], bool]":
        """Wait for the end of the worker; its return code, and whether a process remains."""
        process = self._process
        assert process is not None
        self._process = None
        if talk is None or not talk.left_early:
            with contextlib.suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_CLOSE_SECONDS)
        seconds = _TERM_RANKS_SECONDS if self._children else _TERM_SECONDS
        left_behind = _make_go(process, seconds)
        if self._children and (process.returncode or 0) < 0:
            # Usually the keeper does this; it was killed.
            leftovers.remove_folder(self._folder)
            leftovers.remove_shared_files(self._shared)
        if talk is not None:
            talk.drain(process)
        for pipe in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        return process.returncode, left_behind


def _make_go(process: "subprocess.Popen[bytes]", term_seconds: float) -> bool:
    """End the keeper and its processes; returns True if one remains."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(term_seconds)
    if process.returncode is None or process.returncode < 0:
        # A killed keeper has not cleaned up, so its process group remains.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_KILL_SECONDS)
        _wait_for_group(process.pid)
    return process.returncode in (None, _LEFT_BEHIND)


def _wait_for_group(group: int) -> None:
    """Wait a limited time until a process group is empty."""
    give_up = time.monotonic() + _KILL_SECONDS
    with contextlib.suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < give_up:
            os.killpg(group, 0)
            time.sleep(0.01)
