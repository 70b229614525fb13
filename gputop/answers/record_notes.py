"""What a recorder notes beside the figures: events, processes, verdicts, clocks that jump."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from gputop.answers.watch import NodeLook, lines_between, look_of
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.diagnosis.events import Watcher
from gputop.topology.diagnosis.policy import Policy
from gputop.topology.model.gathered import gathered
from gputop.topology.model.readings import ProcessReading
from gputop.topology.model.severity import Severity, Verdict
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.units import ranged
from gputop.topology.model.units import seconds as spoken
from gputop.topology.node import Node
from gputop.topology.recorded.sessions.changes import NoteKind, SessionNote
from gputop.topology.wiring.gpu_names import gpu_label

JUDGE_SECONDS = 10.0
"""From one judging to the next where nothing happens: 5 ms of work for 8 GPUs."""
NEWS_SECONDS = 1.0
"""The same after an event."""
JUDGE_COSTS = 1000
"""At least so many times what the last one took: a thousandth of a core."""
CLOCK_SECONDS = 1.0
"""By so much the clock of the host may run away from the kernel's steady one in a reading."""
MOST_COMMAND = 60


class Noting:
    """Compares each reading of one recorder with those before; used by one thread."""

    def __init__(
        self, policy: Policy | None = None, steady: Callable[[], float] = time.monotonic
    ) -> None:
        """`policy`: what the site silences; `steady`: a clock that never jumps."""
        self._policy, self._steady = policy or Policy(), steady
        self._watcher = Watcher()
        self._events: tuple[object, ...] = ()
        self._node: Node | None = None
        self._first: NodeSnapshot | None = None
        self._look: NodeLook | None = None
        self._judge_at = 0.0
        self._running: dict[int, str] = {}
        self._clocks: tuple[float, float] | None = None

    def of(self, snapshot: NodeSnapshot) -> tuple[SessionNote, ...]:
        """What is new with this reading."""
        begins = self._node is None
        found = [SessionNote(NoteKind.RECORDER, "recording begins")] if begins else []
        found += self._clock(snapshot)
        found += self._processes(snapshot, begins=begins)
        news = self._watcher.see(snapshot)
        if news:
            events = self._watcher.events
            for event in events:
                if event not in self._events:
                    found.append(
                        SessionNote(NoteKind.EVENT, event.text, str(event.harm), event.device)
                    )
            self._events = events
        self._node = Node(snapshot) if self._node is None else self._node.follow(snapshot)
        return (*found, *self._verdicts(news=news))

    def _clock(self, snapshot: NodeSnapshot) -> Iterator[SessionNote]:
        now = snapshot.taken_at, self._steady()
        before, self._clocks = self._clocks, now
        if before is not None and snapshot.is_live:
            jump = (now[0] - before[0]) - (now[1] - before[1])
            if abs(jump) > CLOCK_SECONDS:
                way = "forward" if jump > 0 else "back"
                yield SessionNote(
                    NoteKind.CLOCK, f"the clock was set {way} by {spoken(abs(jump))}", "notice"
                )

    def _processes(self, snapshot: NodeSnapshot, *, begins: bool) -> Iterator[SessionNote]:
        """Processes that came to GPUs or left them; those of the first reading are no news."""
        labels = {gpu.address: gpu_label(gpu) for gpu in snapshot.machine.gpus}
        pairs = (
            (process.pid, labels.get(reading.address, reading.address))
            for reading in snapshot.readings.gpus
            for process in reading.processes or ()
        )
        places = {pid: ranged(dict.fromkeys(names)) for pid, names in gathered(pairs).items()}
        told = {process.pid: process for process in snapshot.readings.processes}
        for pid, place in places.items():
            if pid not in self._running and not begins:
                yield SessionNote(
                    NoteKind.PROCESS, f"{_called(pid, told.get(pid))} began on {place}"
                )
        for pid, place in self._running.items():
            if pid not in places:
                yield SessionNote(NoteKind.PROCESS, f"process {pid} ended on {place}")
        self._running = places

    def _verdicts(self, *, news: bool) -> Iterator[SessionNote]:
        now = time.monotonic()
        if self._node is None or now < self._judge_at - news * (JUDGE_SECONDS - NEWS_SECONDS):
            return
        begun = time.thread_time()
        self._node = self._node.decide()
        snapshot = self._node.snapshot
        case = Case(self._node, earlier=self._first, policy=self._policy)
        look = look_of(diagnose(case))
        self._first = self._first or snapshot
        for line in lines_between(self._look, look):
            if self._look is not None or line.mark is not Verdict.HEALTHY:
                harm = str(line.mark) if isinstance(line.mark, Severity) else ""
                yield SessionNote(NoteKind.VERDICT, line.text, harm)
        self._look = look
        cost = time.thread_time() - begun
        self._judge_at = now + max(JUDGE_SECONDS, JUDGE_COSTS * cost)


def _called(pid: int, process: ProcessReading | None) -> str:
    command = (process.command or "") if process is not None else ""
    return f"process {pid} ({command[:MOST_COMMAND]})" if command else f"process {pid}"
