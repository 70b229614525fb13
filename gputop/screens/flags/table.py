"""The values of a variable as a table, and the pairs before and after one of them."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.terminal.clean import clean
from gputop.topology.explain.value_rows import NOT_KNOWN, NOT_SET, ValueRow
from gputop.widgets.spans import Line, Span, left, width_of

INKS = {"P": "good", "R": "link-nvlink", "S": "link-socket", "N": "strong", "✗": "bad"}
GAP = 3
LEGEND = "P P2P · S shared memory · N network"
RELAYED = " · R relayed by a GPU"


def table_lines(rows: Sequence[ValueRow], chosen: str | None, width: int) -> tuple[Line, ...]:
    """The table, with the pairs before and after to its right where there is room, else below.

    `chosen`: the value that is tried; None shows the pairs of the value that changes most.
    """
    table = _table(rows, chosen, width)
    pairs = _pairs(rows, chosen)
    if not pairs:
        return table
    wide = max(map(width_of, table))
    if wide + GAP + max(map(width_of, pairs)) > width:
        return (*table, (), *pairs)
    count = max(len(table), len(pairs))
    lines: list[Line] = []
    for number in range(count):
        line = table[number] if number < len(table) else ()
        beside = pairs[number] if number < len(pairs) else ()
        lines.append((*line, (" " * (wide + GAP - width_of(line)), ""), *beside))
    return tuple(lines)


def _table(rows: Sequence[ValueRow], chosen: str | None, width: int) -> tuple[Line, ...]:
    columns: list[list[str]] = [
        ["value", *(clean(row.value, 24) for row in rows)],
        ["pairs with P2P", *(_with_relays(row) for row in rows)],
        ["ring graph", *(row.ring for row in rows)],
        ["256 MiB in", *(row.medium for row in rows)],
        ["all-reduce 1 GiB", *(row.large for row in rows)],
        ["by", *(row.by for row in rows)],
    ]
    # A time that is known for no value, as of RCCL, is no column.
    columns = [column for column in columns if set(column[1:]) - {"", NOT_KNOWN}]
    widths = [max(map(len, column)) + 2 for column in columns]
    if sum(widths) + 2 > width and columns[-1][0] == "by":
        columns, widths = columns[:-1], widths[:-1]
    lines: list[Line] = []
    for number in range(len(rows) + 1):
        cells = "".join(
            left(column[number], size) for column, size in zip(columns, widths, strict=True)
        )
        if number == 0:
            lines.append((("  " + cells, "muted"),))
            continue
        row = rows[number - 1]
        tried = chosen == row.tried
        mark: Span = ("› ", "key bold") if tried and chosen else ("  ", "")
        if row.here:
            mark = ("• ", "strong")
        ink = "strong" if row.here or mark[0] == "› " else ""
        if row.large == "fails":
            ink = "bad"
        # By number, as a value of the environment may hold anything.
        lines.append((mark, (cells, f"{ink} @screen.try_row({number - 1})")))
    return tuple(lines)


def _pairs(rows: Sequence[ValueRow], chosen: str | None) -> tuple[Line, ...]:
    """Two matrices side by side: as it is without the variable, and with the value."""
    before = rows[0]
    others = [row for row in rows[1:] if row.transports != before.transports]
    after = next((row for row in rows[1:] if row.value == chosen), None)
    after = after or max(others, key=lambda row: _changed(before, row), default=None)
    if after is None or not before.transports or after.transports == before.transports:
        return ()
    count = len(before.transports)
    room = 2 * count + 2
    heads = (left(NOT_SET, room + GAP), left(clean(after.value, 20), room))
    lines: list[Line] = [tuple((head, "muted") for head in heads)]
    numbers = "   " + "".join(left(str(number), 2) for number in range(count))
    lines.append(((left(numbers, room + GAP + 1), "muted"), (numbers, "muted")))
    for number in range(count):
        spans: list[Span] = []
        for row in (before, after):
            spans.append((f"{number:>2} ", "muted"))
            for place, letter in enumerate(row.transports[number]):
                moved = row is after and letter != before.transports[number][place]
                ink = INKS.get(letter, "muted") + (" bold" if moved else "")
                spans.append((f"{letter} ", ink))
            spans.append((" " * GAP, ""))
        lines.append(tuple(spans[:-1]))
    relayed = (
        RELAYED if any("R" in line for line in (*before.transports, *after.transports)) else ""
    )
    return (*lines, ((LEGEND + relayed, "muted"),))


def _with_relays(row: ValueRow) -> str:
    return f"{row.pairs}, {row.relayed} relayed" if row.relayed else row.pairs


def _changed(before: ValueRow, after: ValueRow) -> int:
    pairs = zip("".join(before.transports), "".join(after.transports), strict=False)
    return sum(one != other for one, other in pairs)
