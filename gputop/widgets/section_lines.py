"""Sections of an explanation as lines on a board."""

from __future__ import annotations

from collections.abc import Iterable

from gputop.terminal.clean import clean
from gputop.topology.flags.section import Section, drawn
from gputop.widgets.spans import Line


def section_lines(sections: Iterable[Section], width: int) -> tuple[Line, ...]:
    """Headings strong, the head of a table quiet, the rest as it is."""
    lines: list[Line] = []
    for section in sections:
        if lines:
            lines.append(())
        titles = len(drawn((Section(title=section.title),), width))
        for number, text in enumerate(drawn((section,), width)):
            ink = "key bold" if number < titles else ""
            if section.table and number == titles:
                ink = "muted"
            lines.append(((clean(text, 400), ink),))
    return tuple(lines)
