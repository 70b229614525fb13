"""Jobs: the processes on the GPUs, with their users, binding and variables."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from textual.containers import Container
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input
from textual.worker import get_current_worker

from gputop.answers.jobs import nothing
from gputop.live.findings import ABOUT_JOBS
from gputop.live.worst_jobs import told
from gputop.screens.job_sentence import headline
from gputop.screens.jobs.details import CPUS, MEMORY, bindings, detail_lines, heading
from gputop.screens.jobs.list import SORTS, JobList, JobRow, head_lines, rows_of
from gputop.screens.jobs.standing import (
    composition_lines,
    progress_lines,
    said_of,
    signs_of,
    standing_lines,
    standing_of,
    steps_for,
)
from gputop.screens.jobs.variables import (
    JobRequest,
    VariableDetails,
    process_with_variables,
    work_out,
)
from gputop.screens.listing import ListedView
from gputop.terminal.clean import clean
from gputop.topology.jobs.asking import JobsReport
from gputop.topology.jobs.binding import FAR
from gputop.topology.jobs.from_files import there
from gputop.topology.jobs.grouping import Job, jobs
from gputop.topology.model.page import SIMULATED, Fact, Fix, Page
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.units import whole
from gputop.topology.wiring.gpu_names import gpu_label
from gputop.widgets.board import Board
from gputop.widgets.key import Key, note, scroll_keys, select_keys
from gputop.widgets.spans import Line, width_of

if TYPE_CHECKING:
    from gputop.live.findings import Shown
    from gputop.live.host import NodeHost
    from gputop.live.selection import PickedDevices
    from gputop.topology.jobs.binding import Binding
    from gputop.topology.jobs.grouping import GpuUser
    from gputop.topology.model.finding import Finding
    from gputop.topology.report import Report

GROUP = "job flags"
APART = "jobs of no process here"
PAUSE_SECONDS = 0.1
"""How long a request waits for a later one: moving through the list predicts nothing on the way."""
LIMIT_KEPT = 64
LONGEST_WORD = 12
"""Cells of the first line that stay free where a word goes to the second one."""

# Explains how a job or a process is bound, compared with where its GPUs are.
BASIS = (
    "Copies between host and GPU, and the threads that start kernels and serve NICs, are fastest "
    "on the GPU's own NUMA node; between GPUs joined by NVLink it makes little difference."
)


def why_job(row: JobRow, snapshot: NodeSnapshot, findings: Sequence[Finding]) -> Page:
    """Evidence for each process and GPU, then what follows."""
    users = row.job.processes if row.user is None else (row.user,)
    found = [(user, binding) for user in users for binding in bindings(user, snapshot)]
    far = [(user, binding) for user, binding in found if binding.cpus == FAR]
    odd = [clean(finding.title, 200) for finding in findings]
    unknown = sum(1 for _, binding in found if binding.cpus is None)
    if far:
        claim = f"{len({user.pid for user, _ in far})} of {len(users)} run far from a GPU of theirs"
    elif unknown:
        claim = f"of {unknown} of {len(found)} it is not known how near to the GPU they run"
    else:
        claim = "none runs far from its GPU"
    facts = [_fact(user, binding, snapshot) for user, binding in found]
    facts += [
        Fact(what="What else is odd?", value=text, source="rules", decides=True) for text in odd
    ]
    return Page.why(
        title=row.job.name if row.user is None else f"pid {row.user.pid} of {row.job.name}",
        claim=claim[0].upper() + claim[1:] + ".",
        facts=tuple(facts),
        impact=BASIS if far else "",
        fix=_fix(far),
    )


def _fact(user: GpuUser, binding: Binding, snapshot: NodeSnapshot) -> Fact:
    gpu = snapshot.machine.gpu(binding.gpu)
    label = binding.gpu if gpu is None else gpu_label(gpu)
    cpus, nodes = user.reading.cpu_affinity, user.reading.memory_nodes
    return Fact(
        what=f"pid {user.pid} on {label} (NUMA node {whole(binding.node)}): which CPUs?",
        value=f"{cpus or 'not known'}, {CPUS[binding.cpus]}",
        because=f"memory of NUMA {nodes or 'not known'}: {MEMORY[binding.memory]}",
        source=f"/proc/{user.pid}/status",
        decides=binding.cpus == FAR,
    )


def _fix(far: Sequence[tuple[GpuUser, Binding]]) -> tuple[Fix, ...]:
    nodes = sorted({binding.node for _, binding in far if binding.node is not None})
    run = "numactl --cpunodebind={0} --membind={0} PROGRAM   # for the GPUs of node {0}"
    return tuple(Fix(text=run.format(node)) for node in nodes)


def about_jobs(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Those of the findings that are about running jobs."""
    return tuple(finding for finding in findings if finding.id in ABOUT_JOBS)


def about(row: JobRow, shown: Shown | None) -> tuple[Finding, ...]:
    """Findings on running jobs that name a GPU of this job, without silenced ones."""
    gpus = set(row.job.gpus if row.user is None else row.user.gpus)
    findings = () if shown is None else about_jobs(shown.findings)
    return tuple(finding for finding in findings if not gpus.isdisjoint(finding.devices))


class JobsScreen(ListedView):
    """The list beside the selected job or process."""

    TITLE = "Jobs"
    LIST = "#job-list"
    DETAILS = "#job"
    KEYS = (
        *select_keys("select a job or one of its processes"),
        Key(
            "s",
            "sort",
            "sort",
            f"sort by {', '.join(SORTS)}, and as before; a click on a heading sorts by any column",
            command="Sort the processes",
            about="By the next figure",
        ),
        Key(
            "ampersand",
            "filter",
            "filter",
            "filter the processes by any column",
            command="Filter the processes",
            about="By rank, pid, GPU, collective, state, program or user",
        ),
        note("core", "CPU time that it takes, of one core"),
        note(
            "NUMA",
            "near: CPUs at the GPU's NUMA node; partly; ✗ far; ✗ shared: more ranks than CPUs",
        ),
        note("variables", "* acts here, ! without effect, ? unknown name"),
        Key("R", "ask_jobs", "ask again", "ask the jobs again: /proc, RAS on this machine, dumps"),
        Key(
            "y",
            "copy_step",
            help="copy the next step; again: the line that ends it; nothing is sent",
        ),
        note("p", "probe its GPUs"),
        *scroll_keys("scroll_details", 5, "scroll the panel", "more"),
    )
    LINE = ("w", "R", "s", "&", "PgDn")
    SCROLLED = DETAILS

    class Answered(Message):
        """A thread has worked out what the variables of a process do."""

        def __init__(self, request: JobRequest, details: VariableDetails) -> None:
            super().__init__()
            self.request = request
            self.details = details

    def __init__(self, name: str, gputop: NodeHost) -> None:
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

    def leading(self) -> tuple[str, ...]:
        """Without the key that asks again where there is nobody to ask."""
        live = self.report is not None and self.report.snapshot.is_live
        return tuple(name for name in super().leading() if live or name != "R")

    def on_screen_resume(self) -> None:
        """Ask the jobs whenever the screen is opened."""
        super().on_screen_resume()
        self.action_ask_jobs()

    def action_ask_jobs(self) -> None:
        """Ask the jobs of this machine; a demo or a recording has none to ask."""
        if self.report is not None:
            self.gputop.jobs.ask(self.report.snapshot)

    def draw(self, report: Report) -> None:
        """Update both parts; on most ticks only figures have changed."""
        snapshot = report.snapshot
        if not snapshot.is_live:
            self.gputop.jobs.look(snapshot)
        else:
            self.gputop.jobs.ask_if_due(snapshot)
        table, board = self._list, self.query_one("#job", Board)
        listed = (snapshot.readings.gpus, snapshot.readings.processes, snapshot.machine)
        found = jobs(snapshot)
        table.draw_once(
            lambda: self._draw_list(found, snapshot),
            *listed,
            table.order,
            table.filter,
            report.diagnosis,
            self.gputop.findings.quiet,
            id(self._answer),
        )
        self._draw_head(found, report, *listed)
        board.draw_once(
            lambda: self._draw_details(report, board),
            *listed,
            report.prediction,
            report.diagnosis,
            self.gputop.findings.quiet,
            tuple(map(id, self._known)),
            id(self._answer),
            table.selected,
        )

    @property
    def _answer(self) -> JobsReport | None:
        """What the jobs said last."""
        return self.gputop.jobs.answer

    def _draw_head(self, found: tuple[Job, ...], report: Report, *listed: object) -> None:
        head, width = self.query_one("#job-head", Board), max(self.app.size.width - 2, 20)
        shown = self.shown
        findings = () if shown is None else about_jobs(shown.findings)

        def draw() -> None:
            room = 2 * width - LONGEST_WORD
            first = headline(self._answer, every=True, width=room)
            worst = told(self._answer)[:1]
            step = "".join(worst[0].steps[:1]) if worst else ""
            lines = head_lines(found, report.snapshot, findings, width, first, step)
            head.show([((" ", ""), *line) for line in lines])

        quiet = self.gputop.findings.quiet
        head.draw_once(draw, *listed, report.diagnosis, quiet, width, id(self._answer))

    def _draw_list(self, found: tuple[Job, ...], snapshot: NodeSnapshot) -> None:
        count = sum(len(job.processes) for job in found)
        table = self._list
        sought = f" · filter: {clean(table.filter, 60)}" if table.filter else ""
        table.caption(
            f"{len(found)} job{'s' * (len(found) != 1)}, {count} process{'es' * (count != 1)} "
            f"on the GPUs{sought}"
        )
        signs = signs_of(self._answer, found, self.shown)
        said = said_of(self._answer)
        rows = rows_of(found, snapshot, signs, said, self.gputop.recent)
        table.show_rows(rows, nothing(snapshot))

    def _draw_details(self, report: Report, board: Board) -> None:
        row = self._list.row
        width = max((board.scrollable_content_region.width or 60) - 1, 30)
        alone = tuple(self._alone(report, width))
        if row is None:
            board.caption(APART if alone else "")
            board.show(alone)
            return
        board.caption(heading(row))
        variables = self._variables(report, row)
        lines = detail_lines(row, report.snapshot, variables, about(row, self.shown), width)
        board.show((*self._standing(row, report, width), *lines, *alone))

    def _alone(self, report: Report, width: int) -> Iterable[Line]:
        """What was kept of jobs that have no process here: how far each rank was, and facts."""
        said = self._headline()
        for job in self._answer.jobs if self._answer else ():
            if job.job is None:
                first = said if told(self._answer)[0] is job else ""
                yield from progress_lines(job, width)
                yield from standing_lines(job, None, width, "", first)

    def _standing(self, row: JobRow, report: Report, width: int) -> Iterable[Line]:
        found = standing_of(self._answer, [user.pid for user in row.job.processes])
        if found is None:
            return ()
        mark = f", {SIMULATED}" if found.simulated else ""
        if row.user is not None:
            return standing_lines(found, row.user.pid, width, mark)
        even = not any(one.behind for one in said_of(self._answer).values() if one.job is found)
        # Bars of ranks that are equally far say nothing where more is known.
        lines = (even and composition_lines(found, width)) or progress_lines(found, width)
        said = self._headline() if told(self._answer)[0] is found else ""
        return (*lines, *standing_lines(found, None, width, mark, said))

    def _headline(self) -> str:
        """What the two first lines have room for."""
        room = 2 * max(self.app.size.width - 2, 20) - LONGEST_WORD
        text, *tail = headline(self._answer, every=True, width=room) or (("", ""),)
        return text[0][: room - width_of(tail)]

    def _variables(self, report: Report, row: JobRow) -> VariableDetails | None:
        """The answer for this row; requested if there is none yet."""
        user = process_with_variables(row.job, row.user)
        if user is None:
            process = (row.user or row.job.processes[0]).reading
            return VariableDetails(trouble=process.why("variables") or "not read")
        if not user.reading.variables:
            nothing = "none of those that {library}, {runtime} or PyTorch read is set"
            return VariableDetails(trouble=self.gputop.words.fill(nothing))
        if not report.node.decided:
            return None
        request = JobRequest(report.prediction, row.job.gpus, user.reading.variables, user.pid)
        found = next((known for key, known in self._known if request.same(key)), None)
        if found is None:
            self._ask(request, report.snapshot, row.job, user)
        return found

    def _ask(self, request: JobRequest, snapshot: NodeSnapshot, job: Job, user: GpuUser) -> None:
        if request.same(self._request):
            return
        self._request = request

        def work() -> None:
            worker = get_current_worker()
            time.sleep(PAUSE_SECONDS)
            details = None
            if not worker.is_cancelled:
                details = work_out(
                    snapshot, job.gpus, user, lambda: worker.is_cancelled, job.library
                )
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

    def share_selection(self) -> None:
        """Carry the first GPU of the job or process along."""
        targets = self.probe_targets()
        if targets and self.gputop.selected.among(targets) is None:
            self.gputop.selected.pick(targets[0])

    def take_selection(self, selected: PickedDevices) -> None:
        """Select the line that a search chose, else what uses the GPU that was picked elsewhere."""
        if name := selected.take_name():
            self._list.go_to(name)
        elif selected.device is not None:
            self._list.select_about(selected.device)

    def action_copy_step(self) -> None:
        """Copy the next step, then the line that ends the process; else all that is known."""
        row = self._list.row
        found = () if row is None else steps_for(row, self._answer, self.selected_text())
        here = None if self.report is None else self.report.snapshot
        if here is not None and not (here.is_live or here.is_demo):
            # What ends a process here is not to be copied for one of another machine.
            found = tuple(line if " # " in line else there(line, here) for line in found)
        if found:
            self.gputop.copy_command(found)
        else:
            self.gputop.action_copy()

    def action_sort(self) -> None:
        """Sort by the next figure, and at last as given."""
        table = self._list
        place = SORTS.index(table.column) + 1 if table.column in SORTS else 0
        table.sort_to(SORTS[place] if place < len(SORTS) else "")

    async def action_filter(self) -> None:
        """Open the line in which a filter is typed."""
        await self.open_line("filter: words of any column, or a job", self._list.filter)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter at each letter."""
        self._list.filter = event.value[:200]
        self.redraw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter and go back to the list."""
        event.input.remove()

    def back(self) -> bool:
        """Take the filter away; False where there is none."""
        held = bool(self.query(Input) or self._list.filter)
        self.query(Input).remove()
        if self._list.filter:
            self._list.filter = ""
            self.redraw()
        return held

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


SCREEN = JobsScreen
