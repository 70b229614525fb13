"""The text beside the list of flags, and the line above both."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.printing.render import blocks_of, render
from gputop.screens.flags.list import FlagRow
from gputop.screens.flags.work import FlagDetails
from gputop.terminal.clean import clean
from gputop.topology.explain.value_rows import NOT_KNOWN, NOT_SET, WHY_NOT_KNOWN, ValueRow
from gputop.topology.flags.account.account import plain
from gputop.topology.flags.catalogue.catalogue import catalogue
from gputop.topology.model.versions import Library
from gputop.widgets.spans import Line, Span, left, width_of, wrapped

WIDEST = 110
"""Cells of a paragraph: longer lines are hard to read."""

INKS = {"P": "good", "R": "link-nvlink", "S": "link-socket", "N": "strong", "✗": "bad"}
GAP = 3
LEGEND = "P P2P · S shared memory · N network"
RELAYED = " · R relayed by a GPU"


def flag_lines(
    details: FlagDetails | None,
    name: str,
    width: int,
    *,
    library: Library | None,
    chosen: str | None = None,
) -> tuple[Line, ...]:
    """The table of values and the text; only the catalogue's text until more is worked out.

    `chosen`: the value that is tried.
    """
    lines: list[Line] = []
    if details is not None and details.name == name:
        if details.trouble:
            why = f"No prediction: {clean(details.trouble, 200)}."
            lines += [*wrapped(((why, "warn"),), width), ()]
        lines += [line for said in details.head for line in wrapped(((said, "strong"),), width)]
        lines += [()] * bool(details.head)
        if details.rows:
            lines += [*table_lines(details.rows, chosen, width), ()]
            if library is not None and any(row.large == NOT_KNOWN for row in details.rows):
                why = WHY_NOT_KNOWN.format(library.name.upper())
                lines += [*wrapped(((why, "muted"),), min(width, WIDEST)), ()]
        return (*lines, *render(details.flag, min(width, WIDEST)))
    flag = catalogue().flag(name)
    text = plain(flag, library) if flag is not None else ()
    wait: Line = (("working out what it does here …", "muted"),)
    return (*lines, wait, (), *render(blocks_of(text), width))


def head_lines(row: FlagRow | None, details: FlagDetails | None, width: int) -> tuple[Line, ...]:
    """The selected variable with its value and what it does, then what its values do here."""
    if row is None:
        return ((),)
    what = f"   {clean(row.short, 200)}" if row.short else ""
    first: Line = (
        (f" {clean(row.name, 80)}", "strong"),
        (f"  {clean(row.value, 60)}", row.ink if row.mark != " " else ""),
        (what, "muted"),
    )
    answer = "working out what it does here …"
    if details is not None and details.name == row.name:
        answer = f"no prediction: {details.trouble}" if details.trouble else details.answer
    here: Line = ((" here  ", "muted"), (_fitting(clean(answer, 400), width - 7), "strong"))
    return (*wrapped(first, width, 1)[:1], *wrapped(here, width, 7)[:1])


def _fitting(answer: str, room: int) -> str:
    """The parts of an answer that fit, as half a part says something else."""
    kept, *rest = answer.split(" · ")
    for part in rest:
        if len(kept) + 3 + len(part) > room:
            break
        kept = f"{kept} · {part}"
    return kept


def set_words(rows: Sequence[FlagRow], count: int) -> str:
    """How many variables are set, and what is odd about them."""
    marks = [row.mark for row in rows]
    tried = marks.count("+")
    none = "no other set" if tried else "no variables set; defaults apply"
    parts = [f"{tried} tried here"] * bool(tried)
    parts.append(f"{count} set" if count else none)
    parts += [f"{marks.count('!')} without effect"] * ("!" in marks)
    parts += [f"{marks.count('?')} unknown"] * ("?" in marks)
    return ", ".join(parts)


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
        [
            "value" if rows[0].value == NOT_SET else "version",
            *(clean(row.value, 24) for row in rows),
        ],
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
        mark, ink = _marked(rows[number - 1], chosen)
        # By number, as a value of the environment may hold anything.
        lines.append((mark, (cells, f"{ink} @screen.try_row({number - 1})")))
    return tuple(lines)


def _marked(row: ValueRow, chosen: str | None) -> tuple[Span, str]:
    """The mark before a value and the ink of its row."""
    tried = bool(chosen) and chosen == row.tried
    mark: Span = ("› ", "key bold") if tried else ("  ", "")
    if row.here:
        mark = ("• ", "strong")
    ink = "strong" if row.here or tried else ""
    return mark, "bad" if row.large == "fails" else ink


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
    heads = (left(clean(before.value, 20), room + GAP), left(clean(after.value, 20), room))
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
