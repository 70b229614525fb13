"""Serves the tools over stdin and stdout: a message of JSON-RPC a line, in UTF-8."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any, cast

import gputop
from gputop.agents.calls import MOST_WAITING, AgentCall, AgentCalls, Left
from gputop.agents.protocol import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    RefusalError,
    call_of,
    error_message,
    reply,
    result_message,
    said,
    stamped,
)
from gputop.agents.tools import answer_text
from gputop.topology.model.characters import harmless, without_surrogates
from gputop.topology.model.errors import GputopError

SECONDS, MEASURING_SECONDS = 60.0, 600.0
"""When a call is answered for; a call that measures takes longer."""
LEAVING_SECONDS = 1.5
"""How long open calls may still take where the client has said all. The client of the official SDK
waits 2 s for the process to end."""
LONGEST_LINE = 64_000_000
"""Bytes: more than the longest text that a tool takes with every character escaped."""


class AgentConversation:
    """Takes messages from a client, and writes answers to it."""

    def __init__(
        self, outgoing: IO[bytes], *, redact: bool = False, roots: Sequence[str] = ()
    ) -> None:
        """`redact` and `roots` are those of `answer_text`."""
        self._answer = partial(answer_text, redact=redact, roots=roots)
        self._unwritten: SimpleQueue[bytes | None] = SimpleQueue()
        self._writer = Thread(target=self._write, args=(outgoing,), daemon=True)
        self._writer.start()
        self._calls = AgentCalls(self._unwritten.put)

    def take(self, line: bytes) -> None:
        """Answer a line, or begin to."""
        try:
            message = json.loads(line.decode("utf-8", "replace"))
            if b"\\u" in line:
                message = without_surrogates(message)
        except (ValueError, RecursionError):
            self._refuse(None, RefusalError(PARSE_ERROR, "not a line of JSON"))
            return
        # A batch is allowed up to 2025-03-26; each of its requests is answered by itself.
        if not isinstance(message, list):
            self._take_one(message)
        elif message:
            for one in message:
                self._take_one(one)
        else:
            self._refuse(None, RefusalError(INVALID_REQUEST, "a batch of nothing"))

    def leave(self) -> None:
        """Let open calls end, if that is soon: the client has said all."""
        self._calls.wait(LEAVING_SECONDS)
        self._unwritten.put(None)
        self._writer.join(LEAVING_SECONDS)

    def too_long(self) -> None:
        """Refuse a line that was not kept."""
        why = f"a line of more than {LONGEST_LINE} bytes"
        self._refuse(None, RefusalError(PARSE_ERROR, why))

    def _take_one(self, message: Any) -> None:
        key = message.get("id") if isinstance(message, dict) else None
        if isinstance(key, bool) or not isinstance(key, (int, str)):
            key = None
        try:
            self._dispatch(key, message)
        except RefusalError as error:
            self._refuse(key, error)

    def _dispatch(self, key: int | str | None, message: Any) -> None:
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            raise RefusalError(INVALID_REQUEST, "not a message of JSON-RPC 2.0")
        method, params = message.get("method"), message.get("params", {})
        if method is None and ("result" in message or "error" in message):
            return  # an answer, and nothing was asked
        if not isinstance(method, str):
            raise RefusalError(INVALID_REQUEST, "method is no text")
        if not isinstance(params, dict):
            raise RefusalError(INVALID_PARAMS, "params is no object")
        if "id" not in message:
            if method == "notifications/cancelled":
                self._cancel(params.get("requestId"))
            return
        if key is None:
            raise RefusalError(INVALID_REQUEST, "id is neither a text nor a whole number")
        if method == "tools/call":
            self._call(key, params)
        else:
            self._say(result_message(key, reply(method, params)))

    def _cancel(self, key: Any) -> None:
        if isinstance(key, (int, str)):
            self._calls.cancel(key)

    def _call(self, key: int | str, params: dict[str, Any]) -> None:
        name, given = call_of(params)

        def line(result: dict[str, Any]) -> bytes:
            return result_message(key, stamped(result, params, cached=False))

        def work(left: Left) -> bytes:
            return line(answered(name, given, self._answer, left))

        seconds = MEASURING_SECONDS if given.get("measure") is True else SECONDS
        late = said(f"{harmless(name[:60])}: no answer within {seconds:.0f} s", failed=True)
        if not self._calls.add(AgentCall(key, work, seconds, line(late))):
            why = f"a call with this id is open, or {MOST_WAITING} calls are"
            raise RefusalError(INVALID_REQUEST, why)

    def _refuse(self, key: int | str | None, error: RefusalError) -> None:
        self._say(error_message(key, error))

    def _say(self, line: bytes) -> None:
        self._unwritten.put(line)

    def _write(self, outgoing: IO[bytes]) -> None:
        """Write in a thread of its own: a client may first say all, and then begin to read."""
        while (line := self._unwritten.get()) is not None:
            try:
                outgoing.write(line)
                outgoing.flush()
            except (OSError, ValueError):
                return  # nobody reads any more; stdin ends next


def answered(
    name: str, arguments: dict[str, Any], answer: Callable[..., str], left: Left
) -> dict[str, Any]:
    """The answer of a tool, or why there is none. A measurement ends where its asker `left`."""
    try:
        if arguments.get("measure") is True:
            from gputop.measuring.attended import asker_left  # what only reads does without

            asker_left.set(left)
        return said(answer(name, arguments))
    except GputopError as error:
        return said(harmless(str(error)), failed=True)
    except Exception as error:  # noqa: BLE001 - a call's border; its text may hold names
        traceback.print_exception(error)
        return said(f"{name}: a fault of gputop ({type(error).__name__})", failed=True)


def _lines(incoming: IO[bytes]) -> Iterator[bytes | None]:
    """The lines; None for one that is too long, of which nothing is kept."""
    while line := incoming.readline(LONGEST_LINE):
        if line.endswith(b"\n") or len(line) < LONGEST_LINE:
            if line.strip():
                yield line
            continue
        while line and not line.endswith(b"\n"):
            line = incoming.readline(LONGEST_LINE)
        yield None


def _stdin_apart() -> IO[bytes]:
    """Stdin on a descriptor of its own: no process that a tool starts reads what a client says."""
    if not gputop.own_process or sys.__stdin__ is None:
        return sys.stdin.buffer
    kept = fcntl.fcntl(sys.__stdin__.fileno(), fcntl.F_DUPFD_CLOEXEC, 3)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(nothing, 0)
    return os.fdopen(kept, "rb")


def run(*, redact: bool, roots: Sequence[str]) -> None:
    """Serve until the client leaves."""
    if sys.__stdout__ is None:
        return  # closed by who started it: nobody to answer
    # What is printed, by libraries of drivers too, goes to stderr: see terminal/output.py.
    conversation = AgentConversation(
        cast("IO[bytes]", sys.__stdout__.buffer), redact=redact, roots=roots
    )
    for line in _lines(_stdin_apart()):
        if line is None:
            conversation.too_long()
        else:
            conversation.take(line)
    conversation.leave()
