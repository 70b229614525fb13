"""The text of `nvidia-smi topo -m`: relations of devices in its letters, without PCI addresses.

GPUs come out as "topo:GPU0" with index 0, so that another file of the same node can give the PCI
address. NICs come out under their RDMA names from the NIC legend.
"""

from __future__ import annotations

import re

from .....model.format import FormatError, text_format
from .....model.machine import Gpu, GpuPair, ReportedRelation
from .....model.part import PartialNode
from .....model.record import PCIE_ALONE, Gap, gaps_of
from .....model.surroundings import RdmaDevice

WHY = "not in nvidia-smi topo -m"
_NIC = re.compile(r"\ANIC\d{1,4}\Z")
_OWN_NODE = re.compile(r"\A[0-9]{1,5}\Z")
_NODES = re.compile(r"\A\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*\Z")
_ANCESTORS = {
    "PIX": "single",
    "PXB": "multiple",
    "PHB": "hostbridge",
    "NODE": "node",
    "SYS": "system",
}
_MAX_NODES = 4096
CUT = 6
"""Ranges after which nvidia-smi cuts a CPU list, seen where sockets take CPUs in turns."""

# The matrix of `nvidia-smi topo -m` as text: columns, cells, affinities, NIC legend.
#
# Read as people keep it: with the escapes of a terminal or what a web page leaves of them, beside
# other matrices, cut to the rows of the GPUs, with the tabs of its head lost.
MAX_DEVICES = 256
NAME = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9_.:\-]{0,63}\Z")
GPU = re.compile(r"\AGPU(\d{1,4})\Z")
_LETTERS = r"(?:X|NV\d{1,2}|PIX|PXB|PHB|NODE|SYS|SOC|C2C)"
_CELLS = rf"[ \t|]+(?:{_LETTERS}(?![A-Z])|{_LETTERS}{{2}})"
_GRANTS = r"(?![^\n]{0,4000}[ \t|](?:OK|CNS|GNS|TNS|NS|DR|U)(?![A-Z]))"
STARTS = re.compile(
    # The command may stand before the head, in its line. Without affinities, the first row tells.
    r"(?m)^(?:[^\n]{0,200}\btopo (?:-mp?|--matrix)[ \t]+(?=GPU))?[ \t|]*GPU\d{1,4}"
    r"(?:[^\n]{0,8000}?\bCPU[ \t]+Affinity|"
    rf"[^\n]{{0,8000}}\n(?:[ \t|:-]*\n){{0,4}}{_GRANTS}[ \t|]*GPU\d{{1,4}}{_CELLS})"
)
GOES_ON = re.compile(
    rf"{_GRANTS}[ \t|]*[A-Za-z][\w.:-]{{0,63}}{_CELLS}|"
    r"[ \t]*(?:NIC )?Legend:|[ \t]*(?:X|SYS|NODE|PHB|PXB|PIX|NV#|C2C|SOC|PSB)[ \t]+=|"
    r"[ \t]*NIC\d{1,4}[ \t]*:|[ \t|:-]+\Z"
)
"""A row, an explanation below it, or the rule of a Markdown table."""
# A page that shows what a terminal printed often drops the escape byte and keeps the rest.
_ANSI = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]|\[[0-9;]{1,8}m")
_HEADER = re.compile(r"\A\s*GPU\d{1,4}(.*\s)?CPU\s+Affinity\b")
_GLUED = re.compile(r"(?<=\S)(?=GPU\d)|(?<=\d)(?=NIC\d)|(?<=GPU\d)(?=[a-z])|(?<=GPU\d\d)(?=[a-z])")
_TITLE = re.compile(r"\b(?:CPU|NUMA)\s+Affinity\b|\bGPU\s+NUMA\s+ID\b")
_COMMAND = re.compile(r"(?m)^[^\n]{0,200}\btopo (?:-mp?|--matrix)[ \t]+(?=GPU\d)")
_LEGEND = re.compile(r"\A\s*(NIC\d{1,4})\s*:\s*(\S{1,64})\s*\Z")
_GLUED_CELLS = re.compile(rf"\A{_LETTERS}{{2,256}}\Z")
_BARE_HEADER = re.compile(r"\A\s*GPU\d{1,4}(?:\s+[A-Za-z][\w.:-]{0,63})*\s*\Z")
_CELL = re.compile(r"\A(X|NV\d{1,3}|PIX|PXB|PHB|NODE|SYS|SOC|C2C)\Z")
_TAB_TAIL = 4
"""Fields behind the cells in a line with all its tabs: the heading NUMA Affinity takes two."""


class TopoTable:
    """The first matrix of a text. Rows of NICs may be missing, those of GPUs may not."""

    def __init__(self, text: str) -> None:
        """Read the text. Raises FormatError."""
        self.columns: list[str] = []
        self.rows: dict[str, list[str]] = {}
        self.tails: dict[str, tuple[str, str, str]] = {}
        """By row: CPU affinity, NUMA affinity and the GPU's own node as printed; "" for none."""
        self.legend: dict[str, str] = {}
        self.pcie_alone = False
        """Whether it is the matrix of `topo -mp`, whose legend explains no NVLinks."""
        self._titles = 0
        explained: set[str] = set()
        apart = ended = False
        # A table of a page has pipes, or what is left of its border.
        lines = _COMMAND.sub("", _ANSI.sub("", text)).replace("|", " ").splitlines()
        bare = not any(map(_HEADER.match, lines))
        for number, line in enumerate(lines, start=1):
            words = line.split()
            if not self.columns:
                if (_BARE_HEADER if bare else _HEADER).match(line):
                    self._header(line, number)
            elif not ended and words and words[0] in self.columns:
                if words[0] in self.rows:
                    if not apart:
                        raise FormatError(f"{words[0]} has two rows", number)
                    ended = True  # another matrix, such as that of topo -p2p
                else:
                    self._row(line, words, number)
                    apart = False
            elif match := _LEGEND.match(line):
                self.legend.setdefault(match[1], match[2])
            else:
                apart = bool(self.rows)
                if apart and not ended and words[1:2] == ["="]:
                    explained.add(words[0])
        self.pcie_alone = "PIX" in explained and "NV#" not in explained
        if not self.columns:
            raise FormatError("no header line with GPU0 in it")
        missing = [name for name in self.columns if GPU.match(name) and name not in self.rows]
        if missing:
            raise FormatError(f"{missing[0]} has a column but no row: the text is cut short")

    def _header(self, line: str, number: int) -> None:
        titles = list(_TITLE.finditer(line))
        names = _GLUED.sub(" ", line[: titles[0].start()] if titles else line).split()
        if len(names) > MAX_DEVICES:
            raise FormatError(f"{len(names)} devices; the limit is {MAX_DEVICES}", number)
        for name in names:
            if not NAME.match(name):
                raise FormatError(f"column {name[:40]!r} is not the name of a device", number)
        if len(set(names)) != len(names):
            raise FormatError("a device has two columns", number)
        self.columns, self._titles = names, len(titles)

    def _row(self, line: str, words: list[str], number: int) -> None:
        count = len(self.columns)
        words = [part for word in words for part in _apart(word)]
        name, cells = words[0], words[1 : count + 1]
        if len(cells) < count:
            raise FormatError(f"{name} has {len(cells)} of {count} cells", number)
        for column, cell in zip(self.columns, cells, strict=True):
            if not _CELL.match(cell) or (cell == "X") != _same(name, column, cell):
                raise FormatError(f"cell {cell[:20]!r} of {name} and {column}", number)
        self.rows[name] = ["SYS" if cell == "SOC" else cell for cell in cells]
        self.tails[name] = self._tail(line, words[count + 1 :])

    def _tail(self, line: str, words: list[str]) -> tuple[str, str, str]:
        # Only the indent of a web page or a list may stand before the name.
        if not self._titles:
            return "", "", ""
        parts = line.lstrip().split("\t")
        fields = [field.strip() for field in parts][len(self.columns) + 1 :]
        if len(fields) >= _TAB_TAIL:  # all tabs are there, so an empty field is recognised
            return fields[0], fields[1], fields[3]
        if len(words) < self._titles:
            return "", "", ""  # one of them is empty, and nothing shows which
        cpus, near, own = [*words, "", "", ""][:3]
        return cpus, near, own


def _same(row: str, column: str, cell: str) -> bool:
    """Whether a cell is of one device; two ports of one NIC are one too."""
    return column == row or (cell == "X" and not GPU.match(column) and not GPU.match(row))


def _apart(word: str) -> list[str]:
    """The cells that a word consists of where blanks are lost, as in NODENODE; or the word."""
    return re.findall(_LETTERS, word) if _GLUED_CELLS.match(word) else [word]


def _parse(lines: list[str]) -> PartialNode:
    table = TopoTable("\n".join(lines))
    names = {column: _identity(column, table.legend) for column in table.columns}
    if len(set(names.values())) != len(names):
        raise FormatError("two devices have the same name in the NIC legend")
    pairs: list[GpuPair] = []
    relations: list[ReportedRelation] = []
    gpus = [*filter(GPU.match, table.columns)]
    for row, cells in table.rows.items():
        for column, letters in zip(table.columns, cells, strict=True):
            if row == column:
                continue
            relations.append(ReportedRelation(a=names[row], b=names[column], code=letters))
            if row in gpus and column in gpus:
                pairs.append(_pair(names[row], names[column], letters, table.pcie_alone))
    return PartialNode(
        gpus=tuple(_gpu(name, table.tails[name]) for name in gpus),
        pairs=tuple(pairs),
        relations=tuple(relations),
        rdma=tuple(_nic(names[name]) for name in table.columns if name not in gpus),
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
    if _OWN_NODE.match(own):
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
    gaps = list(gaps_of(("address", "driver", "numa_node", "ports"), WHY))
    if _NIC.match(name):
        gaps.insert(0, Gap("name", "the text has no NIC legend"))
    return RdmaDevice(name=name, gaps=tuple(gaps))


FORMAT = text_format(
    id="nvidia-smi topo -m",
    parse=_parse,
    starts=STARTS,
    needs=("GPU0",),
    goes_on=GOES_ON,
)
