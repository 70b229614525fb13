"""NVMe drives: what each is, its link, and how near it is to each GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ..model.machine import Machine, PciDevice, PciKind
from ..model.record import by_address
from ..model.surroundings import Drive
from .codes import Relations, has_a_row
from .gpu_names import numbered, row_labels
from .graph import LINK_PORTS
from .wires import link_limits, pcie_wire

NVME = "NVMe"
"""Name of a drive that the kernel does not name: a text of the PCI bus alone."""


class DriveRow(msgspec.Struct, frozen=True, kw_only=True):
    """One drive."""

    name: str
    """"nvme0", else "NVMe" and its address."""
    address: str | None
    """PCI address; None for a drive behind a network."""
    model: str | None
    size_bytes: int | None
    numa_node: int | None
    link: str
    """"PCIe gen4 x4"; "" where it is not known."""
    payload_gbs: float | None
    """What that link carries one way, GB/s."""
    filesystems: tuple[str, ...] | None
    arrays: tuple[str, ...] | None
    cells: tuple[str, ...]
    """Codes of PCIe distance to each GPU; () for a drive behind a network."""


class DriveTable(msgspec.Struct, frozen=True, kw_only=True):
    """The drives of a machine, beside its GPUs."""

    gpus: tuple[str, ...]
    """PCI addresses of the columns."""
    labels: tuple[str, ...]
    """"GPU0": heads of the columns."""
    rows: tuple[DriveRow, ...]


def drive_table(machine: Machine) -> DriveTable:
    """The drives in the order of their names, those that only the PCI bus shows last."""
    gpus = sorted((gpu for gpu in machine.gpus if has_a_row(gpu)), key=numbered)
    addresses = tuple(gpu.address for gpu in gpus)
    rows = tuple(_rows(machine, addresses))
    return DriveTable(gpus=addresses, labels=tuple(row_labels(gpus)), rows=rows)


def _rows(machine: Machine, gpus: Sequence[str]) -> Iterator[DriveRow]:
    functions = by_address(one for one in machine.pci if one.kind == PciKind.NVME)
    ports = by_address(one for one in machine.pci if one.kind in LINK_PORTS)
    named = sorted(machine.drives, key=lambda drive: (len(drive.name), drive.name))
    known = {drive.address for drive in named}
    relations = Relations(machine) if functions or named else None
    bare = [Drive(name=f"{NVME} {one}", address=one) for one in functions if one not in known]
    for drive in (*named, *bare):
        function = functions.get(drive.address or "")
        cells: tuple[str, ...] = ()
        if relations is not None and drive.address is not None:
            cells = tuple(relations.between(drive.address, gpu).code for gpu in gpus)
        port = None if function is None else ports.get(function.parent)
        yield _row(drive, function, port, cells)


def _row(
    drive: Drive, function: PciDevice | None, port: PciDevice | None, cells: tuple[str, ...]
) -> DriveRow:
    numa = drive.numa_node
    wire = None
    model = drive.model
    if function is not None:
        numa = function.numa_node if numa is None else numa
        model = model or function.device_name
        wire = pcie_wire(*link_limits(function, port), "the link of the drive")
    rated = wire is not None and wire.payload_gbs is not None
    return DriveRow(
        name=drive.name,
        address=drive.address,
        model=model,
        size_bytes=drive.size_bytes,
        numa_node=numa,
        link=wire.name() if wire is not None and rated else "",
        payload_gbs=wire.payload_gbs if wire is not None else None,
        filesystems=drive.filesystems,
        arrays=drive.arrays,
        cells=cells,
    )
