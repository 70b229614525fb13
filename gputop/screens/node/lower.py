"""The lower half of the Node screen: links beside the details of one GPU, or its last minutes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual.widget import Widget

from gputop.screens.node.detail import brief_line, detail_lines
from gputop.screens.node.identity import host_lines
from gputop.screens.node.plots import plot_lines
from gputop.terminal.clean import clean
from gputop.topology.model.units import UNKNOWN
from gputop.topology.report import Report
from gputop.widgets.board import Board
from gputop.widgets.gpu_cells import Row, model
from gputop.widgets.kept_lines import Pane
from gputop.widgets.link_matrix import (
    LINKS,
    READING,
    cell_width,
    grid,
    label_width,
    matrix_lines,
    matrix_title,
)

ROOMY = 12
"""Lines below the links from which the charts stand there too."""


class Lower(Pane):
    """The boards below the table; `plots` puts the charts in the place of the links."""

    plots = False

    def compose(self) -> Iterable[Widget]:
        """Links and charts at the left, details at the right."""
        with Pane(id="lower-left"):
            yield Board(id="links", fixed_rows=1, classes="titled")
            yield Board(id="plots", classes="titled")
        yield Board(id="detail", classes="titled")

    def draw_reading(self) -> None:
        """Say that the matrix is not worked out yet."""
        links = self.query_one("#links", Board)
        links.draw_once(lambda: links.show(READING))

    def draw_report(self, report: Report, row: Row | None, rows: Sequence[Row]) -> None:
        """Draw what belongs to the selected one of these GPUs."""
        links, plots = self.query_one("#links", Board), self.query_one("#plots", Board)
        detail = self.query_one("#detail", Board)
        narrow = self.screen.has_class("-narrow")
        links.display = not self.plots
        if not self.plots:
            signs = {one.gpu.address: one.mark for one in rows if one.mark[0]}
            self._draw_links(report, None if row is None else row.gpu.address, signs)
        left = self.query_one("#lower-left").size
        room = left.height - 1 - (0 if self.plots else len(links.lines) + 1)
        plots.display = row is not None and (self.plots or room >= ROOMY)
        links.set_class(plots.display, "-short")
        if row is not None and plots.display:
            back = " · g: the links" if self.plots else ""
            plots.caption(f"{heading(row)} · last 5 minutes{back}")
            plots.show(plot_lines(row, left.width, room))
        if row is not None and not narrow:
            detail.caption(heading(row))
            detail.show(detail_lines(row, detail.scrollable_content_region.width or 60))

    def _draw_links(
        self, report: Report, selected: str | None, signs: dict[str, tuple[str, str]]
    ) -> None:
        links = self.query_one("#links", Board)
        room = links.scrollable_content_region.width

        def draw() -> None:
            links.fixed_columns = label_width(report.matrix)
            links.grid = grid(report.matrix)
            links.show(matrix_lines(report.matrix, selected, room, signs))

        links.draw_once(draw, report.matrix, selected, room, signs)
        title = matrix_title(report)
        if links.wider:
            shown = (room - label_width(report.matrix)) // cell_width(report.matrix)
            hidden = len(report.matrix.rows) - shown
            arrows = f", ← → {hidden} more" if hidden > 0 else ", ← →"
            title = title.replace(LINKS, f"{LINKS}{arrows}", 1)
        links.caption(title)

    def draw_machine(self, report: Report, width: int) -> None:
        """What is around where there is no GPU."""
        links = self.query_one("#links", Board)
        links.caption("The machine")
        links.grid = None
        links.draw_once(
            lambda: links.show(host_lines(report.snapshot, width)), report.snapshot, width
        )
        self.query_one("#detail", Board).show(())

    def scroll_links(self, report: Report | None, columns: int, lines: int) -> None:
        """Scroll the matrix, to the side by whole columns."""
        links = self.query_one("#links", Board)
        step = 5 if report is None else cell_width(report.matrix)
        column = links.scroll_offset.x // step + columns
        if columns < 0 and links.scroll_offset.x % step:
            column += 1
        links.scroll_to(column * step, links.scroll_offset.y + lines, animate=False)


class Pick(Board):
    """The line below the table of a narrow terminal: the selected GPU's place in the machine."""

    def draw_row(self, row: Row | None, width: int) -> None:
        """NIC, CPUs and switch of a GPU."""
        self.show(() if row is None else (brief_line(row, width),))


def heading(row: Row) -> str:
    """Name a GPU; where no library numbers it, say what its number is."""
    gpu = row.gpu
    number = gpu.address if gpu.number is None else str(gpu.number)
    known = model(gpu)
    named = "name not read" if known == UNKNOWN else f"{known}, by its PCI id"
    place = " by PCI address" if gpu.index is None and gpu.number is not None else ""
    return f"GPU {number}{place} · {clean(gpu.name or named, 40)}"
