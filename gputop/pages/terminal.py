"""The printer for a terminal: lines of plain text, wrapped at a width."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import TYPE_CHECKING

from gputop.terminal.clean import clean

if TYPE_CHECKING:
    from gputop.topology.diagnosis.finding import Finding
    from gputop.topology.model.page import Fact, Section

INDENT = "  "
NARROW = 40
SHORTEST = 8
"""Narrowest column of a table in cells, whatever it holds."""
_DEEP = "    "


def section_lines(sections: Iterable[Section], width: int) -> list[str]:
    """Print headings and what is below them, with an empty line between two sections."""
    lines: list[str] = []
    for section in sections:
        if lines:
            lines.append("")
        lines += [*heading_lines(section, width), *body_lines(section, width)]
    return lines


def heading_lines(section: Section, width: int) -> list[str]:
    """Print the title of a section."""
    return wrap(section.title, max(NARROW, width)) or [""]


def body_lines(section: Section, width: int) -> list[str]:
    """Print what is below the title: table, paragraphs, bullets."""
    width = max(NARROW, width)
    lines = _table(section.table, width)
    for text in section.paragraphs:
        lines += wrap(text, width, initial_indent=INDENT, subsequent_indent=INDENT)
    for text in section.bullets:
        lines += wrap(text, width, initial_indent="  - ", subsequent_indent="    ")
    return lines


def fact_lines(facts: Iterable[Fact], width: int, indent: str = "") -> Iterator[str]:
    """Print each question and answer; below, how it is known and which variable would change it."""
    for fact in facts:
        mark = "=" if fact.decides else "-"
        yield from wrapped(f"{indent}{mark} {fact.question} {fact.answer}", width, len(indent) + 2)
        known = (
            fact.because,
            f"flag {fact.flag}" if fact.flag else "",
            fact.source,
            fact.basis if fact.basis != "read" else "",
        )
        tail = " · ".join(part for part in known if part)
        yield from wrapped(f"{indent}    {tail}", width, len(indent) + 4)


def finding_lines(finding: Finding, width: int) -> Iterator[str]:
    """Print evidence, consequence, disproof and what to do; commands stay whole for copying."""
    for evidence in finding.evidence:
        yield from _deep(f"{evidence.what}: {evidence.value} ({evidence.source})", width)
    for head, text in (("Impact", finding.consequence), ("Ruled out if", finding.disproof)):
        if text:
            yield from _deep(f"{head}: {text}", width)
    for fix in finding.fix:
        root = " (needs root)" if fix.needs_root else ""
        yield from _deep(f"Do: {fix.text}{root}", width)
        if fix.command:
            yield f"{_DEEP}    {clean(fix.command)}"


def wrapped(text: str, width: int, hanging: int) -> list[str]:
    """Break a line at blanks; further lines are indented by `hanging` columns."""
    return wrap(
        text,
        max(width, NARROW),
        subsequent_indent=" " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]


def _deep(text: str, width: int) -> list[str]:
    return wrap(clean(text, 2000), width, initial_indent=_DEEP, subsequent_indent=_DEEP + "  ")


def _table(rows: tuple[tuple[str, ...], ...], width: int) -> list[str]:
    """Print columns as wide as their content; the widest ones wrap where the line is too short."""
    if not rows:
        return []
    columns = range(len(rows[0]))
    sizes = [max(len(row[column]) for row in rows) for column in columns]
    room = width - len(INDENT) - 2 * (len(sizes) - 1)
    widest = max(columns, key=lambda column: sizes[column])
    others = sum(sizes) - sizes[widest]
    sizes[widest] = max(16, min(sizes[widest], room - others))
    words = [
        max(len(word) for row in rows for word in ("", *row[column].split())) for column in columns
    ]
    for floors in (words, [SHORTEST] * len(sizes)):
        # Columns break between words first, and inside a word only where nothing else helps.
        free = [column for column in columns if sizes[column] > floors[column]]
        while free and sum(sizes) > room:
            sizes[max(free, key=lambda column: sizes[column])] -= 1
            free = [column for column in columns if sizes[column] > floors[column]]
    lines: list[str] = []
    for row in rows:
        cells = [
            wrap(cell, sizes[column], break_long_words=True) or [""]
            for column, cell in enumerate(row)
        ]
        for line in range(max(map(len, cells))):
            parts = [
                (cell[line] if line < len(cell) else "").ljust(sizes[column])
                for column, cell in enumerate(cells)
            ]
            lines.append((INDENT + "  ".join(parts)).rstrip())
    return lines
