"""Writes what a probe says, and how it ended, as messages."""

import threading
from collections.abc import Callable
from typing import BinaryIO

from .messages import Done, Failure, Message, encode
from .plaintext import plain
from .spec import ProbeStopped
from .status import Status

Emit = Callable[[Message], None]


class Replies:
    """The messages of one process, whole lines also from several threads."""

    def __init__(self, stream: BinaryIO) -> None:
        """`stream`: unbuffered."""
        self._stream = stream
        self._lock = threading.Lock()

    def emit(self, message: Message) -> None:
        """Write one message; a pipe splits long lines."""
        with self._lock:
            line = encode(message)
            while line:
                line = line[self._stream.write(line) :]

    def of(self, work: "Callable[[Emit], None]") -> int:
        """Run a probe and write its messages and its end; the exit code."""
        try:
            work(self.emit)
        except ProbeStopped as stop:
            self.emit(Failure(stop.error, plain(str(stop))))
            return 1
        except Exception as error:  # noqa: BLE001  (the worker border: any failure is a reply)
            kind = "" if getattr(error, "says_all", False) else f"{type(error).__name__}: "
            self.emit(Failure(Status.FAILED, plain(f"{kind}{error}")))
            return 1
        self.emit(Done())
        return 0
