"""Turn tables of `amd-smi topology` and lines of `rocm-smi` into the JSON of these tools."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .....model.format import FormatError
from .documents import MAX_GPUS

_DEVICE = r"(?:GPU\d{1,4}|[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
_HEADER = re.compile(rf"\A\s*{_DEVICE}(?:\s+{_DEVICE})*\s*\Z")
_ROW = re.compile(rf"\A\s*({_DEVICE})\s+(\S.*)\Z")
AMD_TITLES = {
    "ACCESS TABLE": "link_status",
    "WEIGHT TABLE": "weight",
    "HOPS TABLE": "num_hops",
    "LINK TYPE TABLE": "link_type",
    "NUMA BW TABLE": "bandwidth",
    "ATOMICS TABLE": "atomics",
    "DMA TABLE": "dma",
}
ROCM_TITLES = {
    "Weight between two GPUs": "Weight",
    "Hops between two GPUs": "Hops",
    "Link Type between two GPUs": "Link type",
    "Link accessibility between two GPUs": "Link accessibility",
}
AMD_SIGN = re.compile(rf"(?m)^({'|'.join(AMD_TITLES)}):\s*$")
_AROUND = (
    "ROCm System Management Interface", "Numa Nodes", "Concise Info", "End of ROCm SMI Log",
)  # fmt: skip
_CONCISE = re.compile(
    r"\A\s*(?P<card>\d{1,3})\s+(?:(?P<node>\d{1,4})\s+(?P<did>0x[0-9a-f]{4}|N/A),\s+\d{1,6}\s+)?"
    r"(?P<temp>[\d.]{1,6}\W{0,2}[cC]|N/A)\s+(?P<power>[\d.]{1,7}W|N/A)\s+"
    r"(?:(?P<memory>\w{1,5}(?:/A)?), (?P<compute>\w{1,5}(?:/A)?), \d{1,3}\s+)?"
    r"(?P<sclk>\d{1,5}Mhz|None|N/A)\s+(?P<mclk>\d{1,5}Mhz|None|N/A)\s+\S{1,8}\s+\S{1,12}\s+"
    r"(?P<cap>[\d.]{1,7}W|N/A)\s+\d{1,3}%\s+(?P<use>\d{1,3}%|N/A)\s*\Z"
)
"""A row of the table that rocm-smi prints without options, in the forms of ROCm 4 to 7."""
_CONCISE_NAMES = {
    "node": "Node ID",
    "did": "Device ID",
    "temp": "Temperature (Sensor junction) (C)",
    "power": "Average Graphics Package Power (W)",
    "memory": "Memory Partition",
    "compute": "Compute Partition",
    "sclk": "sclk clock speed",
    "mclk": "mclk clock speed",
    "cap": "Max Graphics Package Power (W)",
    "use": "GPU use (%)",
}
"""Group of such a row -> the name that `rocm-smi --json` has for it."""
ROCM_SIGN = re.compile(rf"(?m)^=+ ({'|'.join((*_AROUND, *ROCM_TITLES))}) =+\s*$")
_BANNER = re.compile(r"\A=+ (\S.{0,80}?) =+\s*\Z")
_CARD_LINE = re.compile(r"\AGPU ?\[?(\d{1,3})\]?\s*:\s*([^:]{1,80}):\s*(.{0,512})\Z")


class _Matrix:
    """One table while it is read: the names of the columns, then a row for each GPU."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.columns: list[str] = []
        self.rows: dict[str, list[str]] = {}

    def line(self, text: str, number: int) -> None:
        """Take the header or a row; other lines between tables are ignored."""
        if not self.columns:
            if _HEADER.match(text):
                self.columns = text.split()
                if len(self.columns) > MAX_GPUS or len(set(self.columns)) != len(self.columns):
                    raise FormatError("columns that are no list of GPUs", number)
            return
        match = _ROW.match(text)
        if match is None:
            return
        cells = match[2].split()
        if match[1] not in self.columns or match[1] in self.rows:
            raise FormatError(f"{match[1]} has no column, or two rows", number)
        if len(cells) != len(self.columns):
            raise FormatError(f"{match[1]} has {len(cells)} of {len(self.columns)} cells", number)
        self.rows[match[1]] = cells

    def check(self) -> None:
        """Raise FormatError unless every GPU has its row."""
        missing = [name for name in self.columns if name not in self.rows]
        if not self.columns or missing:
            who = missing[0] if missing else "the table"
            raise FormatError(f"{who} of {self.key} has no row: the text is cut short")


def amd_document(lines: list[str]) -> list[dict[str, Any]]:
    """`amd-smi topology` as `amd-smi topology --json` since 6.1.1. Raises FormatError."""
    tables = _tables(lines, {f"{title}:": key for title, key in AMD_TITLES.items()}, banner=False)
    columns = tables[0].columns if tables else []
    if any(table.columns != columns for table in tables):
        raise FormatError("tables of different GPUs")
    return [
        {
            **_named(source, place),
            "links": [
                {
                    **_named(target, other),
                    **{table.key: table.rows[source][other] for table in tables},
                }
                for other, target in enumerate(columns)
            ],
        }
        for place, source in enumerate(columns)
    ]


def _named(name: str, place: int) -> dict[str, Any]:
    """A GPU by its PCI address; its number is its place, because the tool lists them in order."""
    if name.startswith("GPU"):
        return {"gpu": int(name.removeprefix("GPU"))}
    return {"gpu": place, "bdf": name}


def rocm_document(lines: list[str]) -> dict[str, dict[str, str]]:
    """Any output of `rocm-smi` as its --json: lines of cards, and the tables of --showtopo.

    Raises FormatError.
    """
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        match = _CARD_LINE.match(line.strip())
        if match is not None:
            found.setdefault(f"card{int(match[1])}", {})[match[2].strip()] = match[3].strip()
        elif (said := _CONCISE.match(line)) is not None:
            card = found.setdefault(f"card{int(said['card'])}", {})
            for group, name in _CONCISE_NAMES.items():
                if said[group] is not None and said[group] not in ("N/A", "None"):
                    card.setdefault(name, said[group].rstrip("W%Cc\u00b0\ufffd "))
    pairs = [*_told_pairs(lines)]
    for (number, _), _, _ in pairs:
        found.setdefault(f"card{int(number)}", {})
    if pairs:
        found["system"] = {
            f"(Topology) {key} between DRM devices {one} and {other}": cell
            for (one, other), key, cell in pairs
        }
    return found


def _told_pairs(lines: list[str]) -> Iterator[tuple[tuple[str, str], str, str]]:
    """The numbers of two cards, what --showtopo tells of them, and its word."""
    for table in _tables(lines, ROCM_TITLES, banner=True):
        for row, cells in table.rows.items():
            for column, cell in zip(table.columns, cells, strict=True):
                ends = row.removeprefix("GPU"), column.removeprefix("GPU")
                if row != column and all(end.isdecimal() for end in ends):
                    yield ends, table.key, cell


def _tables(lines: list[str], titles: dict[str, str], *, banner: bool) -> list[_Matrix]:
    found: list[_Matrix] = []
    table: _Matrix | None = None
    for number, line in enumerate(lines, start=1):
        title = line.strip()
        if banner:
            match = _BANNER.match(title)
            title = match[1] if match else ""
        if title in titles:
            table = _Matrix(titles[title])
            found.append(table)
        elif title and (banner or title.endswith(":")):
            table = None
        elif table is not None:
            table.line(line, number)
    for table in found:
        table.check()
    return found
