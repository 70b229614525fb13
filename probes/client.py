"""The app's side of a probe: start, stream, deadline, cancel, kill, reap.

`run_probe` is synchronous: the caller gives it a thread, and that thread has to live as long as the
probe, because the kernel ties the child to the thread that started it (see `lifeline`).
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
from collections.abc import Callable
from pathlib import Path
from typing import Optional

from . import leftovers
from .outcome import Outcome, death_sentence, ended_by, tail
from .plaintext import one_line
from .protocol import (
    LINE_LIMIT_BYTES,
    Done,
    Failure,
    Hello,
    Log,
    Measurement,
    Message,
    Note,
    Progress,
    ProtocolError,
    Request,
    decode,
    encode,
)

WORKER = Path(__file__).resolve().parent / "worker.py"
_KEEPER = Path(__file__).resolve().parent / "keeper.py"

_TICK_SECONDS = 0.05
_STDERR_KEPT_BYTES = 16384
_STRAY_BYTES = 4096
"""Start-up files of a site may print; so much is borne before the first message."""
_TERM_SECONDS = 2.0
_TERM_RANKS_SECONDS = 8.0
"""Where the keeper has a folder, and a process on every GPU to wait for."""
_KILL_SECONDS = 2.0
_CLOSE_SECONDS = 3.0
"""After its last message a worker has this long to leave: freeing GPU memory takes a while."""
_LEFT_BEHIND = 125
_NO_ANSWER = "The probe's process printed something that is no answer"


def run_probe(
    request: Request,
    interpreter: str,
    on_event: Callable[[Message], None],
    deadline_seconds: float,
    cancel: threading.Event,
    *,
    worker: Path = WORKER,
    private_folder: bool = False,
) -> Outcome:
    """Run one probe under the given Python and wait for its end, however it ends.

    `private_folder`: the worker gets one as the parameter `folder`. It is gone when this returns,
    with the files that NCCL may have left in /dev/shm.

    `on_event` gets every message as it comes, in this thread. Setting `cancel` ends the run within
    a tenth of a second. Nothing is raised for what a worker may do; what `on_event` raises comes
    through, after the worker is gone.
    """
    python = os.path.abspath(interpreter)  # not resolve(): a venv is known by its link
    if not os.access(python, os.X_OK) or os.path.isdir(python):
        return Outcome("failed", f"{one_line(python)} is not a program that can be run.", 0.0)
    folder, before = "-", leftovers.shared_files() if private_folder else frozenset()
    if private_folder:
        folder = leftovers.folder_path()
        request = dataclasses.replace(request, params={**request.params, "folder": folder})
    run = _Run(request, on_event, deadline_seconds, cancel)
    keeper = sys.executable or python
    command = [keeper, "-I", "-S", str(_KEEPER), str(os.getpid()), folder]
    command += [python, str(worker), "--watched"]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            cwd="/",
        )
    except OSError as error:
        return Outcome("failed", f"The probe could not be started: {error.strerror}.", 0.0)
    try:
        run.talk(process)
    finally:
        left_behind = _end(process, _TERM_RANKS_SECONDS if private_folder else _TERM_SECONDS)
        if private_folder and (process.returncode or 0) < 0:
            # The keeper does this; here it was killed itself.
            leftovers.remove_folder(folder)
            leftovers.remove_shared_files(before)
        run.drain(process)
        for pipe in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
    return run.outcome(process.returncode, left_behind)


class _Run:
    """What one run has said so far."""

    def __init__(
        self,
        request: Request,
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
        self._measurements: list[Measurement] = []
        self._notes: list[Note] = []
        self._logs: list[Log] = []
        self._last: Optional[Message] = None
        self._step = ""
        self._stopped: Optional[str] = None
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
                    self._stopped = "cancelled"
                elif time.monotonic() >= deadline:
                    self._stopped = "timed-out"
                else:
                    gone = process.poll() is not None
                    ready = selector.select(0.0 if gone else _TICK_SECONDS)
                    if gone and not ready:
                        break  # something else still holds the pipe
                    for key, _ in ready:
                        if not self._read(key.fd, key.fileobj is process.stdout):
                            selector.unregister(key.fileobj)
        if self._stopped is None and self._garbage is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_CLOSE_SECONDS)

    def drain(self, process: "subprocess.Popen[bytes]") -> None:
        """Keep what the worker printed last; the messages it may still have sent are dropped."""
        for _ in range(64):
            with contextlib.suppress(BlockingIOError, OSError, ValueError):
                chunk = os.read(process.stderr.fileno(), 65536)  # type: ignore[union-attr]
                if chunk:
                    self._stderr = (self._stderr + chunk)[-_STDERR_KEPT_BYTES:]
                    continue
            return

    def outcome(self, return_code: Optional[int], left_behind: bool) -> Outcome:
        """The value that says how it ended."""
        stderr_tail = tail(self._stderr)
        exit_code, signal_name = ended_by(return_code)
        status, message = self._verdict(exit_code, signal_name, stderr_tail)
        if left_behind:
            message += " Its process sits in a driver call and has not ended yet."
        return Outcome(
            status=status,
            message=message,
            elapsed_seconds=round(time.monotonic() - self._started, 3),
            hello=self._hello,
            measurements=tuple(self._measurements),
            notes=tuple(self._notes),
            logs=tuple(self._logs),
            exit_code=exit_code,
            signal_name=signal_name,
            stderr_tail=stderr_tail,
            left_behind=left_behind,
        )

    def _verdict(
        self, exit_code: Optional[int], signal_name: Optional[str], stderr_tail: str
    ) -> "tuple[str, str]":
        during = f" during: {self._step}" if self._step else ""
        if isinstance(self._last, Done):
            return "finished", f"Finished in {self._last.elapsed_seconds:.1f} s."
        if isinstance(self._last, Failure):
            known = self._last.error in ("no-torch", "refused", "timed-out")
            return self._last.error if known else "failed", one_line(self._last.text, 400)
        if self._garbage is not None:
            return "garbled", f"{_NO_ANSWER}: {self._garbage}"
        if self._stopped == "cancelled":
            return "cancelled", f"Cancelled{during}."
        if self._stopped == "timed-out":
            return "timed-out", (
                f"No end after {self._deadline_seconds:.0f} s{during}; the probe was killed. "
                "A copy that never ends is a finding in itself."
            )
        if self._stray:
            shown = one_line(self._stray.decode("utf-8", "replace"), 80)
            return "garbled", f"{_NO_ANSWER}: {shown!r}"
        return "died", death_sentence(exit_code, signal_name, stderr_tail)

    def _over(self) -> bool:
        return (
            self._stopped is not None
            or self._garbage is not None
            or isinstance(self._last, (Done, Failure))
        )

    def _read(self, descriptor: int, is_reply: bool) -> bool:
        """Take what has arrived; False at the end of the pipe."""
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
        """One line: a message, or rubbish."""
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
        elif isinstance(message, Measurement):
            self._measurements.append(message)
        elif isinstance(message, Note):
            self._notes.append(message)
        elif isinstance(message, Log):
            self._logs.append(message)
        elif isinstance(message, Progress):
            self._step = one_line(message.what, 80)
        self._on_event(message)


def _end(process: "subprocess.Popen[bytes]", term_seconds: float) -> bool:
    """Make sure that the keeper and all it kept are gone; True if something would not go."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(term_seconds)
    if process.returncode is None or process.returncode < 0:
        # A keeper that was killed has not cleared up: its group is what is left.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_KILL_SECONDS)
        _wait_for_group(process.pid)
    return process.returncode in (None, _LEFT_BEHIND)


def _wait_for_group(group: int) -> None:
    """Wait, bounded, until nothing of a process group is left."""
    give_up = time.monotonic() + _KILL_SECONDS
    with contextlib.suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < give_up:
            os.killpg(group, 0)
            time.sleep(0.01)
