"""The relations of all devices as the vendor's own tool prints them.

For a node with only AMD GPUs these are the tables of `rocm-smi --showtopo` and `--shownodesbw`. The
layout is that of rocm_smi.py (showWeightTopology, showHopsTopology, showTypeTopology,
showNumaTopology, showNodesBw), without the blanks that it leaves at the ends of lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..hardware.vendors import AMD, only, vendor_of
from ..model.characters import printable
from ..model.machine import Gpu, GpuPair, Machine
from ..model.units import figure, size
from ..node import Node
from ..wiring.codes import has_a_row
from ..wiring.drives import DriveRow, DriveTable, drive_table
from ..wiring.gpu_names import numbered, row_labels
from ..wiring.graph import gpu_numa
from ..wiring.relations import format_matrix
from .written import Written

LETTERS = "GPUs and NICs, in codes of PCIe distance (RCCL's differ):"
DRIVES = "NVMe drives and GPUs, in codes of PCIe distance:"
WIDTH = 90
NOT_TOLD = "N/A"
"""What rocm-smi prints for a weight that the library does not give."""
HOP_WEIGHT = 15
NOTE = (
    "Hops as rocm-smi counts them: 1 = xGMI, directly or over other GPUs; 2 = by one CPU; "
    "3 = by two."
)

RATES = (
    "Format: min-max; Units: mps",
    '"0-0" min-max bandwidth indicates devices are not connected directly',
)
"""Below the bandwidths; mps = MB/s one way, of one link and of all links of the pair."""

_Cell = Callable[[Gpu, Gpu, GpuPair | None], str]


def write(node: Node) -> Written:
    """Write what the vendor's tool prints; rocm-smi knows no NICs, which follow in letters."""
    machine = node.snapshot.machine
    letters, disks = format_matrix(node.matrix), format_drives(drive_table(machine))
    if not has_tables(machine):
        return Written(letters + disks)
    tables = format_showtopo(machine)
    shown = f"{tables}\n{LETTERS}\n\n{letters}" if node.matrix.nics else tables
    return Written(shown + disks)


def format_drives(table: DriveTable) -> str:
    """A table of drives below that of GPUs, which knows none; "" without a drive."""
    if not table.rows:
        return ""
    lines = ["", DRIVES, "", "\t".join(("", *table.labels, "NUMA node"))]
    for row in table.rows:
        cells = row.cells or (NOT_TOLD,) * len(table.labels)
        numa = NOT_TOLD if row.numa_node is None else str(row.numa_node)
        lines.append("\t".join(map(printable, (row.name, *cells, numa))))
    lines += ["", "Drive Legend:", "", *(printable(f"  {_drive(row)}") for row in table.rows)]
    return "\n".join(lines) + "\n"


def _drive(row: DriveRow) -> str:
    rate = "" if row.payload_gbs is None else f"{figure(row.payload_gbs)} GB/s"
    known = (
        row.model or "",
        "" if row.size_bytes is None else size(row.size_bytes),
        row.link,
        rate,
        "on a network" if row.address is None else "",
        *(row.filesystems or ()),
        *(f"in {name}" for name in row.arrays or ()),
    )
    return f"{row.name}: {', '.join(filter(None, known)) or 'nothing more is known'}"


def has_tables(machine: Machine) -> bool:
    """Whether all GPUs are AMD GPUs and a driver says how pairs of them are joined."""
    return only(machine.gpus) is AMD and any(
        pair.link_type is not None or pair.weight is not None for pair in machine.pairs
    )


def format_showtopo(machine: Machine) -> str:
    """Write the tables; a note below says what the hops leave out."""
    gpus = [gpu for gpu in machine.gpus if vendor_of(gpu) is AMD and has_a_row(gpu)]
    gpus.sort(key=numbered)
    pairs = {(pair.src, pair.dst): pair for pair in machine.pairs}
    lines = [_bar(" ROCm System Management Interface ")]
    for title, cell in (
        (" Weight between two GPUs ", _weight),
        (" Hops between two GPUs ", _hops),
        (" Link Type between two GPUs ", _type),
    ):
        lines += [_bar(title), *_table(gpus, pairs, cell), ""]
    lines += [_bar(" Numa Nodes "), *_numa(gpus)]
    if any(link.bandwidth_max_gbs is not None for gpu in gpus for link in gpu.xgmi):
        rates = _Rates(gpus)
        lines += ["", _bar(" Bandwidth "), *_table(gpus, pairs, rates.cell, NOT_TOLD), *RATES]
    lines.append(_bar(" End of ROCm SMI Log "))
    return "\n".join([*lines, *_notes(gpus, pairs)]) + "\n"


def _bar(title: str) -> str:
    # rocm_smi.py adds a character to a title of odd length.
    title += "=" * (len(title) % 2)
    side = "=" * ((WIDTH - len(title)) // 2)
    return f"{side}{title}{side}"


def _table(
    gpus: Sequence[Gpu],
    pairs: dict[tuple[str, str], GpuPair],
    cell: _Cell,
    itself: str = "0",
) -> list[str]:
    labels = row_labels(gpus)
    width = max(len(label) for label in ("GPU000", *labels))
    lines = [" " * (width + 1) + " ".join(f"{label:<12}" for label in labels)]
    for label, src in zip(labels, gpus, strict=True):
        cells = (
            itself if src is dst else cell(src, dst, _pair(pairs, src.address, dst.address))
            for dst in gpus
        )
        lines.append(f"{label:<{width}} " + " ".join(f"{printable(text):<12}" for text in cells))
    return [line.rstrip() for line in lines]


def _pair(pairs: dict[tuple[str, str], GpuPair], a: str, b: str) -> GpuPair | None:
    return pairs.get((a, b)) or pairs.get((b, a))


def _weight(_src: Gpu, _dst: Gpu, pair: GpuPair | None) -> str:
    return NOT_TOLD if pair is None or pair.weight is None else str(pair.weight)


def _hops(_src: Gpu, _dst: Gpu, pair: GpuPair | None) -> str:
    if pair is not None and pair.over_xgmi:
        # rocm_smi.cc gives 1 for every pair that xGMI joins, however many GPUs lie between.
        return "1"
    return NOT_TOLD if pair is None or pair.hops is None else str(pair.hops)


def _type(_src: Gpu, _dst: Gpu, pair: GpuPair | None) -> str:
    return NOT_TOLD if pair is None or pair.link_type is None else pair.link_type.upper()


class _Rates:
    """What each xGMI link carries, by the addresses of its ends."""

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        self._known: dict[tuple[str, str], str] = {}
        for gpu in gpus:
            for link in gpu.xgmi:
                least, most = link.bandwidth_min_gbs, link.bandwidth_max_gbs
                if least is not None and most is not None:
                    words = f"{least * 1000:.0f}-{most * 1000:.0f}"
                    self._known.setdefault((gpu.address, link.remote_address), words)

    def cell(self, src: Gpu, dst: Gpu, pair: GpuPair | None) -> str:
        known = self._known.get((src.address, dst.address))
        if known is not None:
            return known
        far = pair is not None and pair.over_xgmi and _over_others(pair)
        return "0-0" if far else NOT_TOLD


def _over_others(pair: GpuPair) -> bool:
    """Whether xGMI leads over other GPUs, according to the driver's weight."""
    weight = pair.weight or 0
    return weight > HOP_WEIGHT and weight % HOP_WEIGHT == 0


def _numa(gpus: Sequence[Gpu]) -> list[str]:
    lines: list[str] = []
    for label, gpu in zip(row_labels(gpus), gpus, strict=True):
        near = gpu_numa(gpu)
        head = f"GPU[{label.removeprefix('GPU')}]\t\t: (Topology) Numa"
        node = NOT_TOLD if near is None else str(near)
        lines += [f"{head} Node: {node}", f"{head} Affinity: {node}"]
    return lines


def _notes(gpus: Sequence[Gpu], pairs: dict[tuple[str, str], GpuPair]) -> list[str]:
    """Say which pairs with 1 hop have no xGMI link of their own."""
    names = dict(zip((gpu.address for gpu in gpus), row_labels(gpus), strict=True))
    far = [
        f"{names[pair.src]}-{names[pair.dst]} {(pair.weight or 0) // HOP_WEIGHT}"
        for pair in pairs.values()
        if pair.over_xgmi
        and _over_others(pair)
        and pair.src < pair.dst
        and pair.src in names
        and pair.dst in names
    ]
    lines = ["", NOTE]
    if far:
        lines.append(f"xGMI hops by the driver's weight ({HOP_WEIGHT} each): {', '.join(far)}.")
    return lines
