"""Node: what is in this machine, live, and how its GPUs are joined."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace
from textual.containers import Container
from textual.widget import Widget
from textual.widgets import Input

from gputop.screens import NAMES
from gputop.screens.node.detail import detail_lines
from gputop.screens.node.gpu_lines import rows_of
from gputop.screens.node.identity import (
    DEMOS,
    absence_lines,
    host_lines,
    identity_lines,
    most_lines,
    nccl_lines,
    problem_lines,
    reason_lines,
)
from gputop.screens.node.table import GpuTable
from gputop.screens.view import View
from gputop.terminal.clean import clean
from gputop.topology.model.units import UNKNOWN, seconds
from gputop.widgets.board import Board
from gputop.widgets.gpu_cells import model
from gputop.widgets.key import Key, note, select_keys
from gputop.widgets.link_matrix import (
    READING,
    cell_width,
    grid,
    label_width,
    matrix_lines,
    matrix_title,
)
from gputop.widgets.spans import text_of
from gputop.widgets.status import figures_age

if TYPE_CHECKING:
    from gputop.screens.host import ScreenHost
    from gputop.topology.model.page import Page
    from gputop.topology.report import Report
    from gputop.widgets.gpu_cells import Row


class NodeScreen(View):
    """Identity, GPUs, links, problems."""

    TITLE = "Node"
    KEYS = (
        *select_keys("select a GPU"),
        Key("left", "scroll_links(-1, 0)", help="scroll the links", written="← → PgUp PgDn"),
        Key("right", "scroll_links(1, 0)"),
        Key("pageup", "scroll_links(0, -5)"),
        Key("pagedown", "scroll_links(0, 5)"),
        Key(
            "slash",
            "filter",
            "filter",
            "filter GPUs by index, name, address, UUID, process or user",
        ),
        note(
            "in the table",
            "↑ out of the GPU, ↓ into it; 5 x16 = PCIe generation 5, 16 lanes; 1/5 = now/max",
        ),
        note(
            "beside a GPU", "✗ broken, ▼ slow, ? cannot tell: a finding is about it; w says which"
        ),
    )
    LINE = ("w", "p", "/")

    def __init__(self, name: str, gputop: ScreenHost) -> None:
        super().__init__(name, gputop)
        self._rows: tuple[Row, ...] = ()
        self._shown_once = False

    def body(self) -> Iterable[Widget]:
        """The line on the machine, the GPUs, links beside details, problems."""
        yield Board(id="identity")
        yield GpuTable(id="gpus", classes="titled")
        with Container(id="lower"):
            yield Board(id="links", fixed_rows=1, classes="titled")
            yield Board(id="detail", classes="titled")
        yield Board(id="found")
        yield Board(id="nccl")
        yield Board(id="problems", classes="titled")

    def draw(self, report: Report) -> None:
        """Update every part."""
        snapshot = report.snapshot
        width = self.app.size.width
        most = most_lines(self.app.size.height)
        self.query_one("#identity", Board).show(identity_lines(snapshot, width, most))
        nccl = self.query_one("#nccl", Board)
        nccl.draw_once(
            lambda: nccl.show(nccl_lines(report, width, most)),
            snapshot.machine,
            report.prediction,
            report.node.why_no_prediction,
            width,
            most,
        )
        self._draw_found(width)
        self._draw_problems(report, width)
        if not snapshot.machine.gpus:
            self._draw_absence(report, width)
            return
        age = figures_age(snapshot, self.gputop.interval)
        table = self.query_one("#gpus", GpuTable)
        table.caption("GPUs" if age is None else f"GPUs · figures are {seconds(age)} old")
        self._rows = rows_of(snapshot, stale=age is not None, shown=self.shown)
        table.show_rows(self._rows)
        self._draw_selection(report)

    def _draw_selection(self, report: Report) -> None:
        selected = self.query_one("#gpus", GpuTable).selected
        links = self.query_one("#links", Board)
        if not self._shown_once:
            # The GPUs first; the matrix takes some time to work out.
            self._shown_once = True
            self.call_after_refresh(self.redraw)
            links.draw_once(lambda: links.show(READING))
            return
        if report.matrix is not None:
            links.fixed_columns = label_width(report.matrix)
            links.grid = grid(report.matrix)
        room = links.scrollable_content_region.width
        links.draw_once(
            lambda: links.show(matrix_lines(report.matrix, selected, room)),
            report.matrix,
            selected,
            room,
        )
        links.caption(f"{'← → ' if links.wider else ''}{matrix_title(report)}")
        detail = self.query_one("#detail", Board)
        row = self._row()
        if row is not None and not self.has_class("-narrow"):
            detail.caption(_heading(row))
            detail.show(detail_lines(row, detail.size.width or 60))

    def _draw_found(self, width: int) -> None:
        shown = self.shown
        found = self.query_one("#found", Board)
        found.display = shown is not None and bool(shown.diagnosis.examined)
        if shown is not None:
            from gputop.widgets.finding_text import node_lines

            found.show(node_lines(shown, width, NAMES.index("findings") + 1))

    def _draw_problems(self, report: Report, width: int) -> None:
        problems = self.query_one("#problems", Board)
        lines = problem_lines(report.snapshot, width - 2)
        silent = [gpu.uuid is None for gpu in report.snapshot.machine.gpus]
        if any(silent):
            # Only the PCI bus shows this GPU: say why its driver does not answer.
            from gputop.topology.explain.absence import why_no_gpu

            why = reason_lines(why_no_gpu(report.snapshot), width - 2)
            lines = (*why, *((DEMOS,) if why and all(silent) else ()), *lines)
        problems.caption("Could not be read")
        problems.display = bool(lines)
        problems.show(lines)

    def _draw_absence(self, report: Report, width: int) -> None:
        self._rows = ()
        table = self.query_one("#gpus", GpuTable)
        table.caption("GPUs")
        # Before the first source answered there is nothing to explain yet; a file has answered.
        live = report.snapshot.source == ("live",)
        if live and not (report.snapshot.machine.host or report.snapshot.problems):
            table.show((((" reading the node…", "muted"),),))
            return
        from gputop.topology.explain.absence import why_no_gpu

        table.show(absence_lines(tuple(why_no_gpu(report.snapshot)), width))
        links = self.query_one("#links", Board)
        links.caption("The machine")
        links.grid = None
        links.draw_once(
            lambda: links.show(host_lines(report.snapshot, width)), report.snapshot, width
        )
        self.query_one("#detail", Board).show(())

    def _row(self) -> Row | None:
        selected = self.query_one("#gpus", GpuTable).selected
        row = next((row for row in self._rows if row.gpu.address == selected), None)
        return None if row is None else replace(row, selected=False)

    def on_gpu_table_gpu_picked(self, message: GpuTable.GpuPicked) -> None:
        """Follow the cursor with the matrix and the details."""
        if self.report is not None and self._rows:
            self.gputop.guarded(self._draw_selection, self.report)
        if message.twice:
            self.gputop.action_why()

    def action_move(self, step: int) -> None:
        """Move the cursor of the table."""
        if self._rows:
            self.query_one("#gpus", GpuTable).move(step)

    def action_scroll_links(self, columns: int, lines: int) -> None:
        """Scroll the matrix, to the side by whole columns."""
        links = self.query_one("#links", Board)
        matrix = None if self.report is None else self.report.matrix
        if self.report is not None and self._rows:
            # A bar that came up after the last drawing has taken a column.
            self.gputop.guarded(self._draw_selection, self.report)
        step = 5 if matrix is None else cell_width(matrix)
        column = links.scroll_offset.x // step + columns
        if columns < 0 and links.scroll_offset.x % step:
            column += 1
        links.scroll_to(column * step, links.scroll_offset.y + lines, animate=False)

    async def action_filter(self) -> None:
        """Open the line where a filter is typed."""
        found = self.query(Input)
        if found:
            found.first().focus()
            return
        await self.open_line("filter: index, name, address, UUID, process, user")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while one types."""
        table = self.query_one("#gpus", GpuTable)
        table.filter = event.value
        table.show_rows(self._rows)
        if self.report is not None and self._rows:
            self.gputop.guarded(self._draw_selection, self.report)

    def on_input_submitted(self) -> None:
        """Keep the filter and go back to the table; an empty one is removed."""
        for line in self.query(Input):
            if line.value:
                self.set_focus(None)
            else:
                line.remove()

    def back(self) -> bool:
        """Take the filter away; False when there is none."""
        for line in self.query(Input):
            line.value = ""
            line.remove()
            return True
        return False

    def selected_text(self) -> str:
        """The selected GPU, one fact a line."""
        row = self._row()
        if row is None:
            return ""
        return "\n".join(
            [_heading(row), *(text_of(line).strip() for line in detail_lines(row, 200))]
        )

    def why(self) -> Page | None:
        """Explain the selected GPU."""
        row = self._row()
        if row is None or self.report is None or self.report.graph is None:
            return None
        from gputop.topology.explain.why import why_device

        return self.with_findings(why_device(self.report.node, row.gpu.address), row.gpu.address)


def _heading(row: Row) -> str:
    """Name a GPU; where no library numbers it, say what its number is."""
    gpu = row.gpu
    number = gpu.address if gpu.number is None else str(gpu.number)
    known = model(gpu)
    named = "name not read" if known == UNKNOWN else f"{known}, by its PCI id"
    place = " by PCI address" if gpu.index is None and gpu.number is not None else ""
    return f"GPU {number}{place} · {clean(gpu.name or named, 40)}"


SCREEN = NodeScreen
