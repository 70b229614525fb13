"""The worker's side of one request."""

import threading
import time
from typing import BinaryIO

from . import catalog
from .protocol.messages import (
    LINE_LIMIT_BYTES,
    Done,
    Failure,
    Message,
    ProtocolError,
    Request,
    decode,
    encode,
)
from .protocol.plaintext import plain
from .protocol.spec import ProbeStopped

REQUEST_LIMIT_BYTES = LINE_LIMIT_BYTES + 1


def _request(line: bytes) -> Request:
    message = decode(line)
    if not isinstance(message, Request):
        raise ProtocolError("shape", "not a request")
    return message


def answer(line: bytes, replies: BinaryIO, started_seconds: float) -> int:
    """Run the request in `line` and write messages to `replies`; returns the exit code."""
    lock = threading.Lock()

    def emit(message: Message) -> None:
        # A probe may have a thread for each GPU, and a pipe splits long lines.
        with lock:
            line = encode(message)
            while line:
                line = line[replies.write(line) :]

    try:
        request = _request(line)
        probe = catalog.load(request.probe)
    except ProtocolError as error:
        emit(Failure("bad-request", str(error)))
        return 2
    except KeyError:
        emit(Failure("bad-request", f"no probe of the name {plain(request.probe)!r}"))
        return 2
    try:
        probe.run(request, emit)
    except ProbeStopped as stop:
        emit(Failure(stop.error, plain(str(stop))))
        return 1
    except Exception as error:  # noqa: BLE001  (the worker border: any failure becomes a reply)
        emit(Failure("failed", plain(f"{type(error).__name__}: {error}")))
        return 1
    emit(Done(round(time.monotonic() - started_seconds, 3)))
    return 0
