"""The app's side of a probe: start, stream, deadline, cancel, kill, reap.

Everything is synchronous. The thread of the caller must live as long as the worker, because the
kernel ties the child to the thread that started it (see `lifeline`).
"""

import contextlib
import dataclasses
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Optional

from ..protocol.messages import (
    IMPORTING,
    LINE_LIMIT_BYTES,
    MOST_TO_IMPORT,
    Done,
    Failure,
    Hello,
    Log,
    MeasuredValue,
    Message,
    Note,
    Progress,
    ProtocolError,
    WorkerRequest,
    decode,
    encode,
)
from ..protocol.outcome import Outcome, death_sentence, ended_by, tail
from ..protocol.plaintext import one_line
from ..protocol.status import Status
from . import leftovers

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

# Reads and keeps the messages of one request, and judges its end.
_TICK_SECONDS = 0.05
_STDERR_KEPT_BYTES = 16384
_STRAY_BYTES = 4096
"""Limit for output before the first message; start-up files of a site may print."""
_NO_ANSWER = "The probe's process printed something that is no answer"


class Conversation:
    """The messages of one run."""

    def __init__(
        self,
        request: WorkerRequest,
        on_event: Callable[[Message], None],
        deadline_seconds: float,
        cancel: threading.Event,
    ) -> None:
        self._request = request
        self._on_event = on_event
        self._cancel = cancel
        self._deadline_seconds = deadline_seconds
        self._started = time.monotonic()
        self._hello: Optional[Hello] = None
        self._kept: dict[type, list[Any]] = {MeasuredValue: [], Note: [], Log: []}
        self._last: Optional[Message] = None
        self._step = ""
        self._import_seconds = 0.0
        self._stopped: Optional[Status] = None
        self._garbage: Optional[str] = None
        self._stray = b""
        self._buffer = b""
        self._stderr = b""

    def talk(self, process: "subprocess.Popen[bytes]") -> None:
        """Send the request and read until the last message, the end, the deadline or a cancel."""
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(encode(self._request))  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
        deadline = self._started + self._deadline_seconds
        with selectors.DefaultSelector() as selector:
            for pipe in (process.stdout, process.stderr):
                os.set_blocking(pipe.fileno(), False)  # type: ignore[union-attr]
                selector.register(pipe, selectors.EVENT_READ)  # type: ignore[arg-type]
            while selector.get_map() and not self._over():
                if self._cancel.is_set():
                    self._stopped = Status.CANCELLED
                elif time.monotonic() >= deadline:
                    self._stopped = Status.TIMED_OUT
                else:
                    gone = process.poll() is not None
                    ready = selector.select(0.0 if gone else _TICK_SECONDS)
                    if gone and not ready:
                        break  # another process still holds the pipe
                    for key, _ in ready:
                        if not self._read(key.fd, key.fileobj is process.stdout):
                            selector.unregister(key.fileobj)

    def drain(self, process: "subprocess.Popen[bytes]") -> None:
        """Keep the last printed lines of the worker and drop its last messages."""
        for _ in range(64):
            with contextlib.suppress(BlockingIOError, OSError, ValueError):
                chunk = os.read(process.stderr.fileno(), 65536)  # type: ignore[union-attr]
                if chunk:
                    self._stderr = (self._stderr + chunk)[-_STDERR_KEPT_BYTES:]
                    continue
            return

    @property
    def finished(self) -> bool:
        """Whether the probe reached its end."""
        return isinstance(self._last, Done)

    @property
    def left_early(self) -> bool:
        """Whether the run was given up: cancelled, late, or without an answer."""
        return self._stopped is not None or self._garbage is not None

    def outcome(self, return_code: Optional[int], left_behind: bool) -> Outcome:
        """The outcome of the run."""
        stderr_tail = tail(self._stderr)
        exit_code, signal_name = ended_by(return_code)
        elapsed_seconds = round(time.monotonic() - self._started, 3)
        status, message = self._verdict(exit_code, signal_name, stderr_tail)
        if status == Status.FINISHED:
            message = f"Finished in {elapsed_seconds:.1f} s."
        if left_behind:
            message += " Its process sits in a driver call and has not ended yet."
        return Outcome(
            status=status,
            message=message,
            elapsed_seconds=elapsed_seconds,
            hello=self._hello,
            measurements=tuple(self._kept[MeasuredValue]),
            notes=tuple(self._kept[Note]),
            logs=tuple(self._kept[Log]),
            exit_code=exit_code,
            signal_name=signal_name,
            stderr_tail=stderr_tail,
            left_behind=left_behind,
        )

    def _verdict(
        self, exit_code: Optional[int], signal_name: Optional[str], stderr_tail: str
    ) -> "tuple[Status, str]":
        during = f" during: {self._step}" if self._step else ""
        if isinstance(self._last, Done):
            return Status.FINISHED, ""
        if isinstance(self._last, Failure):
            error = self._last.error
            known = error in (Status.NO_TORCH, Status.REFUSED, Status.TIMED_OUT)
            return Status(error) if known else Status.FAILED, one_line(self._last.text, 400)
        if self._garbage is not None:
            return Status.GARBLED, f"{_NO_ANSWER}: {self._garbage}"
        if self._stopped == Status.CANCELLED:
            return Status.CANCELLED, f"Cancelled{during}."
        if self._stopped == Status.TIMED_OUT:
            late = f"No end after {self._deadline_seconds:.0f} s{during}; "
            # These are due to a file system or the deadline, not to a GPU.
            if self._last is None or self._step == IMPORTING:
                return Status.FAILED, late + "it was given up before it touched a GPU."
            if self._import_seconds > MOST_TO_IMPORT * self._deadline_seconds:
                return Status.FAILED, f"{late}{self._import_seconds:.0f} s of it to import torch."
            return Status.TIMED_OUT, (
                late + "the probe was killed. What never ends is a finding in itself."
            )
        if self._stray:
            shown = one_line(self._stray.decode("utf-8", "replace"), 80)
            return Status.GARBLED, f"{_NO_ANSWER}: {shown!r}"
        return Status.DIED, death_sentence(exit_code, signal_name, stderr_tail)

    def _over(self) -> bool:
        return (
            self._stopped is not None
            or self._garbage is not None
            or isinstance(self._last, (Done, Failure))
        )

    def _read(self, descriptor: int, is_reply: bool) -> bool:
        """Read what has arrived; False at the end of the pipe."""
        try:
            chunk = os.read(descriptor, 65536)
        except BlockingIOError:
            return True
        if not chunk:
            return False
        if not is_reply:
            self._stderr = (self._stderr + chunk)[-_STDERR_KEPT_BYTES:]
            return True
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        for line in lines:
            if not self._over():
                self._take(line)
        if len(self._buffer) > (LINE_LIMIT_BYTES if self._last else _STRAY_BYTES):
            self._take(self._buffer)
            self._buffer = b""
        return True

    def _take(self, line: bytes) -> None:
        """Handle one line, a message or rubbish."""
        try:
            message = decode(line)
        except ProtocolError as error:
            self._stray += line + b"\n"
            if self._last is not None or error.kind == "version" or len(self._stray) > _STRAY_BYTES:
                shown = one_line(line[:400].decode("utf-8", "replace"), 80)
                self._garbage = f"{error} ({shown!r})"
            return
        self._last = message
        if isinstance(message, Hello):
            self._hello = message
        elif isinstance(message, (MeasuredValue, Note, Log)):
            self._kept[type(message)].append(message)
        elif isinstance(message, Progress):
            if self._step == IMPORTING:
                self._import_seconds = time.monotonic() - self._started
            self._step = one_line(message.what, 80)
        self._on_event(message)


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
                return Outcome(Status.FAILED, refusal, 0.0)
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
