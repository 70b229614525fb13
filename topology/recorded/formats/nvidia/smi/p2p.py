"""`nvidia-smi topo -p2p r|w|n|a|p`: which pairs of GPUs are granted what, by their numbers."""

from __future__ import annotations

import re
from typing import Any

from .....model.format import FormatError, text_format
from .....model.machine import Gpu, GpuPair
from .....model.part import PartialNode
from .....model.record import Gap, gaps_of
from .document import MAX_GPUS

TOOL = "nvidia-smi topo -p2p"
_FIELDS = {
    "r": "p2p_read",
    "w": "p2p_write",
    "n": "p2p_nvlink",
    "a": "p2p_atomics",
    "p": "p2p_pci",
}
_WORDS = {
    "OK": "ok",
    "CNS": "chipset not supported",
    "GNS": "gpu not supported",
    "TNS": "topology not supported",
    "DR": "disabled by registry key",
    "NS": "not supported",
}
_COMMAND = re.compile(r"\btopo\s+(?:-p2p|--p2pstatus)[ =]+([rwnap]{1,5})\b")
_NAME = re.compile(r"\AGPU\d{1,4}\Z")
_CELL = r"(?:X|OK|CNS|GNS|TNS|NS|DR|U)"
_REFUSED = ("CNS", "GNS", "TNS", "DR")
"""Why a pair has no P2P at all. NS is said of one kind of access alone, such as atomics."""
_NO_COMMAND = (
    "a matrix of nvidia-smi topo -p2p stands without its command: what it grants is not known"
)
_REFUSALS_ALONE = f"{_NO_COMMAND}, and its refusals are taken for those of reads (-p2p r)"


def _parse(lines: list[str]) -> PartialNode:
    asked, columns, rows = _read(lines)
    _check(columns, rows)
    fields = [_FIELDS[letter] for letter in dict.fromkeys(asked)]
    pairs = tuple(
        _pair(row, column, cell, fields or [_FIELDS["r"]] * (cell in _REFUSED))
        for row, cells in rows.items()
        for column, cell in zip(columns, cells, strict=True)
        if row != column
    )
    gpus = tuple(
        Gpu(
            address=f"topo:{name}",
            vendor="nvidia",
            index=int(name.removeprefix("GPU")),
            gaps=gaps_of(("uuid", "name", "memory_bytes"), f"not in {TOOL}"),
        )
        for name in columns
    )
    return PartialNode(gpus=gpus, pairs=pairs, assumptions=() if fields else (_unsaid(rows),))


def _unsaid(rows: dict[str, list[str]]) -> str:
    """What is taken for granted of a matrix without its command."""
    refused = any(cell in _REFUSED for cells in rows.values() for cell in cells)
    return _REFUSALS_ALONE if refused else _NO_COMMAND


def _read(lines: list[str]) -> tuple[str, list[str], dict[str, list[str]]]:
    """The letters behind the command, the columns, and the cells of each row."""
    asked = ""
    columns: list[str] = []
    rows: dict[str, list[str]] = {}
    for number, line in enumerate(lines, start=1):
        if command := _COMMAND.search(line):
            asked = asked or command[1]
        words = line.replace("|", " ").split()
        if not columns:
            columns = words if all(map(_NAME.match, words)) else []
        elif words and words[0] in columns and words[0] not in rows:
            name, *cells = words
            if len(cells) < len(columns):
                raise FormatError(f"{name} has {len(cells)} of {len(columns)} cells", number)
            rows[name] = cells[: len(columns)]
    return asked, columns, rows


def _check(columns: list[str], rows: dict[str, list[str]]) -> None:
    if not columns or len(columns) > MAX_GPUS or len(set(columns)) != len(columns):
        raise FormatError("no usable head with GPU0 in it")
    missing = [name for name in columns if name not in rows]
    if missing:
        raise FormatError(f"{missing[0]} has a column but no row: the text is cut short")
    for row, cells in rows.items():
        for column, cell in zip(columns, cells, strict=True):
            if not re.fullmatch(_CELL, cell) or (cell == "X") != (row == column):
                raise FormatError(f"cell {cell[:20]!r} of {row} and {column}")


def _pair(row: str, column: str, cell: str, fields: list[str]) -> GpuPair:
    word = _WORDS.get(cell)
    known: dict[str, Any] = dict.fromkeys(fields, word) if word is not None else {}
    prints = f"nvidia-smi prints {cell}"
    gaps = [
        Gap(field, prints if field in fields else f"not in this {TOOL}")
        for field in _FIELDS.values()
        if field not in known
    ]
    gaps.append(Gap("ancestor", f"not in {TOOL}"))
    return GpuPair(src=f"topo:{row}", dst=f"topo:{column}", gaps=tuple(gaps), **known)


_STARTS = re.compile(
    r"(?m)^(?:[^\n]{0,200}\btopo[ \t]+(?:-p2p|--p2pstatus)[ =]+[rwnap]{1,5}\b[^\n]{0,200}\n"
    r"(?:[ \t=#`~-]*\n){0,4})?"
    r"[ \t|]*GPU\d{1,4}(?:[ \t|]{1,40}GPU\d{1,4}){0,255}[ \t|]*\n(?:[ \t|:-]*\n){0,4}"
    r"[ \t|]*GPU\d{1,4}[ \t|]+(?![ \t|])"
    rf"(?=[^\n]{{0,4000}}?\b(?:OK|CNS|GNS|TNS|NS|DR|U)\b){_CELL}\b"
)
FORMAT = text_format(
    id=TOOL,
    parse=_parse,
    starts=_STARTS,
    needs=("GPU0",),
    goes_on=re.compile(
        rf"[ \t|]*GPU\d{{1,4}}[ \t|]+{_CELL}\b|[ \t]*Legend:|[ \t]*{_CELL}[ \t]+=|[ \t|:-]+\Z"
    ),
    repeats=True,
)
