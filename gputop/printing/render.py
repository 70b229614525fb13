"""The only renderer of pages: blocks become lines of spans.

A terminal prints them as text, a screen draws them with their inks. Text from outside is cleaned
here, once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from textwrap import wrap
from typing import Any

from gputop.printing.finding_blocks import (
    LOOK_AT,
    MOST_STEPS,
    finding_blocks,
    first_blocks,
    says_something,
)
from gputop.terminal.clean import clean, clean_block
from gputop.topology.model.finding import Finding
from gputop.topology.model.page import (
    READ,
    Bars,
    Blank,
    Block,
    Bullets,
    CellGrid,
    Column,
    Commands,
    Entries,
    Fact,
    Facts,
    Findings,
    Fix,
    Heading,
    Indented,
    Page,
    Role,
    Rows,
    Runs,
    Section,
    Steps,
    Table,
    Text,
)
from gputop.topology.model.severity import SILENCED_SIGN, Severity
from gputop.widgets.spans import EMPTY, Line, left, right, text_of, unbroken, width_of, wrapped

NARROW = 40
"""Fewest columns of a page, however narrow its panel is."""
UNWRAPPED = 100_000
"""The width of a page where nothing is wrapped."""
LONGEST = 2000
"""Longest paragraph in characters."""
INKS = {
    Role.PLAIN: "",
    Role.STRONG: "strong",
    Role.MUTED: "muted",
    Role.LABEL: "key bold",
    Role.DEVICE: "strong",
    Role.FLAG: "key",
    Role.COMMAND: "key",
    Role.GOOD: "good",
    Role.WARN: "warn",
    Role.BAD: "bad",
    Role.NVLINK: "link-nvlink",
    Role.PCIE: "link-pcie",
    Role.SOCKET: "link-socket",
}
_BASES = {"measured": "good", "assumed": "warn", "simulated": "warn"}
_INDENT = 2
_WIDEST_HEAD = 12
"""Heads of a table that folds are broken into lines of this many characters."""
_WORD = max(len(severity.word) for severity in Severity)
"""Columns of the word for a severity."""
_DETAILS = 80
"""Columns of what stands below a finding where its title is not wrapped."""
_COMMAND_IN_TEXT = re.compile(
    # Of programs that ask: a name of a host or a file may hold backticks too.
    r"(`(?:gputop|nvidia-smi|amd-smi|rocm-smi|rocminfo|lspci|df|ulimit|stat)[\w ./=%+-]*`)"
)


def render(
    blocks: Iterable[Block], width: int, indent: int = 0, *, whole: bool = False
) -> tuple[Line, ...]:
    """The lines of some blocks, each at most `width` cells and `indent` blanks from the left.

    Commands are broken between words only; where `whole`, not at all, so that what somebody marks
    in a terminal and pastes runs as it is.
    """
    lines: list[Line] = []
    room = max(width, NARROW) - indent
    for block in blocks:
        if isinstance(block, Heading) and lines and lines[-1]:
            lines.append(EMPTY)
        lines += _RENDERERS[type(block)](block, room, whole)
    return tuple(_indented(lines, indent))


def printed(blocks: Iterable[Block], width: int | None) -> tuple[Line, ...]:
    """The lines for a terminal, with their inks; None wraps nothing."""
    return render(blocks, width or UNWRAPPED, whole=True)


def texts(blocks: Iterable[Block], width: int | None, indent: int = 0) -> list[str]:
    """The same lines as plain text, for a terminal and a pipe; None wraps nothing."""
    return [
        text_of(line).rstrip() for line in render(blocks, width or UNWRAPPED, indent, whole=True)
    ]


def finding_lines(finding: Finding, width: int, silenced: str | None = None) -> tuple[Line, ...]:
    """A finding by itself, for a panel: title, severity and id, then all that it says.

    `silenced`: why the finding is silenced, "" without a reason; None where it counts.
    """
    sign, ink, word = finding.severity.shown
    lines: list[Line] = [
        *wrapped(((clean(finding.title, 600), "strong"),), width),
        ((f"{sign} {word}", ink), (f" · {clean(finding.id)}", "muted")),
    ]
    if silenced is not None:
        why = f": {clean(silenced, 200)}" if silenced else ""
        lines += wrapped(((f"{SILENCED_SIGN} silenced{why}", "warn"),), width, 2)
    for block in finding_blocks(finding):
        lines += [EMPTY, *render((block,), width)]
    return tuple(lines)


def _indented(lines: Sequence[Line], indent: int) -> Iterator[Line]:
    lead = (" " * indent, "")
    return ((lead, *line) if indent and line else line for line in lines)


def _heading(block: Heading, width: int, whole: bool) -> Iterable[Line]:
    spans: list[tuple[str, str]] = [(clean(block.text, LONGEST), "key bold")]
    if block.mark is not None:
        spans.insert(0, (f"{block.mark.sign} ", block.mark.ink))
    if block.note:
        spans.append((f" {clean(block.note)}", "muted"))
    return wrapped(spans, width)


"""Label of what to look at, which is mostly a command."""


def _runs(text: str | Runs, role: Role) -> Iterator[tuple[str, str]]:
    """The spans of a text; what stands between backticks, a command, has an ink of its own."""
    if not isinstance(text, str):
        for part, of in text:
            yield clean(part, LONGEST), INKS[of]
        return
    for part in _COMMAND_IN_TEXT.split(clean(text, LONGEST)):
        if part:
            yield part, INKS[Role.COMMAND if part[0] == part[-1] == "`" else role]


def _text(block: Text, width: int, whole: bool) -> Iterable[Line]:
    lead = ((f"{block.label}: ", "key bold"),) if block.label else ()
    spans: Line = (*lead, *_runs(block.text, block.role))
    if block.label == LOOK_AT:
        spans = tuple((unbroken(text), ink) for text, ink in spans)
    lines = wrapped(spans, width - block.indent, block.hanging)
    return _indented(lines, block.indent)


def _bullets(block: Bullets, width: int, whole: bool) -> Iterator[Line]:
    for text in block.texts:
        yield from wrapped((("  - ", "muted"), *_runs(text, Role.PLAIN)), width, 4)


def _facts(block: Facts, width: int, whole: bool) -> Iterator[Line]:
    room = width - block.indent
    for fact, following in zip_longest(block.facts, block.facts[1:]):
        shared = following is not None and following.source == fact.source
        yield from _indented(_fact(fact, room, shared), block.indent)


def _fact(fact: Fact, width: int, shared: bool) -> list[Line]:
    """One fact; its source is left out where the next one has the same and no reason is given."""
    name = clean(fact.what, 300)
    colon = "" if name.endswith(("?", ":")) else ":"
    spans: list[tuple[str, str]] = [
        ("▸ ", "key bold") if fact.decides else ("• ", "muted"),
        (f"{name}{colon} ", "muted" if name.endswith("?") else ""),
        (clean(fact.value, 1000), "strong"),
    ]
    because = clean(fact.because, 1000) if fact.because else ""
    flag = f"changed by {clean(fact.flag, 80)}" if fact.flag else ""
    source = clean(fact.source, 200) if fact.source else ""
    basis = fact.basis if fact.basis not in ("", READ) else ""
    known = (f" [{clean(basis)}]", _BASES.get(basis, "muted")) if basis else ("", "")
    if not because and not flag:
        if source and not shared:
            spans.append((f" ({source})", "muted"))
        return list(wrapped((*spans, known), width, _INDENT))
    tail = " · ".join(filter(None, (because, flag, source)))
    return [
        *wrapped(spans, width, _INDENT),
        *wrapped(((f"  {tail}", "muted"), known), width, _INDENT),
    ]


def _steps(block: Steps, width: int, whole: bool) -> Iterator[Line]:
    for number, fix in enumerate(block.fix):
        lead = ("Fix: ", "good bold") if number == 0 else ("     ", "")
        yield from _indented(_step(fix, lead, width - block.indent, whole), block.indent)


def _step(fix: Fix, lead: tuple[str, str], width: int, whole: bool) -> list[Line]:
    root = ((" (needs root)", "warn"),) if fix.needs_root else ()
    said = ((unbroken(text), ink) for text, ink in _runs(fix.text, Role.PLAIN))
    lines = list(wrapped((lead, *said, *root), width, 5))
    for command in clean_block(fix.command).split("\n") if fix.command else ():
        lines += _command(command, width, 5, whole)
    return lines


def _commands(block: Commands, width: int, whole: bool) -> Iterator[Line]:
    for command in block.commands:
        yield from _command(clean(command, 140_000), width, block.indent, whole)


def _command(command: str, width: int, indent: int, whole: bool) -> list[Line]:
    """A command, broken between its words only: half a word of it would be another command."""
    lines: list[tuple[int, str]] = []
    for word in command.split(" "):
        if lines and (whole or lines[-1][0] + len(lines[-1][1]) + 1 + len(word) <= width):
            lines[-1] = (lines[-1][0], f"{lines[-1][1]} {word}")
        else:
            lines.append((indent + 2 if lines else indent, word))
    return [((" " * at, ""), (text, "key")) for at, text in lines]


def _findings(block: Findings, width: int, whole: bool) -> Iterator[Line]:
    room = _DETAILS if width == UNWRAPPED else width
    fullest = next(filter(says_something, block.leading), None)
    for finding in block.findings:
        sign, ink, word = finding.severity.shown
        yield from _finding_line(finding, (sign, ink, word), "", width)
        if block.whole:
            yield from render(finding_blocks(finding), room, 4, whole=whole)
        elif finding in block.leading:
            most = MOST_STEPS if finding is fullest else 1
            yield from render(first_blocks(finding, most=most), room, 4, whole=whole)
    for finding, reason in block.silenced:
        why = f" ({clean(reason, 300)})" if reason else ""
        yield from _finding_line(finding, (SILENCED_SIGN, "warn", "silenced"), why, width)


def _entries(block: Entries, width: int, whole: bool) -> Iterator[Line]:
    for entry in block.entries:
        yield from _text(entry.line, width, whole)
        if block.whole:
            yield from render(entry.more, width, 4, whole=whole)


def _finding_line(
    finding: Finding, shown: tuple[str, str, str], why: str, width: int
) -> Iterable[Line]:
    """Title and id of a finding; --ignore takes the id."""
    sign, ink, word = shown
    head = (f"{sign} {word:<{_WORD}} ", ink)
    title = ((clean(finding.title, LONGEST), "strong"), (f" [{clean(finding.id)}]{why}", "muted"))
    return wrapped((head, *title), width, _WORD + 3)


def _table(block: Table, width: int, whole: bool) -> Iterator[Line]:
    heads = tuple(column.title for column in block.columns)
    head = (heads,) if any(heads) else ()
    rows = [tuple(clean(cell, LONGEST) for cell in row) for row in (*head, *block.rows)]
    if not rows:
        return
    if block.folds:
        yield from _folded(block, width)
        return
    columns = _fitting(block.columns, rows, width - block.indent)
    rows = [tuple(row[at] for at in columns) for row in rows]
    shown = [block.columns[at] for at in columns]
    sizes = _sizes(rows, [column.least for column in shown], width - block.indent)
    for number, row in enumerate(rows, start=-len(head)):
        ink = "muted" if number < 0 else ""
        if number >= 0 and block.marks and (mark := block.marks[number]) is not None:
            ink = mark.ink
        for line in _wrapped_row(row, shown, sizes):
            yield ((" " * block.indent, ""), (line, ink))


def _wrapped_row(
    row: Sequence[str], columns: Sequence[Column], sizes: Sequence[int]
) -> Iterator[str]:
    """The lines of a row, whose cells wrap within their columns."""
    cells = [
        [text_of(line) for line in wrapped(((cell, ""),), size)]
        for cell, size in zip(row, sizes, strict=True)
    ]
    for line in range(max(map(len, cells))):
        parts = [
            (right if column.right else left)(cell[line] if line < len(cell) else "", size)
            for column, cell, size in zip(columns, cells, sizes, strict=True)
        ]
        yield "  ".join(parts).rstrip()


def _matrix(block: CellGrid, width: int, whole: bool) -> Iterator[Line]:
    edge = len(block.corner)
    cells, size = block.cells, _cell_size(block.cells, 5)
    if edge + 1 + size * len(block.names) > width:
        cells, size = block.short, _cell_size(block.short, 3)
    for name, row in ((block.corner, block.names), *zip(block.names, cells, strict=True)):
        parts = "".join(f"{clean(cell):<{size}}" for cell in row)
        yield ((f"{name:>{edge}}  {parts}".rstrip(), ""),)


def _cell_size(rows: Sequence[Sequence[str]], least: int) -> int:
    return max(least, *(len(cell) for row in rows for cell in row)) + 1


def _grid(block: Rows, width: int, whole: bool) -> Iterable[Line]:
    lines = [tuple(_runs(runs, Role.PLAIN)) for runs in block.lines]
    return lines if all(width_of(line) <= width for line in lines) else ()


def _folded(block: Table, width: int) -> Iterator[Line]:
    """A table of figures: one label and many columns, as many side by side as fit."""
    corner = block.columns[0].title
    heads = [wrap(column.title, _WIDEST_HEAD) or [""] for column in block.columns[1:]]
    rows = [tuple(clean(cell, LONGEST) for cell in row) for row in block.rows]
    first = max(map(len, (corner, *(row[0] for row in rows))))
    columns = list(zip(heads, zip(*(row[1:] for row in rows), strict=True), strict=True))
    sizes = [2 + max(map(len, (*head, *cells))) for head, cells in columns]
    for number, part in enumerate(_parts(sizes, width - first)):
        if number:
            yield EMPTY
        widths = [sizes[at] for at in part]
        for label, cells in _head_rows(corner, [heads[at] for at in part]):
            yield _row(label, cells, widths, first, "muted")
        for row in rows:
            yield _row(row[0], [row[at + 1] for at in part], widths, first)


def _head_rows(corner: str, heads: Sequence[Sequence[str]]) -> Iterator[tuple[str, list[str]]]:
    """The lines of wrapped heads, which end on the last one, just above their figures."""
    deep = max(map(len, heads))
    above = [[""] * (deep - len(head)) + [*head] for head in heads]
    for line, cells in enumerate(zip(*above, strict=True), 1):
        yield corner if line == deep else "", [*cells]


def _row(label: str, cells: Sequence[str], sizes: Sequence[int], first: int, ink: str = "") -> Line:
    numbers = (cell.rjust(size) for cell, size in zip(cells, sizes, strict=True))
    return ((f"{label.ljust(first)}{''.join(numbers)}".rstrip(), ink),)


def _parts(sizes: Sequence[int], room: int) -> list[list[int]]:
    """Group the columns that fit side by side."""
    parts: list[list[int]] = [[]]
    for at, size in enumerate(sizes):
        if parts[-1] and sum(sizes[other] for other in parts[-1]) + size > room:
            parts.append([])
        parts[-1].append(at)
    return parts


def _fitting(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> Sequence[int]:
    """The columns that are shown: without optional ones for which the line is too short."""
    sizes = [max(width_of(((row[at], ""),)) for row in rows) for at in range(len(columns))]
    shown = list(range(len(columns)))
    for at in reversed(range(len(columns))):
        if sum(sizes[at] for at in shown) + 2 * (len(shown) - 1) > width and columns[at].optional:
            shown.remove(at)
    return shown


def _sizes(rows: Sequence[Sequence[str]], least: Sequence[int], width: int) -> list[int]:
    """Columns as wide as their content; the widest shrink where the line is too short.

    They break between words first, and inside a word only where nothing else helps.
    """
    columns = range(len(rows[0]))
    sizes = [max(width_of(((row[column], ""),)) for row in rows) for column in columns]
    words = [
        max(len(word) for row in rows for word in ("", *row[column].split())) for column in columns
    ]
    room = width - 2 * (len(sizes) - 1)
    for floors in (words, least):
        free = [column for column in columns if sizes[column] > floors[column]]
        while free and sum(sizes) > room:
            sizes[max(free, key=lambda column: sizes[column])] -= 1
            free = [column for column in columns if sizes[column] > floors[column]]
    return sizes


def _bars(block: Bars, width: int, whole: bool) -> Iterator[Line]:
    names = min(max((width_of(((bar.name, ""),)) for bar in block.bars), default=0), width // 4)
    notes = min(max((width_of(((bar.note, ""),)) for bar in block.bars), default=0), width // 4)
    room = width - names - notes - 2
    top = max((max(bar.value, bar.high or 0.0) for bar in block.bars), default=0.0) or 1.0
    for bar in block.bars:
        cells = round(max(bar.value, 0.0) / top * room)
        ink = bar.mark.ink if bar.mark is not None else ""
        yield (
            (f"{left(clean(bar.name, 60), names)} ", ""),
            (f"{'█' * cells:<{room}} ", ink),
            (left(clean(bar.note, 60), notes).rstrip(), "muted"),
        )


def _within(block: Indented, width: int, whole: bool) -> Iterable[Line]:
    return render(block.blocks, width, block.indent, whole=whole)


def _blank(block: Blank, width: int, whole: bool) -> Iterable[Line]:
    return (EMPTY,)


_RENDERERS: dict[type, Callable[[Any, int, bool], Iterable[Line]]] = {
    Heading: _heading,
    Text: _text,
    Bullets: _bullets,
    Facts: _facts,
    Table: _table,
    CellGrid: _matrix,
    Rows: _grid,
    Findings: _findings,
    Entries: _entries,
    Steps: _steps,
    Commands: _commands,
    Bars: _bars,
    Indented: _within,
    Blank: _blank,
}


def page_text(page: Page) -> str:
    """The whole page as plain text of 100 columns, for the clipboard."""
    return "\n".join((clean(page.title), "", *texts(page.blocks, 100)))


def blocks_of(sections: Iterable[Section]) -> tuple[Block, ...]:
    """The blocks of some sections."""
    return tuple(block for section in sections for block in section.blocks())
