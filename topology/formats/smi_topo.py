"""The text of `nvidia-smi topo -m`: who hangs together how, in its letters, and no PCI address.

GPUs come out as "topo:GPU0" with index 0, so that another file of the same node can say which
PCI address that is. NICs come out under their RDMA names from the NIC legend.
"""

from __future__ import annotations

import re
from pathlib import Path

from ..machine import Gpu, GpuPair, RdmaDevice, ReportedRelation
from ..record import Gap
from ..sources.source import Part
from .format import Format, FormatError

WHY = "not in nvidia-smi topo -m"
_ANSI = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_HEADER = re.compile(r"\A\s*GPU\d{1,4}\s+(.*\s)?CPU\s+Affinity\b")
_HEAD_SIGN = re.compile(rb"(?m)^[ \t\x1b\[0-9;m]*GPU\d{1,4}[ \t].*CPU[ \t]+Affinity")
_GPU = re.compile(r"\AGPU(\d{1,4})\Z")
_NIC = re.compile(r"\ANIC\d{1,4}\Z")
_NAME = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9_.:\-]{0,63}\Z")
_LEGEND = re.compile(r"\A\s*(NIC\d{1,4})\s*:\s*(\S{1,64})\s*\Z")
_CELL = re.compile(r"\A(X|NV\d{1,3}|PIX|PXB|PHB|NODE|SYS|SOC|C2C)\Z")
_NODES = re.compile(r"\A\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*\Z")
_ANCESTORS = {
    "PIX": "single",
    "PXB": "multiple",
    "PHB": "hostbridge",
    "NODE": "node",
    "SYS": "system",
}
_MAX_DEVICES = 256
_MAX_NODES = 4096
_MAX_BYTES = 4 * 1024 * 1024


def _recognises(head: bytes, path: Path) -> bool:
    return _HEAD_SIGN.search(head) is not None


class _Table:
    """The matrix as text: columns, rows with cells and what follows them, the NIC legend."""

    def __init__(self, lines: list[str]) -> None:
        self.columns: list[str] = []
        self.rows: dict[str, list[str]] = {}
        self.rest: dict[str, list[str]] = {}
        self.legend: dict[str, str] = {}
        for number, line in enumerate(lines, start=1):
            if not self.columns:
                if _HEADER.match(line):
                    self._header(line, number)
            elif line.split()[:1] and line.split()[0] in self.columns:
                self._row(line, number)
            elif match := _LEGEND.match(line):
                self.legend[match[1]] = match[2]
        if not self.columns:
            raise FormatError("no header line with GPU0 and CPU Affinity in it")
        missing = [name for name in self.columns if name not in self.rows]
        if missing:
            raise FormatError(f"{missing[0]} has a column but no row: the text is cut short")

    def _header(self, line: str, number: int) -> None:
        names = re.split(r"\s+CPU\s+Affinity\b", line, maxsplit=1)[0].split()
        if len(names) > _MAX_DEVICES:
            raise FormatError(f"{len(names)} devices; the limit is {_MAX_DEVICES}", number)
        for name in names:
            if not _NAME.match(name):
                raise FormatError(f"column {name[:40]!r} is no name of a device", number)
        if len(set(names)) != len(names):
            raise FormatError("a device has two columns", number)
        self.columns = names

    def _row(self, line: str, number: int) -> None:
        words = line.split()
        name, cells = words[0], words[1 : len(self.columns) + 1]
        if name in self.rows:
            raise FormatError(f"{name} has two rows", number)
        if len(cells) < len(self.columns):
            raise FormatError(f"{name} has {len(cells)} of {len(self.columns)} cells", number)
        for column, cell in zip(self.columns, cells, strict=True):
            if not _CELL.match(cell) or (cell == "X") != (column == name):
                raise FormatError(f"cell {cell[:20]!r} of {name} and {column}", number)
        self.rows[name] = ["SYS" if cell == "SOC" else cell for cell in cells]
        self.rest[name] = words[len(self.columns) + 1 :]


def _parse(data: bytes, path: Path) -> Part:
    if len(data) > _MAX_BYTES:
        raise FormatError(f"{len(data)} bytes; the limit is {_MAX_BYTES}")
    text = _ANSI.sub("", data.decode("utf-8", "replace"))
    table = _Table(text.splitlines())
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
            if _GPU.match(row) and _GPU.match(column):
                pairs.append(_pair(names[row], names[column], letters))
    return Part(
        gpus=tuple(_gpu(name, table.rest[name]) for name in table.columns if _GPU.match(name)),
        pairs=tuple(pairs),
        relations=tuple(relations),
        rdma=tuple(_nic(names[name]) for name in table.columns if not _GPU.match(name)),
    )


def _identity(column: str, legend: dict[str, str]) -> str:
    if _GPU.match(column):
        return f"topo:{column}"
    name = legend.get(column, column)
    return name if _NAME.match(name) else column


def _pair(src: str, dst: str, letters: str) -> GpuPair:
    links = int(letters[2:]) if letters.startswith("NV") else 0
    ancestor = _ANCESTORS.get(letters)
    gaps = [
        Gap(field, WHY)
        for field in ("p2p_read", "p2p_write", "p2p_nvlink", "p2p_atomics", "p2p_pci")
    ]
    if ancestor is None:
        gaps.insert(0, Gap("ancestor", f"nvidia-smi topo -m shows {letters} in its place"))
    return GpuPair(src=src, dst=dst, ancestor=ancestor, nvlinks_reported=links, gaps=tuple(gaps))


def _gpu(name: str, rest: list[str]) -> Gpu:
    """Read the affinities behind the cells: CPU, NUMA, the GPU's own NUMA node."""
    cpus, nodes, own = [*rest, "", "", ""][:3]
    known: dict[str, object] = {
        "address": f"topo:{name}",
        "vendor": "nvidia",
        "index": int(name.removeprefix("GPU")),
    }
    if _NODES.match(cpus):
        known["cpu_affinity"] = cpus
    if _NODES.match(nodes) and (numbers := _numbers(nodes)):
        known["memory_affinity"] = numbers
    if own.isascii() and own.isdigit() and len(own) <= 5:
        known["gpu_numa_id"] = int(own)
    structured = ("gaps", "partition", "parent", "mig_instances", "xgmi", *known)
    printed = {"cpu_affinity": cpus, "memory_affinity": nodes, "gpu_numa_id": own}
    gaps = tuple(
        Gap(field, f"nvidia-smi prints {text[:40]}" if (text := printed.get(field)) else WHY)
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


FORMAT = Format(id="nvidia-smi topo -m", recognises=_recognises, parse=_parse)
