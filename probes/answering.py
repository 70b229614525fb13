"""The worker's side of requests."""

import contextlib
import gc
import os
from collections.abc import Sequence
from functools import partial
from typing import BinaryIO

from . import catalog
from .devices.opening import import_torch
from .protocol.messages import (
    IMPORTING,
    LINE_LIMIT_BYTES,
    Failure,
    Progress,
    ProtocolError,
    WorkerRequest,
    decode,
)
from .protocol.plaintext import plain
from .protocol.replying import Replies
from .protocol.spec import ProbeStopped
from .runner.forked import serve

REQUEST_LIMIT_BYTES = LINE_LIMIT_BYTES + 1


def _request(line: bytes) -> WorkerRequest:
    message = decode(line)
    if not isinstance(message, WorkerRequest):
        raise ProtocolError("shape", "not a request")
    return message


def answer(line: bytes, stream: BinaryIO) -> int:
    """Run the request in `line` and write messages to `stream`; returns the exit code."""
    replies = Replies(stream)
    try:
        request = _request(line)
        probe = catalog.load(request.probe)
    except ProtocolError as error:
        replies.emit(Failure("bad-request", str(error)))
        return 2
    except KeyError:
        replies.emit(Failure("bad-request", f"no probe of the name {plain(request.probe)!r}"))
        return 2
    return replies.of(partial(probe.run, request))


def answer_in_children(
    requests: int, stream: BinaryIO, with_torch: bool, imports: Sequence[str] = ()
) -> int:
    """Answer each request of the descriptor in a child; the exit code.

    `with_torch`: import it once before, and then its modules `imports`. A probe that finds no torch
    says why by itself.
    """
    if with_torch:
        Replies(stream).emit(Progress(0, 1, IMPORTING))
        with contextlib.suppress(ProbeStopped):
            import_torch(imports)
    gc.freeze()  # a collection in a child would copy every page

    def one(line: bytes) -> int:
        os.dup2(os.open(os.devnull, os.O_RDONLY), requests)
        return answer(line, stream)

    return serve(requests, REQUEST_LIMIT_BYTES, one)
