"""Tables and trees that other programs lay out, fitted to the columns of a terminal.

Rows never wrap: a table that is too wide is printed in blocks of columns, each with the names of
its rows. For a file or a pipe the text stays as other programs print it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from itertools import groupby

GAP = "  "
_ROW = re.compile(r"[ ]{4,}GPU\d+[ ]|GPU\d+[ ]{2,}")
"""A row of a table without tabs, as rocm-smi prints it."""
_NUMBERED = re.compile(r"([A-Za-z]+)\d+")
_BRANCH = re.compile(r"[│├└─ ]*")
_BAR = re.compile(r"(=+)( .* )(=+)")
Row = list[str]


def fitted(text: str, width: int) -> str:
    """Lay a text of tables out for so many columns."""
    lines: list[str] = []
    table: list[Row] = []
    for line in [*text.splitlines(), ""]:
        if _is_row(line):
            table.append(_cells(line))
            continue
        if table:
            lines += _table(table, width)
            table = []
        lines += _plain(line, width)
    return "\n".join(lines[:-1]) + "\n"


def _is_row(line: str) -> bool:
    return "\t" in line or _ROW.match(line) is not None


def _cells(line: str) -> Row:
    if "\t" in line:
        return [cell.strip() for cell in line.split("\t")]
    return [*([""] if line.startswith(" ") else []), *line.split()]


def _table(rows: list[Row], width: int) -> Iterator[str]:
    count = len(rows[0])
    rows = [_trimmed(row, count) for row in rows]
    sizes = [max(len(row[place]) for row in rows) for place in range(count)]
    for number, block in enumerate(_blocks(rows[0], sizes, width)):
        shown = [[row[place] for place in (0, *block)] for row in rows]
        if number:
            yield ""
        for row in shown:
            if any(row[1:]):
                cells = zip(row, (sizes[0], *(sizes[place] for place in block)), strict=True)
                yield GAP.join(cell.ljust(size) for cell, size in cells).rstrip()


def _blocks(head: Row, sizes: list[int], width: int) -> Iterator[list[int]]:
    """Places of the columns that stand side by side, without the first and without empty ones.

    Columns of one kind, such as all GPUs, stay together where a line has room for them.
    """
    room = full = width - sizes[0]
    block: list[int] = []
    for _, group in groupby(
        (place for place in range(1, len(head)) if sizes[place]), _kind_in(head)
    ):
        places = list(group)
        whole = sum(sizes[place] + len(GAP) for place in places)
        if block and room < whole <= full:
            yield block
            room, block = full, []
        for place in places:
            if block and sizes[place] + len(GAP) > room:
                yield block
                room, block = full, []
            block.append(place)
            room -= sizes[place] + len(GAP)
    yield block


def _kind_in(head: Row) -> Callable[[int], str]:
    """What a column is about: "GPU" of GPU0, "" of a column without a number."""
    kinds = [_NUMBERED.fullmatch(name) for name in head]
    return lambda place: "" if (found := kinds[place]) is None else found[1]


def _trimmed(row: Row, count: int) -> Row:
    """A row with as many cells as the head; nvidia-smi puts two tabs where one belongs."""
    row = list(row)
    while len(row) > count and "" in row:
        del row[len(row) - 1 - row[::-1].index("")]
    return [*row, *[""] * (count - len(row))][:count]


def _plain(line: str, width: int) -> list[str]:
    bar = _BAR.fullmatch(line)
    if bar and len(line) > width:
        return [bar[2].center(width, "=")]
    if len(line) <= width:
        return [line]
    branch = _BRANCH.match(line)
    below = (branch[0] if branch else "").replace("├─", "│ ").replace("└─", "  ")
    return textwrap.wrap(
        line,
        max(width, len(below) + 20),
        subsequent_indent=below + GAP,
        break_on_hyphens=False,
        drop_whitespace=True,
    ) or [line]
