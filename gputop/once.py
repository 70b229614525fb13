"""`gputop -1`: the first lines of Node as text, once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gputop.live.findings import shown
from gputop.screens.node.gpu_lines import caption, chosen, rows_of, table
from gputop.screens.node.head import cost_line, loads_of, use_line, use_of, verdict_line
from gputop.screens.node.identity import identity_lines
from gputop.terminal.preferences import Preferences
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.explain.nics import gpu_nics
from gputop.topology.node import Node
from gputop.topology.report import Report
from gputop.widgets.spans import Line

if TYPE_CHECKING:
    from gputop.topology.model.snapshot import NodeSnapshot

WIDTH = 120
"""Columns where the text goes into a pipe or a file."""


def first_lines(snapshot: NodeSnapshot, width: int) -> Iterator[Line]:
    """The verdict, who runs here, what communication costs, the machine, a line for each GPU."""
    node = Node(snapshot).decide()
    report = Report(node, diagnose(Case(node)))
    found = shown(report)
    use = use_of(snapshot, loads_of(snapshot))
    yield verdict_line(found, snapshot.machine, width)[0]
    if snapshot.machine.gpus:
        yield use_line(use, snapshot, width)
        yield cost_line(report, width)
    yield from identity_lines(snapshot, width, 1)
    rows = rows_of(snapshot, shown=found, nics=gpu_nics(node) if node.prediction else {})
    if rows:
        yield ((caption(rows), "muted"),)
        columns, _ = chosen(Preferences.of_user().file.settings.columns)
        yield from table(rows, width, among=columns)
