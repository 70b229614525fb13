"""Jobs: the processes on the GPUs, with their users, binding and variables."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from textual.containers import Container
from textual.message import Message
from textual.widget import Widget
from textual.worker import get_current_worker

from gputop.screens.jobs.details import detail_lines, heading
from gputop.screens.jobs.head import head_lines
from gputop.screens.jobs.list import JobList, JobRow, rows_of
from gputop.screens.jobs.variables import VariableDetails, process_with_variables, work_out
from gputop.screens.jobs.why import why_job
from gputop.screens.listed import ListedView
from gputop.topology.jobs.grouping import jobs
from gputop.widgets.board import Board
from gputop.widgets.key import note, scroll_keys, select_keys

if TYPE_CHECKING:
    from gputop.live.findings import Shown
    from gputop.screens.host import ScreenHost
    from gputop.screens.selection import PickedDevices
    from gputop.topology.diagnosis.finding import Finding
    from gputop.topology.jobs.grouping import GpuUser, Job
    from gputop.topology.model.page import Page
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.report import Report

GROUP = "job flags"
PAUSE_SECONDS = 0.1
"""How long a request waits for a later one: moving through the list predicts nothing on the way."""
LIMIT_KEPT = 64
ABOUT_JOBS = frozenset(
    {
        "containers-apart",
        "gpu-memory-unlisted",
        "gpu-shared",
        "job-zombie",
        "numa-binding",
        "rank-gpu-idle",
        "rank-stopped",
        "ranks-differ",
        "ranks-share-cpus",
        "ranks-share-gpu",
    }
)
"""Rules whose findings are shown beside the job that they are about."""


class JobRequest(NamedTuple):
    """A request: explain the variables of one rank on the GPUs of its job."""

    prediction: object
    """The prediction of the node; another one means that the node is another."""
    gpus: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    pid: int

    def same(self, other: JobRequest | None) -> bool:
        """Whether the other one is about the same node, too."""
        return other is not None and self.prediction is other.prediction and self[1:] == other[1:]


class JobsScreen(ListedView):
    """The list beside the selected job or process."""

    TITLE = "Jobs"
    LIST = "#job-list"
    DETAILS = "#job"
    KEYS = (
        *select_keys("select a job or one of its processes"),
        note(
            "to GPU",
            "near: CPUs at the GPU's NUMA node; partly; ✗ far; ✗ shared: more ranks than CPUs",
        ),
        note("variables", "* acts here, ! without effect, ? unknown name"),
        note("y", "copy what is known of it"),
        note("p", "probe its GPUs"),
        *scroll_keys("scroll_details", 5, "scroll the panel", "more"),
    )
    LINE = ("w", "y", "PgDn")
    SCROLLED = DETAILS

    class Answered(Message):
        """A thread has worked out what the variables of a process do."""

        def __init__(self, request: JobRequest, details: VariableDetails) -> None:
            super().__init__()
            self.request = request
            self.details = details

    def __init__(self, name: str, gputop: ScreenHost) -> None:
        super().__init__(name, gputop)
        self._known: list[tuple[JobRequest, VariableDetails]] = []
        """The last answers, the newest at the end."""
        self._request: JobRequest | None = None
        """The request that a thread works on."""

    def body(self) -> Iterable[Widget]:
        """The list beside the panel."""
        yield Board(id="job-head")
        with Container(id="jobs"):
            yield JobList(id="job-list", classes="titled")
            yield Board(id="job", classes="titled")

    def draw(self, report: Report) -> None:
        """Update both parts; on most ticks only figures have changed."""
        snapshot = report.snapshot
        table, board = self._list, self.query_one("#job", Board)
        listed = (snapshot.readings.gpus, snapshot.readings.processes, snapshot.machine)
        found = jobs(snapshot)
        table.draw_once(lambda: self._draw_list(found, snapshot), *listed)
        self._draw_head(found, report, *listed)
        board.draw_once(
            lambda: self._draw_details(report, board),
            *listed,
            report.prediction,
            report.diagnosis,
            self.gputop.findings.quiet,
            tuple(map(id, self._known)),
            table.selected,
        )

    def _draw_head(self, found: tuple[Job, ...], report: Report, *listed: object) -> None:
        head, width = self.query_one("#job-head", Board), max(self.app.size.width - 2, 20)
        shown = self.shown
        findings = () if shown is None else about_jobs(shown.findings)

        def draw() -> None:
            lines = head_lines(found, report.snapshot, findings, width)
            head.show([((" ", ""), *line) for line in lines])

        quiet = self.gputop.findings.quiet
        head.draw_once(draw, *listed, report.diagnosis, quiet, width)

    def _draw_list(self, found: tuple[Job, ...], snapshot: NodeSnapshot) -> None:
        count = sum(len(job.processes) for job in found)
        self._list.caption(
            f"{len(found)} job{'s' * (len(found) != 1)}, {count} process{'es' * (count != 1)} "
            "on the GPUs"
        )
        self._list.show_rows(rows_of(found, snapshot), nothing(snapshot))

    def _draw_details(self, report: Report, board: Board) -> None:
        row = self._list.row
        if row is None:
            board.caption("")
            board.show(())
            return
        board.caption(heading(row))
        width = max((board.scrollable_content_region.width or 60) - 1, 30)
        variables = self._variables(report, row)
        board.show(detail_lines(row, report.snapshot, variables, about(row, self.shown), width))

    def _variables(self, report: Report, row: JobRow) -> VariableDetails | None:
        """The answer for this row; requested if there is none yet."""
        user = process_with_variables(row.job, row.user)
        if user is None:
            process = (row.user or row.job.processes[0]).reading
            return VariableDetails(trouble=process.why("variables") or "not read")
        if not user.reading.variables:
            nothing = "none of those that {library}, {runtime} or PyTorch read is set"
            return VariableDetails(trouble=self.gputop.words.say(nothing))
        if not report.node.decided:
            return None
        request = JobRequest(report.prediction, row.job.gpus, user.reading.variables, user.pid)
        found = next((known for key, known in self._known if request.same(key)), None)
        if found is None:
            self._ask(request, report.snapshot, row.job.gpus, user)
        return found

    def _ask(
        self, request: JobRequest, snapshot: NodeSnapshot, gpus: tuple[str, ...], user: GpuUser
    ) -> None:
        if request.same(self._request):
            return
        self._request = request

        def work() -> None:
            worker = get_current_worker()
            time.sleep(PAUSE_SECONDS)
            details = None
            if not worker.is_cancelled:
                details = work_out(snapshot, gpus, user, lambda: worker.is_cancelled)
            if details is not None and not worker.is_cancelled:
                self.post_message(self.Answered(request, details))

        self.run_worker(work, thread=True, exclusive=True, group=GROUP, exit_on_error=False)

    def on_jobs_screen_answered(self, message: Answered) -> None:
        """Keep what was worked out, and show it if it is still wanted."""
        self._known = [*self._known[-LIMIT_KEPT:], (message.request, message.details)]
        if message.request.same(self._request):
            self._request = None
        self.redraw()

    @property
    def _list(self) -> JobList:
        return self.query_one("#job-list", JobList)

    def carry(self) -> None:
        """Carry the first GPU of the job or process along."""
        targets = self.probe_targets()
        if targets and self.gputop.selected.among(targets) is None:
            self.gputop.selected.pick(targets[0])

    def take_selection(self, selected: PickedDevices) -> None:
        """Select what uses the GPU that was picked elsewhere."""
        if selected.device is not None:
            self._list.select_about(selected.device)

    def selected_text(self) -> str:
        """What the panel says."""
        row = self._list.row
        return "" if row is None else self.query_one("#job", Board).text()

    def probe_targets(self) -> tuple[str, ...]:
        """The GPUs of the selected job or process."""
        row = self._list.row
        if row is None:
            return ()
        return row.job.gpus if row.user is None else row.user.gpus

    def why(self) -> Page | None:
        """Explain the binding of the selected job or process, and its oddities."""
        row, report = self._list.row, self.report
        if row is None or report is None:
            return None
        return why_job(row, report.snapshot, about(row, self.shown))


def about_jobs(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Those of the findings that are about running jobs."""
    return tuple(finding for finding in findings if finding.id in ABOUT_JOBS)


def about(row: JobRow, shown: Shown | None) -> tuple[Finding, ...]:
    """Findings on running jobs that name a GPU of this job, without silenced ones."""
    mine = set(row.job.gpus if row.user is None else row.user.gpus)
    findings = () if shown is None else about_jobs(shown.findings)
    return tuple(finding for finding in findings if not mine.isdisjoint(finding.devices))


def nothing(snapshot: NodeSnapshot) -> str:
    """Why the list is empty, as far as that is known."""
    lists = [gpu.processes for gpu in snapshot.readings.gpus]
    if not lists or None in lists:
        return "the driver does not say which processes use the GPUs"
    host = snapshot.machine.host
    container = None if host is None else host.container
    if container is not None and container.kind is not None:
        return "no process is listed; from inside a container the host's are not seen"
    return "no process uses a GPU"


SCREEN = JobsScreen
