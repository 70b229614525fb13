"""What is put into runs: the table's own warnings, and all that a library's source can print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gputop.topology.diagnosis.symptoms.explain import table

_CALL = re.compile(r"\bWARN\(\s*((?:\"(?:[^\"\\]|\\.)*\"|PRI\w+|[A-Z_]+|\s+)+)")
_PIECE = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|(PRI\w+)")
_FIELD = re.compile(r"%[-+ #0]*[\d*]*(?:\.[\d*]+)?(?:hh|h|ll|l|z|j|t)?([a-zA-Z%])")
_VALUES = {"s": "mlx5_0", "p": "0x7f2a8c000fa0", "x": "1f", "X": "1F", "f": "2.50", "c": "a"}
_SUFFIXES = (".cc", ".h", ".cu", ".cpp", ".cuh")


def of_table() -> dict[str, bytes]:
    """The warnings that rows of the table are shown by, each behind the name of its row."""
    return {
        f"{row.id}: {line}": line.partition("] ")[2].encode()
        for row in table()
        for line in row.shown
        if "] " in line and " NCCL WARN " in line
    }


def of_source(folder: Path) -> dict[str, bytes]:
    """Every warning in the source of NCCL or RCCL, with values in place of its fields."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in _SUFFIXES)
    return {
        text: f"{path.parent.name}/{path.name}:12 NCCL WARN {text}".encode()
        for path in files
        for text in _printed(path.read_text(errors="replace"))
    }


def _printed(source: str) -> Iterator[str]:
    for call in _CALL.finditer(source):
        pieces = ("u" if name else text for text, name in _PIECE.findall(call[1]))
        text = "".join(pieces).replace('\\"', '"').partition("\\n")[0]
        yield _FIELD.sub(lambda field: "%" if field[1] == "%" else _VALUES.get(field[1], "3"), text)
