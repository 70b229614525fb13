"""The matrix of `nvidia-smi topo -m` as lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from textual import events
from textual.message import Message

from gputop.terminal.clean import clean
from gputop.topology.hardware.vendors import AMD
from gputop.topology.model.machine import PciKind
from gputop.widgets.board import Board
from gputop.widgets.gpu_cells import short_address
from gputop.widgets.spans import Grid, Line, centre, left, width_of

if TYPE_CHECKING:
    from gputop.topology.report import Report
    from gputop.topology.wiring.relations import MatrixRow, RelationMatrix

LINKS = "Links"
NO_SIGN = (" ", "")
READING: tuple[Line, ...] = (((" reading the wiring…", "muted"),),)


def relation_ink(letters: str) -> str:
    """Ink for letters of `nvidia-smi topo -m`; the letters carry the meaning, not the colour."""
    if letters.startswith("NV"):
        return "link-nvlink"
    if letters == "XGMI":
        return "link-xgmi"
    return {
        "PIX": "link-pcie",
        "PXB": "link-pcie",
        "PHB": "link-socket",
        "NODE": "link-socket",
    }.get(letters, "link-socket" if letters == "SYS" else "muted")


def matrix_title(report: Report) -> str:
    """Say whose letters these are, and which GPUs form an island."""
    title = f"{LINKS} · {report.words.distances}"
    title = title.replace("codes of PCIe distance", "PCIe distance")  # room for the islands
    if any(gpu.vendor == AMD.id for gpu in report.snapshot.machine.gpus):
        title += ", XGMI of rocm-smi"
    groups = [group for group in report.islands if len(group) > 1]
    gpus = len(report.snapshot.machine.gpus)
    if len(groups) == 1 and len(groups[0]) == gpus:
        return f"{title} · all {gpus} GPUs in one island"
    if groups:
        sizes = " + ".join(str(len(group)) for group in groups)
        return f"{title} · islands of {sizes} GPUs"
    return title


def matrix_lines(
    matrix: RelationMatrix | None,
    selected: str | None,
    room: int = 0,
    signs: Mapping[str, tuple[str, str]] | None = None,
) -> tuple[Line, ...]:
    """Write the matrix: head, one line a device, then what the NICs are called.

    `room`: cells there are; a matrix that is wider ends so that it can be scrolled by columns.
    `signs`: address -> sign and ink of what was found there, which stands behind the name.
    """
    if matrix is None:
        return READING
    show_cpus = any(row.cpu_affinity or row.numa_affinity for row in matrix.rows)
    lines = [_head(matrix, selected, signs or {}, show_cpus)]
    fewer = _fewer(matrix)
    for row in matrix.rows:
        sign = (signs or {}).get(row.address, NO_SIGN)
        lines.append(_row(matrix, row, row.address == selected, sign, fewer))
        if show_cpus and row.kind is PciKind.GPU:
            lines[-1] = (*lines[-1], *_cpus(row))
    lines += _nics(matrix, room or width_of(lines[0]))
    wide = max(map(width_of, lines))
    if wide > room > 0:
        rest = wide - width_of(lines[0]) + (room - wide) % cell_width(matrix)
        lines[0] = (*lines[0], (" " * rest, ""))
    return tuple(lines)


def _head(
    matrix: RelationMatrix,
    selected: str | None,
    signs: Mapping[str, tuple[str, str]],
    show_cpus: bool,
) -> Line:
    """The names of the columns, each with its sign."""
    head: list[tuple[str, str]] = [(" " * label_width(matrix), "")]
    for row in matrix.rows:
        ink = "strong" if row.address == selected else "muted"
        name = centre(short_address(row.label), cell_width(matrix) - 1)
        head += [(name, ink), signs.get(row.address, NO_SIGN)]
    return (*head, (" NUMA  CPUs near", "muted")) if show_cpus else tuple(head)


def _row(
    matrix: RelationMatrix,
    row: MatrixRow,
    here: bool,
    sign: tuple[str, str],
    fewer: Collection[str],
) -> Line:
    """The relations of one device; `here`: it is the selected one."""
    name, width = short_address(row.label), cell_width(matrix) - 1
    spans = [
        ("›" if here else " ", "key bold"),
        (name, "strong" if here else "muted"),
        (sign[0].ljust(label_width(matrix) - 1 - len(name)), sign[1]),
    ]
    for cell in row.cells:
        ink = "bad" if cell.code in fewer else relation_ink(cell.code)
        spans.append((centre(clean(cell.code, 8), width) + " ", ink + (" bold" if here else "")))
    return tuple(spans)


def _cpus(row: MatrixRow) -> Line:
    """NUMA node and CPUs of a GPU."""
    numa = left(clean(row.numa_affinity or "–", 20), 4)
    return ((f" {numa}  ", ""), (clean(row.cpu_affinity or "–", 60), "muted"))


class LinkMatrix(Board):
    """The lines of the matrix; a click gives the two devices of a cell."""

    matrix: RelationMatrix | None = None

    class CellClicked(Message):
        """The cell of two devices was clicked."""

        def __init__(self, devices: tuple[str, str]) -> None:
            super().__init__()
            self.devices = devices

    def on_click(self, event: events.Click) -> None:
        """Give the devices under the mouse."""
        at, matrix = event.get_content_offset(self), self.matrix
        if at is None or matrix is None or self.grid is None:
            return
        rows = [row.address for row in matrix.rows]
        row = self.line_at(at.y) - 1
        column = (self.column_at(at.x) - label_width(matrix)) // cell_width(matrix)
        if 0 <= row < len(rows) and 0 <= column < len(rows) and row != column:
            self.post_message(self.CellClicked((rows[row], rows[column])))


def _fewer(matrix: RelationMatrix) -> frozenset[str]:
    """Letters of pairs with fewer NVLinks than others, where switches join all alike.

    Where GPUs are joined directly some pairs have fewer by design.
    """
    pairs = Counter(
        cell.code
        for row in matrix.rows
        for cell, other in zip(row.cells, matrix.rows, strict=False)
        if row.kind is other.kind is PciKind.GPU and row is not other
    )
    counts = {
        letters: int(letters[2:])
        for letters in pairs
        if letters[:2] == "NV" and letters[2:].isdigit()
    }
    if len(counts) < len(pairs) or not counts:
        return frozenset()
    usual = max(counts.values())
    return frozenset(letters for letters, count in counts.items() if count < usual)


def _nics(matrix: RelationMatrix, width: int) -> tuple[Line, ...]:
    """What the NICs are called, as many in a line as fit."""
    lines: list[Line] = []
    for name, known in matrix.nics:
        part: Line = ((f" {name} ", "muted"), (f"{clean(known)} ", ""))
        if lines and width_of((*lines[-1], *part)) <= width:
            lines[-1] = (*lines[-1], *part)
        else:
            lines.append(part)
    return tuple(lines)


def grid(matrix: RelationMatrix) -> Grid:
    """The columns of `matrix_lines`: one a device, the NUMA node, the CPUs."""
    label, step, count = label_width(matrix), cell_width(matrix), len(matrix.rows)
    ends = [label + step * number for number in range(count + 1)]
    # What the affinity is written in, " 0     ", and the longest list of CPUs.
    numa = ends[-1] + len(" NUMA  ")
    cpus = max((len(clean(row.cpu_affinity or "–", 60)) for row in matrix.rows), default=0)
    return Grid(1 + count, (*ends, numa, numa + max(cpus, len("CPUs near"))))


def label_width(matrix: RelationMatrix) -> int:
    """Cells that the names of the rows take, with the mark of the cursor and a blank behind."""
    return 2 + max((len(short_address(row.label)) for row in matrix.rows), default=4)


def cell_width(matrix: RelationMatrix) -> int:
    """Cells of one column, with the blank behind it: what a step to the side scrolls by."""
    return 1 + max(4, *(len(short_address(row.label)) for row in matrix.rows)) if matrix.rows else 5
