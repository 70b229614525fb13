"""What the jobs on the node said of themselves last, for all screens and the tabs."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from textual.message import Message

from gputop.topology.jobs.grouping import jobs

if TYPE_CHECKING:
    from gputop.live.host import NodeHost
    from gputop.live.recent import Recent
    from gputop.topology.jobs.asking import JobsReport
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.report import Report

CALM_SECONDS = 30.0
"""Jobs of several ranks are asked so often whatever screen is shown; it takes them milliseconds."""
ASK_AGAIN_SECONDS = 3.0
"""Processes may come and go all the time: they are asked no more often than this."""


class JobsTold(Message):
    """A thread has asked the jobs of this machine, or made up what those of a demo say."""

    def __init__(self, snapshot: NodeSnapshot, answer: JobsReport | None) -> None:
        super().__init__()
        self.snapshot = snapshot
        self.answer = answer


class JobsController:
    """Asks the jobs: of a demo once, of this machine at a calm interval and on a key."""

    def __init__(self, host: NodeHost) -> None:
        self._host = host
        self.answer: JobsReport | None = None
        self._prepared: tuple[str, ...] = ()
        """The source of the node for which an answer was made up."""
        self._of: object = None
        """The processes that the answer of a demo is about."""
        self._recorded = False
        """Whether the answer is what was kept beside a recording, whose findings have it."""
        self._asked: tuple[frozenset[int], float] = (frozenset(), 0.0)
        """The processes on the GPUs when this machine was asked last, and when: monotonic."""

    def forget(self) -> None:
        """Forget everything: another node is shown."""
        self.answer = self._of = None
        self._prepared, self._recorded = (), False
        self._asked = frozenset(), 0.0

    def show_recorded(self, answer: JobsReport | None) -> None:
        """Show what was kept of the jobs of a recording."""
        self.answer, self._recorded = answer, answer is not None

    def prepare(self, report: Report) -> None:
        """Behind the first findings, make up what a demo's jobs say, and ask those that run."""
        snapshot = report.snapshot
        if report.diagnosis is None:
            return
        if snapshot.is_live and any(len(job.processes) > 1 for job in jobs(snapshot)):
            self.ask_if_due(snapshot, CALM_SECONDS)
        if snapshot.is_demo and self._prepared != snapshot.source:
            self._prepared = snapshot.source
            self._start(snapshot, partial(of_demo, snapshot))

    def ask_if_due(self, snapshot: NodeSnapshot, calm: float | None = None) -> None:
        """Ask when processes came or went: what was said is about others. Or after `calm` s."""
        pids, at = self._asked
        ago = time.monotonic() - at
        changed = described(snapshot) != pids and ago >= ASK_AGAIN_SECONDS
        if changed or not at or (calm is not None and ago >= calm):
            self.ask(snapshot)

    def ask(self, snapshot: NodeSnapshot) -> None:
        """Ask the jobs of this machine, in a thread; a demo or a recording has none to ask."""
        if snapshot.is_live:
            self._asked = described(snapshot), time.monotonic()
            self._start(snapshot, asking(snapshot, self.answer, self._host.recent))

    def _start(self, snapshot: NodeSnapshot, ask: Callable[[], JobsReport | None]) -> None:
        def work() -> None:
            self._host.post_message(JobsTold(snapshot, ask()))

        self._host.run_worker(
            work, thread=True, exclusive=True, group="jobs asked", exit_on_error=False
        )

    def accept(self, message: JobsTold) -> None:
        """Keep what was said, unless the screen was faster or another node is shown."""
        report = self._host.report
        if report is None or report.snapshot.source != message.snapshot.source:
            return
        if message.snapshot.is_live or self._of is None:
            self._keep(message.answer)
            self._of = None if message.snapshot.is_live else message.snapshot.readings.processes

    def look(self, snapshot: NodeSnapshot) -> None:
        """Make up what a demo's jobs say of these processes; a recording keeps what it has."""
        if self._recorded:
            return
        if self._of is None or self._of != snapshot.readings.processes:
            self._of = snapshot.readings.processes
            self._keep(of_demo(snapshot))

    def _keep(self, answer: JobsReport | None) -> None:
        self.answer = answer
        self._host.findings.of_jobs(answer)


def described(snapshot: NodeSnapshot) -> frozenset[int]:
    """The processes on the GPUs that the operating system describes, by number."""
    return frozenset(process.pid for process in snapshot.readings.processes)


def asking(
    snapshot: NodeSnapshot, before: JobsReport | None, recent: Recent
) -> Callable[[], JobsReport]:
    """What asks the jobs of this machine, which takes up to some seconds: for a thread alone.

    `before`: what they said last, so that standing still since then is known; `recent`: what the
    GPUs carried lately, which is read at once. Nothing is said of it before the readings go back
    far enough to call a GPU silent: a rate needs two, so at first none has any.
    """
    from gputop.live.past import past_of
    from gputop.topology.jobs.asking import ask_live
    from gputop.topology.jobs.silence import STOPPED_SECONDS

    memory = None if before is None else before.memory
    past = past_of(recent) if recent.watched_seconds >= STOPPED_SECONDS else None
    return partial(ask_live, snapshot, ras=True, memory=memory, past=past)


def of_demo(snapshot: NodeSnapshot) -> JobsReport | None:
    """The simulated answer of a demo; None for anything else."""
    from gputop.simulating.jobs import of_node

    return of_node(snapshot)
