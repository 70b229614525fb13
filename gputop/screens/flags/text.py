"""The text beside the list of flags, and the line above both."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.pages.screen import section_lines
from gputop.screens.flags.list import FlagRow
from gputop.screens.flags.work import FlagDetails
from gputop.terminal.clean import clean
from gputop.topology.flags.account.account import plain
from gputop.topology.flags.catalogue.catalogue import catalogue
from gputop.topology.model.versions import Library
from gputop.widgets.spans import Line, wrapped


def flag_lines(
    details: FlagDetails | None, name: str, width: int, *, changed: bool, library: Library | None
) -> tuple[Line, ...]:
    """The what-if, then the selected flag; only the catalogue's text until more is worked out."""
    lines: list[Line] = []
    if details is not None and details.changes and changed:
        lines += [*section_lines(details.changes, width), (), (("─" * width, "rule"),), ()]
    if details is not None and details.name == name:
        if details.trouble:
            why = f"No prediction: {clean(details.trouble, 200)}."
            lines += [*wrapped(((why, "warn"),), width), ()]
        return (*lines, *section_lines(details.flag, width))
    flag = catalogue().flag(name)
    text = plain(flag, library) if flag is not None else ()
    wait: Line = (("working out what it does here …", "muted"),)
    return (*lines, wait, (), *section_lines(text, width))


def setting_lines(
    rows: Sequence[FlagRow], count: int, export: str, summary: str, width: int
) -> tuple[Line, ...]:
    """How many are set and what is odd about them; the what-if in one line."""
    marks = [row.mark for row in rows]
    parts = [f"{count} set" if count else "none set" if export else "none set, defaults hold"]
    parts += [f"{marks.count('!')} without effect"] * ("!" in marks)
    parts += [f"{marks.count('?')} unknown"] * ("?" in marks)
    line: list[tuple[str, str]] = [(f" {', '.join(parts)}", "strong")]
    if export:
        line += [("   what if: ", "muted"), (clean(export, 200), "warn")]
    if summary:
        line.append((f"   {clean(summary, 80)}", "strong"))
    return wrapped(line, width, indent=1)[:2]
