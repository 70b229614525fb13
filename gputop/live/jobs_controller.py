"""What the jobs on the node said of themselves last, for the screen Jobs and its tab."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

from gputop.topology.model.severity import JobVerdict
from gputop.topology.recorded.demos.demo import names

if TYPE_CHECKING:
    from gputop.live.host import NodeHost
    from gputop.topology.jobs.asking import JobsReport
    from gputop.topology.jobs.standing import JobState
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.report import Report

DEMO = "demo "
WRONG = (JobVerdict.HANGS, JobVerdict.FAULTY, JobVerdict.WAITS)
"""The verdicts that a tab and the first line name."""


class MadeUp(Message):
    """A thread has made up what the jobs of a demo say."""

    def __init__(self, snapshot: NodeSnapshot, answer: JobsReport | None) -> None:
        super().__init__()
        self.snapshot = snapshot
        self.answer = answer


class JobsController:
    """Keeps the answer. Jobs of this machine are asked by their screen, never on a tick."""

    def __init__(self, host: NodeHost) -> None:
        self._host = host
        self.answer: JobsReport | None = None
        self._prepared: tuple[str, ...] = ()
        """The source of the node for which an answer was made up."""
        self._of: object = None
        """The processes that the answer of a demo is about."""

    def forget(self) -> None:
        """Forget everything: another node is shown."""
        self.answer = self._of = None
        self._prepared = ()

    def prepare(self, report: Report) -> None:
        """Make up what a demo's jobs say, behind the first findings: the tab shows it."""
        snapshot = report.snapshot
        if report.diagnosis is None or not snapshot.is_demo or self._prepared == snapshot.source:
            return
        self._prepared = snapshot.source

        def work() -> None:
            self._host.post_message(MadeUp(snapshot, of_demo(snapshot)))

        self._host.run_worker(work, thread=True, group="jobs made up", exit_on_error=False)

    def accept(self, message: MadeUp) -> None:
        """Keep what was made up, unless the screen was faster or another node is shown."""
        report = self._host.report
        same = report is not None and report.snapshot.source == message.snapshot.source
        if same and self._of is None:
            self.answer, self._of = message.answer, message.snapshot.readings.processes

    def look(self, snapshot: NodeSnapshot) -> None:
        """Make up what a demo's jobs say of these processes; nothing for a recording."""
        if self._of is None or self._of != snapshot.readings.processes:
            self._of = snapshot.readings.processes
            self.answer = of_demo(snapshot)


def wrong(answer: JobsReport | None) -> list[JobState]:
    """The jobs that hang, wait or are faulty, the worst first."""
    found = [job for job in (answer.jobs if answer else ()) if job.verdict in WRONG]
    return sorted(found, key=lambda job: job.verdict.order)


def of_demo(snapshot: NodeSnapshot) -> JobsReport | None:
    """The simulated answer of a demo; None for anything else."""
    from gputop.simulating.jobs import simulated

    source = snapshot.source[0] if len(snapshot.source) == 1 else ""
    name = source.removeprefix(DEMO)
    return simulated(snapshot, name) if source.startswith(DEMO) and name in names() else None
