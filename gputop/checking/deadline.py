"""Runs work in a child process and ends in time, whatever a driver does to that child.

A thread inside a driver call may not be ended by any signal, and keeps its process from ending. So
the process that the engine waits for never asks a driver: it waits for the child's answer until the
deadline, kills it, and does not wait for its end. The child's output goes through this process,
since an engine also waits until nobody holds its streams.
"""

from __future__ import annotations

import contextlib
import io
import os
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import click
import msgspec

import gputop
from gputop.exits import OWN_ERROR, Exit
from gputop.probes.runner.lifeline import die_with_parent
from gputop.terminal.output import Outlet
from gputop.topology.diagnosis.engine import Diagnosis
from gputop.topology.fleet.section import FleetSection, NodeOrigin
from gputop.topology.model.finding import Finding
from gputop.topology.model.machine import Machine
from gputop.topology.model.page import Fact, Fix
from gputop.topology.model.severity import CANNOT_TELL, Verdict, Word
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.surroundings import Host

_RESERVE_SHARE, _LEAST_RESERVE, _MOST_RESERVE = 0.2, 1.0, 10.0
"""The part of a deadline that is kept for what follows measuring: reading again, judging, writing;
two seconds on a node of eight GPUs."""
_WRITE_SECONDS = 0.5
"""The part of it that is kept for writing the answer in any case."""
_STDERR = 2
_CHUNK = 1 << 16
_LONGEST_OUTPUT = 64 * 1024 * 1024
_END_SECONDS = 0.2
LATE, FAILED = "check-late", "check-failed"


class MessageKind(Word):
    """What a message of the child holds."""

    STAGE = "stage"
    DOCUMENT = "document"
    END = "end"


class _Message(msgspec.Struct, frozen=True, array_like=True):
    """What the child says: a stage that began, a document, or its end."""

    kind: MessageKind
    text: str = ""
    code: int = 0


@dataclass
class Supervised:
    """What came of the work."""

    code: int | None = None
    """Its exit code; None where it did not end in time, or ended without one."""
    problem: str = ""
    """Why it ended without an answer, in one sentence, where it said so."""
    stages: list[str] = field(default_factory=list)
    """What it began to do, in order; the last one is what it was doing at its end."""
    document: str = ""
    """What it handed over with `Relay.hand_over`."""
    output: bytes = b""
    """What it printed on stdout."""
    timed_out: bool = False


class Relay:
    """The child's line to the process that waits for it."""

    def __init__(self, number: int) -> None:
        self._number = number

    def stage(self, text: str) -> None:
        """Say what is begun now."""
        self._send(_Message(MessageKind.STAGE, text))

    def hand_over(self, document: str) -> None:
        """Give the document that the waiting process is to write."""
        self._send(_Message(MessageKind.DOCUMENT, document))

    def end(self, code: int, problem: str = "") -> None:
        """Say the exit code."""
        self._send(_Message(MessageKind.END, problem, code))

    def _send(self, message: _Message) -> None:
        data = msgspec.msgpack.encode(message)
        left = memoryview(len(data).to_bytes(8, "big") + data)
        while left:
            left = left[os.write(self._number, left) :]


def ends_of(seconds: float) -> tuple[float, float]:
    """When measuring and all the work has to be over, by the monotonic clock.

    The time of the imports counts, but not what a process did before it came to this command.
    """
    begun = time.monotonic() - (_age_seconds() if gputop.own_process else 0.0)
    reserve = min(_MOST_RESERVE, max(_LEAST_RESERVE, seconds * _RESERVE_SHARE))
    return begun + seconds - reserve, begun + seconds - _WRITE_SECONDS


def _age_seconds() -> float:
    """How long this process runs already; 0 where the system does not say (proc(5), starttime)."""
    try:
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        began = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - began)
    except (AttributeError, OSError, ValueError, IndexError):
        return 0.0


def supervised(work: Callable[[Relay], int], until: float) -> Supervised:
    """Run `work` in a child until this monotonic time at the latest; its stderr passes through.

    `work` returns an exit code, or raises Exit.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    pipes = [os.pipe() for _ in range(3)]
    here = os.getpid()
    child = os.fork()
    if child == 0:
        _become(work, pipes, here)
    for _, writing in pipes:
        os.close(writing)
    try:
        return _watch([reading for reading, _ in pipes], until)
    finally:
        for reading, _ in pipes:
            os.close(reading)
        _leave(child)


def _become(work: Callable[[Relay], int], pipes: list[tuple[int, int]], parent: int) -> NoReturn:
    """The child's life; it never returns into the code of the parent."""
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        die_with_parent(parent, signal.SIGKILL)
        (_, talk), (_, out), (_, err) = pipes
        nowhere = os.open(os.devnull, os.O_RDONLY)
        # What a driver's library prints itself, to 1, is no part of the answer.
        for number, place in ((nowhere, 0), (err, 1), (err, _STDERR)):
            os.dup2(number, place)
        sys.stdout, sys.stderr = (
            Outlet(io.TextIOWrapper(os.fdopen(place, "wb"), encoding="utf-8"))
            for place in (out, _STDERR)
        )
        line = Relay(talk)
        code, problem = _result(work, line)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                with contextlib.suppress(OSError, Exit):
                    stream.flush()
        line.end(code, problem)
    finally:
        # No end of Python's own: it would wait for threads that a driver holds.
        os._exit(0)


def _result(work: Callable[[Relay], int], line: Relay) -> tuple[int, str]:
    try:
        return work(line), ""
    except Exit as end:
        return end.exit_code, str(end)
    except Exception as error:  # noqa: BLE001 - the border of the process, like that of the program
        if os.environ.get("GPUTOP_DEBUG"):
            traceback.print_exc()
        return OWN_ERROR, f"{type(error).__name__}: {error} (our fault; GPUTOP_DEBUG=1 shows where)"


def _watch(pipes: list[int], until: float) -> Supervised:
    talk, out, err = pipes
    found = Supervised()
    heard = bytearray()
    printed = bytearray()
    with selectors.DefaultSelector() as selector:
        for number in pipes:
            os.set_blocking(number, False)
            selector.register(number, selectors.EVENT_READ)
        while talk in (key.fd for key in selector.get_map().values()):
            left = until - time.monotonic()
            if left <= 0:
                found.timed_out = True
                break
            for key, _ in selector.select(left):
                data = _read(key.fd)
                if not data:
                    selector.unregister(key.fd)
                elif key.fd == talk:
                    heard += data
                elif key.fd == out and len(printed) < _LONGEST_OUTPUT:
                    printed += data
                elif key.fd == err:
                    _pass_on(data)
            if _understand(heard, found):
                break
        # It flushed before it said that it is at its end: what it printed is there.
        for number in (out, err):
            while data := _read(number):
                if number == out:
                    printed += data
                else:
                    _pass_on(data)
    found.output = bytes(printed)
    return found


def _read(number: int) -> bytes:
    try:
        return os.read(number, _CHUNK)
    except BlockingIOError:
        return b""


def _pass_on(data: bytes) -> None:
    if sys.stderr is not None:
        with contextlib.suppress(OSError, Exit):
            click.echo(data.decode(errors="replace"), err=True, nl=False)


def _understand(heard: bytearray, found: Supervised) -> bool:
    """Take whole messages out of what was heard; True after the last one."""
    while len(heard) >= 8:
        size = int.from_bytes(heard[:8], "big")
        if len(heard) < 8 + size:
            return False
        message = msgspec.msgpack.decode(bytes(heard[8 : 8 + size]), type=_Message)
        del heard[: 8 + size]
        if message.kind is MessageKind.STAGE:
            found.stages.append(message.text)
        elif message.kind is MessageKind.DOCUMENT:
            found.document = message.text
        else:
            found.code, found.problem = message.code, message.text
            return True
    return False


def _leave(child: int) -> None:
    """End the child with all that it started, and give it a moment to go.

    One inside a driver call stays behind. Workers of probes have sessions of their own, and end by
    themselves when the child does.
    """
    give_up = time.monotonic() + _END_SECONDS
    gone = _ended(child)
    while not gone and time.monotonic() < give_up - _END_SECONDS / 2:
        time.sleep(0.005)
        gone = _ended(child)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    while not gone and time.monotonic() < give_up:
        time.sleep(0.005)
        gone = _ended(child)


def _ended(child: int) -> bool:
    try:
        return os.waitpid(child, os.WNOHANG)[0] == child
    except ChildProcessError:
        return True


def late_diagnosis(
    origin: NodeOrigin, ended: Supervised, seconds: float
) -> tuple[Diagnosis, NodeSnapshot, FleetSection]:
    """The verdict "cannot tell", with what did not answer; and the node, of which that is all."""
    doing = ended.stages[-1] if ended.stages else "starting"
    why = ended.problem or (
        f"{doing} did not end" if ended.timed_out else f"its process ended while {doing}"
    )
    title = (
        f"the check did not end within {seconds:g} s: it was {doing}"
        if ended.timed_out
        else f"the check failed: {why}"
    )
    now = time.time()
    finding = Finding.of(
        id=LATE if ended.timed_out else FAILED,
        severity=CANNOT_TELL,
        title=title,
        evidence=(Fact(what="the check", value=why, source="gputop check --deadline"),),
        disproof="a check that ends in time",
        impact="Nothing was examined, so nothing is called healthy.",
        fix=(
            Fix(text="See which source does not answer", command="gputop doctor"),
            Fix(text="Look for processes in a driver call", command="ps -eo pid,stat,wchan:32,cmd"),
        ),
        sources=("gputop check",),
    )
    machine = Machine(host=Host(hostname=origin.host))
    return (
        Diagnosis(findings=(finding,), verdict=Verdict.CANNOT_TELL),
        NodeSnapshot(gputop=gputop.__version__, taken_at=now, machine=machine),
        FleetSection(
            host=origin.host,
            job=origin.job,
            engine=origin.engine,
            rank=origin.rank,
            written_at=now,
        ),
    )
