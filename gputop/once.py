"""`gputop -1`: the first lines of Node as text, once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gputop.live.findings import shown
from gputop.live.worst_jobs import wrong
from gputop.screens.node.gpu_lines import caption, chosen, rows_of, table
from gputop.screens.node.head import (
    cost_line,
    job_line,
    loads_of,
    use_line,
    use_of,
    verdict_line,
)
from gputop.screens.node.identity import identity_lines
from gputop.simulating.jobs import of_node
from gputop.terminal.preferences import Preferences
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.explain.nics import gpu_nics
from gputop.topology.jobs.asking import ask_live
from gputop.topology.node import Node
from gputop.topology.report import Report
from gputop.widgets.spans import Line, width_of

if TYPE_CHECKING:
    from gputop.screens.node.head import Use
    from gputop.topology.jobs.asking import JobsReport
    from gputop.topology.model.snapshot import NodeSnapshot

WIDTH = 120
"""Columns where the text goes into a pipe or a file."""


PAUSE_SECONDS = 0.3
"""From one look at the jobs to the next, while the findings are worked out."""
PATIENCE_SECONDS = 0.4
"""How much longer than the findings an answer of the jobs may take."""
MORE = "gputop jobs"
"""Watches the GPUs for some seconds, which shows a rank that is late."""


class Asked:
    """The jobs of a live node, or of a demo, asked while something else is worked out."""

    def __init__(self, snapshot: NodeSnapshot) -> None:
        self._snapshot = snapshot
        self._answer: JobsReport | None = None
        self._thread = threading.Thread(target=self._work, name="jobs asked once", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        here = self._snapshot
        self._answer = (
            ask_live(here, ras=True, wait=PAUSE_SECONDS, pause=PAUSE_SECONDS, watched=False)
            if here.is_live
            else of_node(here)
        )

    def answer(self) -> JobsReport | None:
        """What they say; None where that takes too long, or nothing may be asked."""
        self._thread.join(PATIENCE_SECONDS)
        return self._answer


def first_lines(
    snapshot: NodeSnapshot, width: int, told: JobsReport | None = None
) -> Iterator[Line]:
    """The verdict, who runs here, what communication costs, the machine, a line for each GPU.

    `told`: what was kept of the jobs of a recording.
    """
    asked = Asked(snapshot)
    node = Node(snapshot).decide()
    report = Report(node, diagnose(Case(node)))
    found = shown(report)
    use = use_of(snapshot, loads_of(snapshot))
    answer = told or asked.answer()
    own = None if found is None else found.of_node
    yield verdict_line(own, snapshot.machine, width, answer)[0]
    if snapshot.machine.gpus or wrong(answer):
        yield _second(answer, snapshot, use, width)
    if snapshot.machine.gpus:
        yield cost_line(report, width)
    yield from identity_lines(snapshot, width, 1)
    rows = rows_of(snapshot, shown=found, nics=gpu_nics(node) if node.prediction else {})
    if rows:
        yield ((caption(rows), "muted"),)
        columns, _ = chosen(Preferences.of_user().file.settings.columns)
        yield from table(rows, width, among=columns)


def _second(answer: JobsReport | None, snapshot: NodeSnapshot, use: Use, width: int) -> Line:
    """The job that something is wrong with, else who runs; and the command that sees more."""
    more = MORE if snapshot.is_live or snapshot.is_demo else f"{MORE} --from"
    end: Line = ((" · ", "muted"), (more, "key bold"))
    if (job := job_line(answer, width, end)) is not None:
        return (*job[0], *end)
    line = use_line(use, snapshot, width)
    late: Line = ((" · for late ranks ", "muted"), (MORE, "key bold"))
    watched = snapshot.is_live and any(len(job.ranked) > 1 for job in use.jobs)
    return (*line, *late) if watched and width_of((*line, *late)) <= width else line
