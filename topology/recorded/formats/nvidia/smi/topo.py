"""The text of `nvidia-smi topo -m`: relations of devices in its letters, without PCI addresses.

GPUs come out as "topo:GPU0" with index 0, so that another file of the same node can give the PCI
address. NICs come out under their RDMA names from the NIC legend.
"""

from __future__ import annotations

import re
from pathlib import Path

from .....model.format import Format, FormatError
from .....model.machine import Gpu, GpuPair, ReportedRelation
from .....model.part import Part
from .....model.record import PCIE_ALONE, Gap
from .....model.surroundings import RdmaDevice
from .topo_table import GOES_ON, GPU, HEAD_SIGN, NAME, STARTS, TopoTable, TopoTableError

WHY = "not in nvidia-smi topo -m"
_NIC = re.compile(r"\ANIC\d{1,4}\Z")
_NODES = re.compile(r"\A\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*\Z")
_ANCESTORS = {
    "PIX": "single",
    "PXB": "multiple",
    "PHB": "hostbridge",
    "NODE": "node",
    "SYS": "system",
}
_MAX_NODES = 4096
_MAX_BYTES = 4 * 1024 * 1024
CUT = 6
"""Ranges after which nvidia-smi cuts a CPU list, seen where sockets take CPUs in turns."""


def _recognises(head: bytes, path: Path) -> bool:
    return HEAD_SIGN.search(head) is not None


def _parse(data: bytes, path: Path) -> Part:
    if len(data) > _MAX_BYTES:
        raise FormatError(f"{len(data)} bytes; the limit is {_MAX_BYTES}")
    try:
        table = TopoTable(data.decode("utf-8", "replace"))
    except TopoTableError as error:
        raise FormatError(str(error), error.line) from error
    names = {column: _identity(column, table.legend) for column in table.columns}
    if len(set(names.values())) != len(names):
        raise FormatError("two devices have the same name in the NIC legend")
    pairs: list[GpuPair] = []
    relations: list[ReportedRelation] = []
    for row, cells in table.rows.items():
        for column, letters in zip(table.columns, cells, strict=True):
            if row == column:
                continue
            relations.append(ReportedRelation(a=names[row], b=names[column], letters=letters))
            if GPU.match(row) and GPU.match(column):
                pairs.append(_pair(names[row], names[column], letters, table.pcie_alone))
    return Part(
        gpus=tuple(_gpu(name, table.tails[name]) for name in table.columns if GPU.match(name)),
        pairs=tuple(pairs),
        relations=tuple(relations),
        rdma=tuple(_nic(names[name]) for name in table.columns if not GPU.match(name)),
        assumptions=(PCIE_ALONE,) if table.pcie_alone else (),
    )


def _identity(column: str, legend: dict[str, str]) -> str:
    if GPU.match(column):
        return f"topo:{column}"
    name = legend.get(column, column)
    return name if NAME.match(name) else column


def _pair(src: str, dst: str, letters: str, pcie_alone: bool) -> GpuPair:
    links = int(letters[2:]) if letters.startswith("NV") else None if pcie_alone else 0
    ancestor = _ANCESTORS.get(letters)
    gaps = [
        Gap(field, WHY)
        for field in ("p2p_read", "p2p_write", "p2p_nvlink", "p2p_atomics", "p2p_pci")
    ]
    if links is None:
        gaps.append(Gap("nvlinks_reported", PCIE_ALONE))
    if ancestor is None:
        gaps.insert(0, Gap("ancestor", f"nvidia-smi topo -m shows {letters} in its place"))
    return GpuPair(src=src, dst=dst, ancestor=ancestor, nvlinks_reported=links, gaps=tuple(gaps))


def _gpu(name: str, tail: tuple[str, str, str]) -> Gpu:
    """Read the affinities behind the cells: CPU, NUMA, the GPU's own NUMA node."""
    cpus, nodes, own = tail
    known: dict[str, object] = {
        "address": f"topo:{name}",
        "vendor": "nvidia",
        "index": int(name.removeprefix("GPU")),
    }
    whole = cpus.count(",") != CUT - 1
    if whole and _NODES.match(cpus):
        known["cpu_affinity"] = cpus
    if _NODES.match(nodes) and (numbers := _numbers(nodes)):
        known["memory_affinity"] = numbers
    if own.isascii() and own.isdigit() and len(own) <= 5:
        known["gpu_numa_id"] = int(own)
    structured = ("gaps", "partition", "parent", "mig_instances", "xgmi", *known)
    printed = {"cpu_affinity": cpus, "memory_affinity": nodes, "gpu_numa_id": own}
    reasons = {field: f"nvidia-smi prints {text[:40]}" for field, text in printed.items() if text}
    if not whole:
        reasons["cpu_affinity"] = f"nvidia-smi prints the first {CUT} pieces of it: {cpus[:40]}"
    gaps = tuple(
        Gap(field, reasons.get(field, WHY))
        for field in Gpu.__struct_fields__
        if field not in structured
    )
    return Gpu(gaps=gaps, **known)  # type: ignore[arg-type]


def _numbers(text: str) -> tuple[int, ...]:
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if low > high or high >= _MAX_NODES:
            return ()
        found.update(range(low, high + 1))
    return tuple(sorted(found))


def _nic(name: str) -> RdmaDevice:
    gaps = [Gap(field, WHY) for field in ("address", "driver", "numa_node", "ports")]
    if _NIC.match(name):
        gaps.insert(0, Gap("name", "the text has no NIC legend"))
    return RdmaDevice(name=name, gaps=tuple(gaps))


FORMAT = Format(
    id="nvidia-smi topo -m",
    recognises=_recognises,
    parse=_parse,
    starts=STARTS,
    needs=("GPU0",),
    goes_on=GOES_ON,
)
