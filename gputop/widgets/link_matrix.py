"""The matrix of `nvidia-smi topo -m` as lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gputop.terminal.clean import clean
from gputop.topology.hardware.vendors import AMD
from gputop.topology.model.machine import PciKind
from gputop.widgets.gpu_cells import short_address
from gputop.widgets.spans import Grid, Line, centre, left, width_of

if TYPE_CHECKING:
    from gputop.topology.report import Report
    from gputop.topology.wiring.relations import RelationMatrix

LINKS = "Links"
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
    label = label_width(matrix)
    width = cell_width(matrix) - 1
    show_cpus = any(row.cpu_affinity or row.numa_affinity for row in matrix.rows)
    head: list[tuple[str, str]] = [(" " * label, "")]
    for row in matrix.rows:
        ink = "strong" if row.address == selected else "muted"
        name, (sign, loud) = short_address(row.label), (signs or {}).get(row.address, (" ", ""))
        head += [(centre(name, width), ink), (sign, loud)]
    if show_cpus:
        head.append((" NUMA  CPUs near", "muted"))
    lines: list[Line] = [tuple(head)]
    fewer = _fewer(matrix)
    for row in matrix.rows:
        here = row.address == selected
        name, (sign, loud) = short_address(row.label), (signs or {}).get(row.address, (" ", ""))
        spans = [
            ("›" if here else " ", "key bold"),
            (name, "strong" if here else "muted"),
            (sign.ljust(label - 1 - len(name)), loud),
        ]
        for cell in row.cells:
            ink = "bad" if cell.code in fewer else relation_ink(cell.code)
            spans.append(
                (centre(clean(cell.code, 8), width) + " ", ink + (" bold" if here else ""))
            )
        if show_cpus and row.kind is PciKind.GPU:
            spans.append((f" {left(clean(row.numa_affinity or '–', 20), 4)}  ", ""))
            spans.append((clean(row.cpu_affinity or "–", 60), "muted"))
        lines.append(tuple(spans))
    lines += _nics(matrix, room or width_of(lines[0]))
    wide = max(map(width_of, lines))
    if wide > room > 0:
        rest = wide - width_of(lines[0]) + (room - wide) % (width + 1)
        lines[0] = (*lines[0], (" " * rest, ""))
    return tuple(lines)


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
