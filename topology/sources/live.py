"""Live sessions: one daemon thread for each source, so that a hanging driver delays only itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ..model.machine import Machine
from ..model.part import PartialNode, has_machine
from ..model.readings import pace_seconds
from ..model.snapshot import NodeSnapshot, Problem, ProblemKind, SourceState
from ..model.source import Source, SourceAbsent
from ..plugins import PluginRefused
from . import MAKERS, NAMES, load
from .collect import merge, merge_machine
from .feed import LATER_SECONDS
from .plugged import plugged

RETRY_ABSENT_SECONDS = 10.0
"""A source that had nothing to ask is tried again after so long: a driver may come up meanwhile."""


def load_sources(names: Sequence[str] = NAMES) -> tuple[Source, ...]:
    """Import the sources of those names, in that order."""
    return tuple(load(name) for name in names)


def _is_idle_talk(problem: Problem, makers: set[str]) -> bool:
    """Whether the missing driver is of a vendor without GPUs here, while another one has some."""
    maker = MAKERS.get(problem.source)
    return (
        problem.kind == ProblemKind.ABSENT
        and maker is not None
        and bool(makers)
        and maker not in makers
    )


class SourceThread:
    """Asks one source again and again; its last answer is `part`."""

    def __init__(
        self,
        source: Source,
        answered: Callable[[SourceThread], None],
        **hints: bool,
    ) -> None:
        self.source = source
        self.hints: dict[str, Any] = {name: value for name, value in hints.items() if value}
        """Attributes to set on the reader before each read, where it has them."""
        self.part: PartialNode | None = None
        self.problem: Problem | None = None
        self._reader: Any = None
        self.answered_at: float | None = None
        """When `part`, or the refusal in its place, arrived. Monotonic."""
        self.elapsed_seconds: float | None = None
        self.asked_at: float | None = None
        """When the unanswered question was asked; None while there is none. Monotonic."""
        self._answered = answered
        self._closed = threading.Event()
        self._wake = threading.Event()
        self._wanted, self._served = 1, 0
        """How often it was asked to read, and how many of these reads were answered and handed
        over."""
        self._thread = threading.Thread(target=self._run, name=f"source {source.id}", daemon=True)

    def start(self, factor: Callable[[], float], delay_seconds: float = 0.0) -> None:
        """Start asking, at the source's `interval_seconds` times the factor of the moment."""
        self._factor = factor
        self._delay_seconds = delay_seconds
        self._thread.start()

    def close(self) -> None:
        """Let the thread end after its current read; does not wait."""
        self._closed.set()
        self._wake.set()

    def ask_again(self, **hints: Any) -> None:
        """Read once more, at once, with these hints; never from two threads."""
        self.hints = {**self.hints, **hints}
        self._wanted += 1
        self._wake.set()

    def settled(self) -> bool:
        """Whether the latest question has an answer or a refusal."""
        return self._served == self._wanted

    def unfinished(self, now: float) -> PartialNode | None:
        """What the reader knows so far of its first answer, once that is past its deadline."""
        asked, reader = self.asked_at, self._reader
        so_far: Callable[[], Any] | None = getattr(reader, "so_far", None)
        if self.part is not None or asked is None or so_far is None:
            return None
        if now - asked <= self.source.deadline_seconds:
            return None
        raw = so_far()
        return None if raw is None else self.source.parse(raw)

    def state(self, now: float) -> SourceState:
        """Age of the last answer and, past the deadline, of the open question; `now` monotonic."""
        asked = self.asked_at
        waiting = None if asked is None else now - asked
        return SourceState(
            source=self.source.id,
            age_seconds=None if self.answered_at is None else round(now - self.answered_at, 3),
            elapsed_seconds=self.elapsed_seconds,
            waiting_seconds=round(waiting, 3)
            if waiting is not None and waiting > self.source.deadline_seconds
            else None,
        )

    def _ask(self) -> float:
        """Ask once, and keep the part or the problem; gives the seconds until the next time."""
        pause = self.source.interval_seconds
        try:
            if self._reader is None:
                self._reader = self.source.reader()
            for name, value in self.hints.items():
                if hasattr(self._reader, name):
                    setattr(self._reader, name, value)
            part = self.source.parse(self._reader())
        except SourceAbsent as absent:
            problem = Problem(source=self.source.id, kind=absent.kind, text=str(absent))
            self.part, self.problem = None, problem
            self._reader = None
            return max(pause, RETRY_ABSENT_SECONDS / self._factor())
        except Exception as error:  # noqa: BLE001 - the source border: one source must not stop the others
            # The last good answer stays; its age shows that it is old.
            kind = "" if isinstance(error, PluginRefused) else f"{type(error).__name__}: "
            self.problem = Problem(source=self.source.id, text=f"{kind}{error}"[:300])
            self._reader = None
        else:
            self.part, self.problem = part, None
        return pause

    def _run(self) -> None:
        self._closed.wait(self._delay_seconds)
        while not self._closed.is_set():
            self._wake.clear()
            wanted = self._wanted
            started = self.asked_at = time.monotonic()
            pause = self._ask()
            now = time.monotonic()
            self.elapsed_seconds = round(now - started, 6)
            if self.part is None or self.problem is None:
                self.answered_at = now
            self.asked_at = None
            self._answered(self)
            self._served = wanted
            again: float | None = getattr(self._reader, "again_seconds", None)
            if not self._closed.is_set():
                self._wake.wait(pause * self._factor() if again is None else again)


class LiveFeed:
    """The machine itself, live. Threads start at once; the first snapshot may still be empty."""

    def __init__(
        self,
        sources: Iterable[Source] | None = None,
        *,
        interval: float | None = None,
        version: str = "",
        with_args: bool = False,
        thorough: bool = False,
        wiring: bool = False,
    ) -> None:
        """`interval`: seconds between two readings; without it `pace_seconds` says.

        `thorough`: a single reading has to hold everything; `wiring`: of that only how devices are
        connected.
        """
        self._version = version
        self._interval = interval
        self._with_args = with_args
        self._news = threading.Event()
        self._asking = threading.Lock()
        self._machine_key: tuple[int, ...] = ()
        self._machine_parts: tuple[PartialNode, ...] = ()
        self._merged = self._machine = Machine()
        """What the parts say, and the same with the libraries that processes have loaded."""
        self.threads: tuple[SourceThread, ...] = ()
        # Each is asked as soon as it is imported: the libraries of vendors, which come first, take
        # their time meanwhile.
        self._thorough, self._wiring, self._with_plugins = thorough, wiring, sources is None
        for source in map(load, NAMES) if sources is None else sources:
            self._ask(source)
        self.join_plugins()
        # A driver may have answered before the source that describes its processes was imported.
        self._describe_processes()

    def join_plugins(self) -> None:
        """Ask the sources of plugins too, once; in the app after its first row."""
        for source in plugged() if self._with_plugins else ():
            if source.id not in {thread.source.id for thread in self.threads}:
                self._ask(source)

    def _ask(self, source: Source) -> None:
        hints = {"thorough": self._thorough, "wiring": self._wiring}
        thread = SourceThread(source, self._on_answer, **hints)
        self.threads = (*self.threads, thread)
        # What the first picture does not show must not compete with it for time.
        waits = not (self._thorough or source.opening)
        thread.start(self._pace, LATER_SECONDS if waits else 0.0)

    def _pace(self) -> float:
        return self._interval or pace_seconds(len(self._machine.gpus))

    def snapshot(self) -> NodeSnapshot:
        """Merge the last answers of all sources; a few milliseconds at most, never blocks."""
        now = time.monotonic()
        self._news.clear()
        # Each attribute is read once: its thread may change it between two looks.
        parts = tuple(
            part
            for thread in self.threads
            if (part := thread.part or thread.unfinished(now)) is not None
        )
        static = tuple(filter(has_machine, parts))
        key = tuple(map(id, static))
        if key != self._machine_key:
            machine = merge_machine(static)
            if machine != self._merged:
                self._merged = machine
            self._machine_key, self._machine_parts = key, static
        snapshot = merge(
            parts,
            taken_at=time.time(),
            source=("live",),
            gputop=self._version,
            machine=self._merged,
        )
        # An equal machine stays the same object, so that nothing is rebuilt for it.
        machine = snapshot.machine
        if machine is not self._machine and machine != self._machine:
            self._machine = machine
        snapshot = msgspec.structs.replace(snapshot, machine=self._machine)
        states = tuple(thread.state(now) for thread in self.threads)
        problems = (*snapshot.problems, *self._problems(states))
        return msgspec.structs.replace(snapshot, states=states, problems=problems)

    def _problems(self, states: Iterable[SourceState]) -> Iterator[Problem]:
        """What sources could not read, and those that do not answer."""
        makers = {gpu.vendor for gpu in self._machine.gpus}
        for thread in self.threads:
            if (said := thread.problem) is not None and not _is_idle_talk(said, makers):
                yield said
        for state in states:
            if state.waiting_seconds is not None:
                text = f"{state.source} has not answered for {state.waiting_seconds:.0f} s"
                yield Problem(source=state.source, kind=ProblemKind.NOT_ANSWERING, text=text)

    def wait(self, timeout: float) -> bool:
        """Block until a source has answered since the last snapshot, or the time is over."""
        return self._news.wait(timeout)

    def opened(self) -> bool:
        """Whether the sources that a first picture needs have answered, or cannot."""
        return all(thread.settled() for thread in self.threads if thread.source.opening)

    def settled(self) -> bool:
        """Whether every source has answered, if only to say that it cannot."""
        return all(thread.settled() for thread in self.threads)

    def close(self) -> None:
        """Let all threads end; does not wait for any."""
        for thread in self.threads:
            thread.close()
        self._news.set()

    def _on_answer(self, thread: SourceThread) -> None:
        if thread.source.id.endswith("_readings") and thread.part is not None:
            self._describe_processes()
        self._news.set()

    def _describe_processes(self) -> None:
        """Ask about the processes that the drivers name, where they are others than before."""
        with self._asking:
            pids = frozenset(
                process.pid
                for thread in self.threads
                if (part := thread.part) is not None
                for reading in part.gpu_readings
                for process in reading.processes or ()
            )
            for other in self.threads:
                if other.source.id == "processes" and other.hints.get("pids", frozenset()) != pids:
                    other.ask_again(pids=pids, with_args=self._with_args)
