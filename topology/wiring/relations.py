"""Relations of all devices: the matrix of `nvidia-smi topo -m`, and groups of joined GPUs."""

from __future__ import annotations

import re

import msgspec

from ..hardware.vendors import AMD, NVIDIA
from ..model.characters import printable
from ..model.machine import Machine, PciKind
from ..model.severity import Word
from ..sources.nvidia.words import ranges
from .codes import MEANING, SELF, UNKNOWN, Relation, Relations, has_a_row
from .gpu_names import numbered, row_labels
from .graph import gpu_numa

NOT_APPLICABLE = "N/A"
"""What nvidia-smi prints for an affinity it does not know."""
LEGEND = ("X", "SYS", "NODE", "PHB", "PXB", "PIX", "NV#", "XGMI", UNKNOWN)
"""Order in which the letters are explained below the matrix.

The last two only when they occur, and NVLinks not where all GPUs are AMD's."""

SLINGSHOT = "cxi"
"""How the names of the kernel drivers of a Slingshot NIC begin."""


class AffinitySource(Word):
    """Who says which CPUs are near."""

    DRIVER = "driver"
    SYSFS = "sysfs"


class MatrixRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row: a device, and its relation to every column."""

    label: str
    """"GPU0", "NIC0"."""
    address: str
    """PCI address, or the name of a NIC known only from a text."""
    kind: PciKind
    cells: tuple[Relation, ...]
    cpu_affinity: str | None = None
    numa_affinity: str | None = None
    gpu_numa_id: int | None = None
    affinity_basis: AffinitySource | None = None
    """Where the affinity comes from."""


class RelationMatrix(msgspec.Struct, frozen=True, kw_only=True):
    """All relations; columns are in the order of the rows."""

    rows: tuple[MatrixRow, ...] = ()
    nics: tuple[tuple[str, str], ...] = ()
    """Legend: (label, RDMA name)."""
    nvlinks: bool = True
    """Whether GPUs are among them that could have NVLinks."""

    @property
    def labels(self) -> tuple[str, ...]:
        """List the column heads."""
        return tuple(row.label for row in self.rows)

    def row(self, address: str) -> MatrixRow | None:
        """Find the row of a device by PCI address."""
        return next((row for row in self.rows if row.address == address), None)

    def cell(self, a: str, b: str) -> Relation | None:
        """Find the relation of two devices by PCI address."""
        row = self.row(a)
        column = next((i for i, other in enumerate(self.rows) if other.address == b), None)
        return None if row is None or column is None else row.cells[column]


def relation(machine: Machine, a: str, b: str) -> Relation:
    """Find the relation of two devices of a machine, by PCI address."""
    return Relations(machine).between(a, b)


def islands(relations: RelationMatrix) -> tuple[tuple[str, ...], ...]:
    """Group the GPUs that NVLink or xGMI joins, by address; a GPU joined to no other is in none."""
    groups: list[set[str]] = []
    for row in relations.rows:
        joined = {row.address}
        for column, cell in zip(relations.rows, row.cells, strict=True):
            if cell.code.startswith(("NV", "XGMI")):
                joined.add(column.address)
        if len(joined) > 1:
            touching = [group for group in groups if group & joined]
            groups = [group for group in groups if not group & joined]
            groups.append(joined.union(*touching))
    return tuple(sorted(tuple(sorted(group)) for group in groups))


def matrix(machine: Machine) -> RelationMatrix:
    """Relate every GPU and NIC of the compute fabric of a machine to every other one."""
    gpus = [*filter(has_a_row, machine.gpus)]
    gpus.sort(key=numbered)
    nics = sorted(_nics(machine), key=lambda nic: _natural(nic[0]))
    labels = row_labels(gpus)
    names = [(label, gpu.address, PciKind.GPU) for label, gpu in zip(labels, gpus, strict=True)]
    names += [(f"NIC{i}", address, PciKind.NIC) for i, (_, address) in enumerate(nics)]
    find = Relations(machine)
    addresses = [address for _, address, _ in names]
    cells: list[list[Relation]] = [[] for _ in names]
    for index, address in enumerate(addresses):
        for other in range(index, len(addresses)):
            cell = find.between(address, addresses[other])
            cells[index].append(cell)
            if other != index:
                cells[other].append(cell)
    rows = tuple(_row(machine, *name, tuple(row)) for name, row in zip(names, cells, strict=True))
    legend = tuple((f"NIC{i}", name) for i, (name, _) in enumerate(nics))
    amd = bool(gpus) and all(gpu.vendor == AMD.id for gpu in gpus)
    return RelationMatrix(rows=rows, nics=legend, nvlinks=not amd)


def _nics(machine: Machine) -> list[tuple[str, str]]:
    """Names and addresses of the RDMA devices, and of Slingshot NICs, which the kernel lists apart.

    `nvidia-smi topo -m` knows RDMA devices alone, so beside NVIDIA's GPUs there are no others.
    """
    named = {name for relation in machine.relations for name in (relation.a, relation.b)}
    found = [
        (device.name, device.name if device.address is None else device.address)
        for device in machine.rdma
        # Without an address there is nothing to go by but the matrix that names it.
        if device.address is not None or device.name in named
    ]
    if any(gpu.vendor == NVIDIA.id for gpu in machine.gpus):
        return found
    known = {address for _, address in found}
    return found + [
        (interface.name, interface.address)
        for interface in machine.interfaces
        if interface.address is not None
        and (interface.driver or "").startswith(SLINGSHOT)
        and interface.address not in known
    ]


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """Order mlx5_2 before mlx5_10."""
    return tuple(
        (int(piece), "") if piece.isdecimal() else (-1, piece)
        for piece in re.split(r"([0-9]{1,9})", name)
    )


def _row(
    machine: Machine, label: str, address: str, kind: PciKind, cells: tuple[Relation, ...]
) -> MatrixRow:
    gpu = machine.gpu(address) if kind is PciKind.GPU else None
    if gpu is None:
        return MatrixRow(label=label, address=address, kind=kind, cells=cells)
    cpus, basis = gpu.cpu_affinity, AffinitySource.DRIVER
    if cpus is None:
        device = machine.pci_device(address)
        cpus = device.local_cpus if device is not None else None
        basis = AffinitySource.SYSFS
    near = gpu.memory_affinity
    numa = ranges(near) if near else None
    if numa is None and (node := gpu_numa(gpu)) is not None:
        numa = str(node)
    return MatrixRow(
        label=label,
        address=address,
        kind=kind,
        cells=cells,
        cpu_affinity=cpus,
        numa_affinity=numa,
        gpu_numa_id=gpu.gpu_numa_id,
        affinity_basis=basis if cpus is not None else None,
    )


def format_matrix(relations: RelationMatrix) -> str:
    """Write the matrix as `nvidia-smi topo -m` does, tab for tab; the legend is our own."""
    lines = ["\t".join(("", *relations.labels, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"))]
    for row in relations.rows:
        tail = ["", "", "", ""]
        if row.kind is PciKind.GPU:
            identity = NOT_APPLICABLE if row.gpu_numa_id is None else str(row.gpu_numa_id)
            cpus, numa = row.cpu_affinity or NOT_APPLICABLE, row.numa_affinity or NOT_APPLICABLE
            tail = [cpus, numa, "", identity]
        cells = (row.label, *map(_cell, row.cells), *tail)
        lines.append("\t".join(map(printable, cells)))
    used = {cell.code for row in relations.rows for cell in row.cells}
    rare = {*LEGEND[-2:], *(() if relations.nvlinks else ("NV#",))}
    shown = [letters for letters in LEGEND if letters not in rare or letters in used]
    lines += ["", "Legend:", "", *(f"  {letters:4} = {MEANING[letters]}" for letters in shown)]
    if relations.nics:
        lines += ["", "NIC Legend:", "", *map(printable, _legend(relations))]
    return "\n".join(lines) + "\n"


def _legend(relations: RelationMatrix) -> list[str]:
    return [f"  {label}: {name}" for label, name in relations.nics]


def _cell(relation: Relation) -> str:
    return " X " if relation.code == SELF else relation.code
