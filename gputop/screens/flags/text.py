"""The text beside the list of flags, and the line above both."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.printing.render import blocks_of, render
from gputop.screens.flags.list import FlagRow
from gputop.screens.flags.table import table_lines
from gputop.screens.flags.work import FlagDetails
from gputop.terminal.clean import clean
from gputop.topology.flags.account.account import plain
from gputop.topology.flags.catalogue.catalogue import catalogue
from gputop.topology.model.versions import Library
from gputop.widgets.spans import Line, wrapped

WIDEST = 110
"""Cells of a paragraph: longer lines are hard to read."""


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
        if details.rows:
            lines += [*table_lines(details.rows, chosen, width), ()]
        return (*lines, *render(blocks_of(details.flag), min(width, WIDEST)))
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
    parts = [f"{count} set" if count else "no variables set; defaults apply"]
    parts += [f"{marks.count('!')} without effect"] * ("!" in marks)
    parts += [f"{marks.count('?')} unknown"] * ("?" in marks)
    return ", ".join(parts)
