"""Node: is this node fit, who runs on it, what communication costs; then its GPUs, live."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from msgspec.structs import replace
from textual.widget import Widget
from textual.widgets import Input

from gputop.screens.node.detail import brief_line, detail_lines
from gputop.screens.node.event_strip import EventStrip
from gputop.screens.node.gpu_lines import caption, chosen, rows_of
from gputop.screens.node.head import cost_line, job_line, loads_of, use_line, use_of, verdict_line
from gputop.screens.node.identity import (
    DEMOS,
    absence_lines,
    host_lines,
    identity_lines,
    problem_lines,
    reason_lines,
)
from gputop.screens.node.plots import last, plot_lines, wall_lines, wall_title
from gputop.screens.node.table import SORTS, GpuTable
from gputop.screens.view import View
from gputop.terminal.clean import clean
from gputop.topology.explain.ports import nic_now
from gputop.topology.explain.switches import switch_above
from gputop.topology.model.units import UNKNOWN, seconds
from gputop.topology.report import Report
from gputop.widgets.bars import HeadLine
from gputop.widgets.board import Board
from gputop.widgets.gpu_cells import Row, model
from gputop.widgets.kept_lines import Pane
from gputop.widgets.key import Key, note, select_keys
from gputop.widgets.link_matrix import (
    LINKS,
    READING,
    LinkMatrix,
    cell_width,
    grid,
    label_width,
    matrix_lines,
    matrix_title,
)
from gputop.widgets.spans import Line, text_of
from gputop.widgets.status import figures_age

if TYPE_CHECKING:
    from gputop.live.host import NodeHost
    from gputop.live.selection import PickedDevices
    from gputop.topology.explain.nics import GpuNic
    from gputop.topology.model.page import Page

_MEASURE: Line = (("p", "key bold @probe(False)"), (" measure ", "muted @probe(False)"))

# The lower half of the Node screen: links beside the details of one GPU, or its last minutes.
ROOMY = 12
"""Lines below the links from which the charts stand there too."""


class LowerView(Enum):
    """What stands below the table."""

    LINKS = 0
    GRAPHS = 1
    """The last minutes of the selected GPU."""
    WALL = 2
    """A strip for each GPU."""

    @property
    def after(self) -> LowerView:
        """What the next key puts there."""
        return LowerView((self.value + 1) % len(LowerView))


class Lower(Pane):
    """The boards below the table."""

    below = LowerView.LINKS

    def compose(self) -> Iterable[Widget]:
        """Links and charts at the left, details at the right."""
        with Pane(id="lower-left"):
            yield LinkMatrix(id="links", fixed_rows=1, classes="titled")
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
        links.display = self.below is LowerView.LINKS
        if links.display:
            signs = {one.gpu.address: one.mark for one in rows if one.mark[0]}
            self._draw_links(report, None if row is None else row.gpu.address, signs)
        left = self.query_one("#lower-left").size
        room = left.height - 1 - (len(links.lines) + 1) * links.display
        # A recording is one moment: its curves would be empty.
        moves = report.snapshot.is_live or report.snapshot.is_demo
        plots.display = row is not None and (not links.display or (moves and room >= ROOMY))
        links.set_class(plots.display, "-short")
        detail.display = not narrow and self.below is not LowerView.WALL
        if row is not None and plots.display:
            self._draw_plots(plots, row, rows, room)
        if row is not None and detail.display:
            detail.caption(heading(row))
            detail.show(detail_lines(row, detail.scrollable_content_region.width or 60))

    def _draw_plots(self, plots: Board, row: Row, rows: Sequence[Row], room: int) -> None:
        width = plots.size.width
        if self.below is LowerView.WALL:
            plots.caption(f"{wall_title(rows)} · g: the links")
            plots.show(wall_lines(rows, row.gpu.address, width, room))
            return
        lately = "" if row.recent is None else f" · {last(row.recent)}"
        more = " · g: every GPU" if self.below is LowerView.GRAPHS else ""
        plots.caption(f"{heading(row)}{lately}{more}")
        plots.show(plot_lines(row, width, room))

    def _draw_links(
        self, report: Report, selected: str | None, signs: dict[str, tuple[str, str]]
    ) -> None:
        links = self.query_one("#links", LinkMatrix)
        room = links.scrollable_content_region.width

        def draw() -> None:
            links.fixed_columns = label_width(report.matrix)
            links.matrix, links.grid = report.matrix, grid(report.matrix)
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


# Where the GPUs are: their NICs and switches, looked for again only when the machine changes.
class Places:
    """NICs by the machine and the prediction, and the switch of one GPU."""

    def __init__(self) -> None:
        self._nics: tuple[object, object, Mapping[str, GpuNic]] = (None, None, {})
        self._switch: tuple[object, str, str] = (None, "", "")

    def nics(self, report: Report) -> Mapping[str, GpuNic]:
        """PCI address of a GPU -> its NIC; {} before the prediction is decided."""
        if not report.node.decided:
            return {}
        prediction, matrix, found = self._nics
        if prediction is not report.prediction or matrix is not report.matrix:
            from gputop.topology.explain.nics import gpu_nics

            found = gpu_nics(report.node)
            self._nics = report.prediction, report.matrix, found
        return found

    def switch(self, report: Report | None, address: str) -> str:
        """The switch above a GPU, in words."""
        if report is None:
            return ""
        machine, of, text = self._switch
        if machine is not report.snapshot.machine or of != address:
            machine = report.snapshot.machine
            text = switch_above(report.snapshot.machine, address)
            self._switch = machine, address, text
        return text


class NodeScreen(View):
    """Three lines that answer, the GPUs, and below them links and details or the last minutes."""

    TITLE = "Node"
    KEYS = (
        *select_keys("select a GPU"),
        Key("left", "scroll_links(-1, 0)", help="scroll the links", written="← → PgUp PgDn"),
        Key("right", "scroll_links(1, 0)"),
        Key("pageup", "scroll_links(0, -5)"),
        Key("pagedown", "scroll_links(0, 5)"),
        Key(
            "g",
            "plots",
            "graphs",
            "last minutes of this GPU, of every GPU; the links",
            command="Graphs",
            about="The last minutes of the selected GPU, then of every GPU",
        ),
        Key(
            "s",
            "sort",
            "sort",
            f"sort by {', '.join(SORTS[1:])}, and by number again",
            command="Sort the GPUs",
            about="By the next figure",
        ),
        Key(
            "ampersand",
            "filter",
            "filter",
            "filter GPUs by index, name, address, UUID, process or user",
            command="Filter the GPUs",
            about="By index, name, address, UUID, process or user",
        ),
        note("Util 60 s", "utilisation of the last minute, 0 to 100 %"),
        note("{link}", "links that are up, of all; GB/s ↑ out of and ↓ into the GPU"),
        note("NIC", "the one that {library} takes for the GPU: near is below the same PCIe switch"),
        note(
            "beside a GPU",
            "✗ broken, ▼ slow, ? cannot tell: a finding is about it or its rank; w says which",
        ),
    )
    LINE = ("w", "p", "g", "s", "&")

    def __init__(self, name: str, gputop: NodeHost) -> None:
        super().__init__(name, gputop)
        self._rows: tuple[Row, ...] = ()
        self._shown_once = False
        self._places = Places()
        self._headed: tuple[object, ...] | None = None
        """What the first two lines were last made from."""

    def body(self) -> Iterable[Widget]:
        """The three lines, the line on the machine, the GPUs, what is below, problems."""
        yield HeadLine(id="verdict")
        yield HeadLine(id="use")
        yield HeadLine(id="cost")
        yield EventStrip(id="strip")
        yield Board(id="identity")
        table = GpuTable(id="gpus", classes="titled")
        table.sort_by(self.gputop.remembered.get("sort"))
        table.columns, _ = chosen(self.gputop.remembered.file.settings.columns)
        yield table
        yield Pick(id="pick")
        yield Lower(id="lower")
        yield Board(id="problems", classes="titled")

    def draw(self, report: Report) -> None:
        """Update every part."""
        snapshot = report.snapshot
        width = self.app.size.width
        self._draw_head(report, width)
        self.query_one(EventStrip).draw_report(report, width)
        self.query_one("#identity", Board).show(identity_lines(snapshot, width, 1))
        self._draw_problems(report, width)
        if not snapshot.machine.gpus:
            self._draw_absence(report, width)
            return
        age = figures_age(snapshot, self.gputop.interval)
        table = self.query_one("#gpus", GpuTable)
        self._rows = rows_of(
            snapshot,
            stale=age is not None,
            shown=self.shown,
            # The relations take some time to work out.
            nics=self._places.nics(report) if self._shown_once else {},
            recent=self.gputop.recent,
        )
        old = "" if age is None else f"figures are {seconds(age)} old"
        table.show_rows(self._rows)
        table.caption(caption(self._rows, old, table.filtered, table.order))
        self._draw_selection(report)

    def _draw_head(self, report: Report, width: int) -> None:
        snapshot, shown = report.snapshot, self.shown
        gpus = bool(snapshot.machine.gpus)
        for name in ("#use", "#cost"):
            self.query_one(name).display = gpus
        loads = loads_of(snapshot)
        told = id(self.gputop.jobs.answer)
        minute = int(snapshot.taken_at // 60)
        known = (loads, snapshot.readings.processes, minute, shown, width, told)
        if known != self._headed:
            self._headed = known
            use = use_of(snapshot, loads)
            own = None if shown is None else shown.of_node
            answer = self.gputop.jobs.answer
            line, end = verdict_line(own, snapshot.machine, width, answer)
            self.query_one("#verdict", HeadLine).show(line, end)
            measure = _MEASURE if snapshot.is_live else ()
            second = use_line(use, snapshot, width), measure
            second = job_line(answer, width) or second
            self.query_one("#use", HeadLine).show(*second)
        if gpus:
            self.query_one("#cost", HeadLine).show(cost_line(report, width))

    def _draw_selection(self, report: Report) -> None:
        lower = self.query_one(Lower)
        if not self._shown_once:
            # The GPUs first; the matrix takes some time to work out.
            self._shown_once = True
            self.call_after_refresh(self.redraw)
            lower.draw_reading()
            return
        row = self._row()
        lower.draw_report(report, row, self._rows)
        if self.has_class("-narrow"):
            self.query_one(Pick).draw_row(row, self.app.size.width)

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
        live = report.snapshot.is_live
        if live and not (report.snapshot.machine.host or report.snapshot.problems):
            table.show((((" reading the node…", "muted"),),))
            return
        from gputop.topology.explain.absence import why_no_gpu

        table.show(absence_lines(tuple(why_no_gpu(report.snapshot)), width))
        self.query_one(Lower).draw_machine(report, width)

    def _row(self) -> Row | None:
        selected = self.query_one("#gpus", GpuTable).selected
        row = next((row for row in self._rows if row.gpu.address == selected), None)
        if row is None:
            return None
        switch, now = self._places.switch(self.report, row.gpu.address), ""
        if self.report is not None and row.nic is not None:
            now = nic_now(self.report.snapshot.machine, self.report.snapshot.readings, row.nic.name)
        return replace(row, selected=False, switch=switch, nic_now=now)

    def on_gpu_table_gpu_picked(self, message: GpuTable.GpuPicked) -> None:
        """Follow the cursor with the matrix and the details."""
        self.gputop.selected.pick(message.address)
        self._draw_again()
        if message.twice:
            self.gputop.action_why()

    def on_link_matrix_cell_clicked(self, message: LinkMatrix.CellClicked) -> None:
        """Show the pair of a cell where pairs are; one with a NIC on Map."""
        gpus = {row.gpu.address for row in self._rows}
        self.gputop.selected.pick(*message.devices)
        self.gputop.action_screen("pairs" if gpus.issuperset(message.devices) else "map")

    def leading(self) -> tuple[str, ...]:
        """Without GPUs there is nothing to sort; a demo may be looked at instead."""
        if self.report is None or self.report.snapshot.machine.gpus:
            return super().leading()
        return ("d",) if self.app.check_action("demos", ()) else ()

    def _draw_again(self) -> None:
        if self.report is not None and self._rows:
            self.gputop.guarded(self._draw_selection, self.report)

    def take_selection(self, selected: PickedDevices) -> None:
        """Select the GPU that was picked elsewhere."""
        table = self.query_one("#gpus", GpuTable)
        table.selected = selected.among(row.gpu.address for row in self._rows) or table.selected

    def action_move(self, step: int) -> None:
        """Move the cursor of the table."""
        if self._rows:
            self.query_one("#gpus", GpuTable).move(step)

    def action_scroll_links(self, columns: int, lines: int) -> None:
        """Scroll the matrix, to the side by whole columns."""
        # A bar that came up after the last drawing has taken a column.
        self._draw_again()
        self.query_one(Lower).scroll_links(self.report, columns, lines)

    def action_plots(self) -> None:
        """Show the last minutes of the selected GPU, then of all, then the links again."""
        self._put_below(self.query_one(Lower).below.after)

    def _put_below(self, what: LowerView) -> None:
        self.query_one(Lower).below = what
        self.redraw()
        self.call_after_refresh(self.redraw)

    def action_sort(self) -> None:
        """Sort the GPUs by the next figure."""
        self.query_one("#gpus", GpuTable).sort_next()
        self.on_gpu_table_sorted()

    def on_gpu_table_sorted(self) -> None:
        """Remember the order, and draw the GPUs in it."""
        table = self.query_one("#gpus", GpuTable)
        self.gputop.remembered.keep("sort", table.sorted_by if table.order else "")
        self.redraw()

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
        table.caption(caption(self._rows, table.filtered, table.order))
        self._draw_again()

    def on_input_submitted(self) -> None:
        """Keep the filter and go back to the table; an empty one is removed."""
        for line in self.query(Input):
            if line.value:
                self.set_focus(None)
            else:
                line.remove()

    def back(self) -> bool:
        """Take the filter away, else the graphs; False when there is neither."""
        for line in self.query(Input):
            line.value = ""
            line.remove()
            return True
        if self.query_one(Lower).below is not LowerView.LINKS:
            self._put_below(LowerView.LINKS)
            return True
        return False

    def selected_text(self) -> str:
        """The selected GPU, one fact a line."""
        row = self._row()
        if row is None:
            return ""
        return "\n".join(
            [heading(row), *(text_of(line).strip() for line in detail_lines(row, 200))]
        )

    def why(self) -> Page | None:
        """Explain the selected GPU."""
        row = self._row()
        if row is None or self.report is None or self.report.graph is None:
            return None
        from gputop.topology.explain.why import why_device

        return self.with_findings(why_device(self.report.node, row.gpu.address), row.gpu.address)


SCREEN = NodeScreen
