"""Reads and keeps the messages of one request, and judges its end."""

import contextlib
import os
import selectors
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Optional

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
        self._measurements: list[MeasuredValue] = []
        self._notes: list[Note] = []
        self._logs: list[Log] = []
        self._last: Optional[Message] = None
        self._step = ""
        self._import_seconds = 0.0
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
        if status == "finished":
            message = f"Finished in {elapsed_seconds:.1f} s."
        if left_behind:
            message += " Its process sits in a driver call and has not ended yet."
        return Outcome(
            status=status,
            message=message,
            elapsed_seconds=elapsed_seconds,
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
            return "finished", ""
        if isinstance(self._last, Failure):
            known = self._last.error in ("no-torch", "refused", "timed-out")
            return self._last.error if known else "failed", one_line(self._last.text, 400)
        if self._garbage is not None:
            return "garbled", f"{_NO_ANSWER}: {self._garbage}"
        if self._stopped == "cancelled":
            return "cancelled", f"Cancelled{during}."
        if self._stopped == "timed-out":
            late = f"No end after {self._deadline_seconds:.0f} s{during}; "
            # These are due to a file system or the deadline, not to a GPU.
            if self._last is None or self._step == IMPORTING:
                return "failed", late + "it was given up before it touched a GPU."
            if self._import_seconds > MOST_TO_IMPORT * self._deadline_seconds:
                return "failed", f"{late}{self._import_seconds:.0f} s of it to import torch."
            return "timed-out", (
                late + "the probe was killed. What never ends is a finding in itself."
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
        elif isinstance(message, MeasuredValue):
            self._measurements.append(message)
        elif isinstance(message, Note):
            self._notes.append(message)
        elif isinstance(message, Log):
            self._logs.append(message)
        elif isinstance(message, Progress):
            if self._step == IMPORTING:
                self._import_seconds = time.monotonic() - self._started
            self._step = one_line(message.what, 80)
        self._on_event(message)
