"""Runs a child process that answers in JSON lines, with a deadline."""

import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from ..protocol.outcome import death_sentence, ended_by, tail
from ..protocol.spec import ProbeStopped
from ..protocol.status import Status

_TICK_SECONDS = 0.2
_END_SECONDS = 5.0
_STDERR_BYTES = 16384
_LINE_BYTES = 1 << 16


def answers(
    command: Sequence[str], environment: Mapping[str, str], seconds: float
) -> "Iterator[dict[str, Any]]":
    """Yield its answers as they come; ProbeStopped if it is late, fails or writes no JSON.

    Call it in the main thread, because the kernel ties a child to its starting thread.
    """
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
            env=dict(environment), cwd="/",
        )  # fmt: skip
        assert process.stdout is not None
        try:
            for line in _lines(process.stdout, deadline, seconds):
                yield _answer(line)
            code = process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        if code != 0:
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - _STDERR_BYTES))
            said = tail(errors.read())
            sentence = death_sentence(*ended_by(code), said)
            raise ProbeStopped(
                Status.FAILED, f"The fresh interpreter did not reach its end. {sentence}"
            )


def _lines(stdout: "IO[bytes]", deadline: float, seconds: float) -> Iterator[bytes]:
    buffer = b""
    os.set_blocking(stdout.fileno(), False)
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        while True:
            if time.monotonic() > deadline:
                raise ProbeStopped(
                    Status.TIMED_OUT, f"A fresh interpreter was not done after {seconds:.0f} s."
                )
            if not selector.select(_TICK_SECONDS):
                continue
            chunk = os.read(stdout.fileno(), _LINE_BYTES)
            if not chunk:
                return
            *lines, buffer = (buffer + chunk).split(b"\n")
            yield from lines
            if len(buffer) > _LINE_BYTES:
                raise ProbeStopped(
                    Status.FAILED, "A fresh interpreter said something that is no line."
                )


def _answer(line: bytes) -> "dict[str, Any]":
    try:
        answer = json.loads(line)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise ProbeStopped(Status.FAILED, "A fresh interpreter said something that is no answer.")
    return answer
