"""Runs the ranks from the worker: starts them, reads their messages and ends them in time.

Each rank is a fork of the worker, answers the same request plus its rank, and writes the same
messages. The kernel ties a rank to the worker (`lifeline`) and the worker to the keeper, and the
keeper kills what is left, so no rank survives if any of them is killed.
"""

import dataclasses
import os
import selectors
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import BinaryIO, Optional

from ..protocol.messages import (
    ASKING,
    IMPORTING,
    MOST_TO_IMPORT,
    Done,
    Failure,
    Hello,
    Progress,
    ProtocolError,
    WorkerRequest,
    decode,
)
from ..protocol.outcome import ended_by
from ..protocol.plaintext import one_line
from ..protocol.replying import Emit, Replies
from ..protocol.status import DeviceKind, Status
from ..runner.forked import Forked, fork
from .steps import Step

_TICK_SECONDS = 0.1
_LAST_WORDS_SECONDS = 1.0
"""After the first failure the other ranks have this long to report their own."""
_REAP_SECONDS = 5.0


@dataclasses.dataclass
class _Rank:
    """The process of one rank and its state."""

    number: int
    process: Forked
    replies: BinaryIO
    """The pipe with its messages."""
    place: int = 0
    """Position of its current step."""
    imported_after: Optional[float] = None
    """Seconds until torch was imported; None before that."""
    buffer: bytes = b""
    done: bool = False
    failure: Optional[Failure] = None


@dataclasses.dataclass(frozen=True)
class Trouble:
    """Why a run did not reach its end."""

    error: Status
    """NO_TORCH, REFUSED, TIMED_OUT or FAILED."""
    text: str
    step: Step
    """The earliest unfinished step."""


class Crew:
    """The ranks of one run, one for each environment; all take the steps of `plan`."""

    def __init__(
        self,
        request: WorkerRequest,
        plan: Sequence[Step],
        environments: Sequence[Mapping[str, str]],
        emit: Emit,
        seconds: float,
        run: "Callable[[WorkerRequest, Emit], None]",
    ) -> None:
        """`run`: what a rank does with its request, in a process of its own."""
        self._emit = emit
        self._run = run
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self.hello: Optional[Hello] = None
        self._steps = plan
        library = str(request.params.get("library") or "")
        self._imports = not library
        """Whether the ranks import torch."""
        self._loads_rccl = os.path.basename(library).startswith("librccl")
        self._shown = -1
        self._ranks: list[_Rank] = []
        try:
            for number, environment in enumerate(environments):
                self._ranks.append(self._start(request, number, environment, len(environments)))
        except BaseException:
            self.end()
            raise

    def _start(
        self, request: WorkerRequest, number: int, environment: Mapping[str, str], ranks: int
    ) -> _Rank:
        place = {"rank": number, "ranks": ranks}
        mine = dataclasses.replace(request, params={**request.params, **place})
        reading, writing = os.pipe()
        others = [rank.replies for rank in self._ranks]

        def work() -> int:
            for descriptor in (reading, *(pipe.fileno() for pipe in others)):
                os.close(descriptor)
            os.environ.clear()
            os.environ.update(environment)
            with os.fdopen(writing, "wb", buffering=0) as replies:
                return Replies(replies).of(partial(self._run, mine))

        process = fork(work, f"gputop-rank{number}")
        os.close(writing)
        return _Rank(number, process, os.fdopen(reading, "rb", buffering=0))

    def watch(self) -> Optional[Trouble]:
        """Pass on messages until all ranks are done; returns the trouble if one fails."""
        failed_at: Optional[float] = None
        with selectors.DefaultSelector() as selector:
            for rank in self._ranks:
                selector.register(rank.replies, selectors.EVENT_READ, rank)
            while selector.get_map():
                now = time.monotonic()
                if failed_at is not None and now > failed_at + _LAST_WORDS_SECONDS:
                    break
                # A worker that was stopped (Ctrl+Z) finds here what its ranks have said since.
                is_late = now >= self._end
                for key, _ in selector.select(0.0 if is_late else _TICK_SECONDS):
                    if not self._read(key.data):
                        selector.unregister(key.fileobj)
                        self._ended(key.data)
                if is_late:
                    ended = all(rank.done or rank.failure for rank in self._ranks)
                    return self._trouble() if ended else self._too_late()
                if failed_at is None and any(rank.failure for rank in self._ranks):
                    failed_at = time.monotonic()
        return self._trouble()

    def end(self) -> None:
        """Kill every running rank and wait a limited time for its end."""
        for rank in self._ranks:
            rank.process.kill()
        give_up = time.monotonic() + _REAP_SECONDS
        for rank in self._ranks:
            rank.process.wait(max(0.0, give_up - time.monotonic()))
            rank.replies.close()

    def key_of(self, rank: int) -> str:
        """The name of a rank's device in measurements."""
        return self.hello.devices[rank].key if self.hello is not None else f"rank {rank}"

    @property
    def device_kind(self) -> str:
        """Kind of the devices, as in a MeasuredValue."""
        return self.hello.device_kind if self.hello is not None else DeviceKind.GPU

    @property
    def library(self) -> str:
        """The name of the library that the ranks use."""
        if self.device_kind == DeviceKind.CPU:
            return "gloo"
        if self.hello is None:
            return "RCCL" if self._loads_rccl else "NCCL"
        return self.hello.library_name

    def _read(self, rank: _Rank) -> bool:
        chunk = os.read(rank.replies.fileno(), 65536)
        *lines, rank.buffer = (rank.buffer + chunk).split(b"\n")
        for line in lines:
            self._take(rank, line)
        return bool(chunk)

    def _take(self, rank: _Rank, line: bytes) -> None:
        try:
            message = decode(line)
        except ProtocolError as error:
            rank.failure = rank.failure or Failure(Status.FAILED, f"its answer is none: {error}")
            return
        if isinstance(message, Done):
            rank.done = True
        elif isinstance(message, Failure):
            rank.failure = rank.failure or message
        elif isinstance(message, Progress):
            rank.place = message.done
            if message.what == ASKING:
                rank.imported_after = time.monotonic() - (self._end - self._seconds)
            if message.done > self._shown:
                self._shown = message.done
                self._emit(message)
        else:
            if isinstance(message, Hello):
                self.hello = message
            self._emit(message)

    def _ended(self, rank: _Rank) -> None:
        """Handle the end of its pipe: there are no more messages."""
        rank.process.wait(_LAST_WORDS_SECONDS)
        if rank.done or rank.failure:
            return
        exit_code, signal_name = ended_by(rank.process.poll())
        how = f"was ended by {signal_name}" if signal_name else f"ended with code {exit_code}"
        rank.failure = Failure(Status.FAILED, f"its process {how}")

    def _step(self) -> Step:
        unfinished = [rank.place for rank in self._ranks if not rank.done]
        return self._steps[min(unfinished, default=len(self._steps) - 1)]

    def _too_late(self) -> Trouble:
        step = self._step()
        late = [
            f"rank {rank.number} ({self.key_of(rank.number)}): {self._at(rank)}"
            for rank in self._ranks
            if not rank.done
        ]
        text = f"No end after {self._seconds:.0f} s. " + "; ".join(late) + "."
        # Importing torch waits for a file system, which says nothing about a GPU.
        imports = [rank.imported_after for rank in self._ranks]
        slow = any(
            seconds is None or seconds > MOST_TO_IMPORT * self._seconds for seconds in imports
        )
        return Trouble(Status.FAILED if slow else Status.TIMED_OUT, text, step)

    def _at(self, rank: _Rank) -> str:
        """The current step of a rank in words."""
        if rank.place == 0:
            loading = IMPORTING if self._imports else self._steps[0].what
            return loading if rank.imported_after is None else ASKING
        return self._steps[rank.place].what

    def _trouble(self) -> Optional[Trouble]:
        failed = [rank for rank in self._ranks if rank.failure is not None]
        if not failed:
            return None
        first = min(failed, key=_blame)
        assert first.failure is not None
        error, text = first.failure.error, reason(first.failure.text)
        if error in (Status.NO_TORCH, Status.REFUSED):
            return Trouble(Status(error), text, self._step())
        what = self._steps[first.place].what
        where = f"rank {first.number} ({self.key_of(first.number)})"
        return Trouble(Status.FAILED, f"{where}, {what}: {text}", self._steps[first.place])


def _blame(rank: _Rank) -> "tuple[int, int]":
    """Sort key: ranks that only lost another rank come last."""
    failure = rank.failure
    if failure is None or failure.error in (Status.NO_TORCH, Status.REFUSED):
        return 0, rank.number
    if failure.text.startswith("its process"):
        return 1, rank.number
    words = ("ncclRemoteError", "closed by", "Broken pipe", "reset by peer", "Connection refused")
    return (3 if any(word in failure.text for word in words) else 2), rank.number


def reason(text: str) -> str:
    """Extract the library's error, and the last one that it noted, from torch's message."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if line.startswith("nccl")]
    after = lines[lines.index("Last error:") + 1 :] if "Last error:" in lines else []
    chosen = [*named, *after[:2]] if named else lines
    return one_line(" ".join(dict.fromkeys(chosen)), 600)
