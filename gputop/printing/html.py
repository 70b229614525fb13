"""Pages as one HTML file that asks for nothing outside: no script, no font, no picture of others.

Its words are those of the terminal: each block is made of the lines that render.py gives when
nothing is wrapped, and laid out by the browser. Whatever was read is escaped here, once.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from html import escape
from typing import Any

from gputop.printing.finding_blocks import finding_blocks
from gputop.printing.render import UNWRAPPED, render
from gputop.terminal.clean import clean
from gputop.topology.model.page import (
    Bars,
    Blank,
    Block,
    CellGrid,
    Commands,
    Findings,
    Heading,
    Indented,
    Rows,
    Steps,
    Table,
)
from gputop.topology.model.severity import SILENCED_SIGN
from gputop.widgets.spans import Line

PANEL = 110
"""Columns of what a browser cannot lay out itself, such as a matrix."""
_LONGEST_CELL = 2000
_STYLE = """
body{margin:2rem auto;max-width:72rem;padding:0 1rem;background:#fff;color:#1f2933;
font:15px/1.45 system-ui,sans-serif}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin:2rem 0 .5rem}
h3{font-size:1rem;margin:1.4rem 0 .3rem}
p{margin:.15rem 0;padding-left:1.2rem;text-indent:-1.2rem;overflow-wrap:anywhere}
pre,code{font:13px/1.4 ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace}
pre{margin:.2rem 0 .2rem 1.2rem;padding:.3rem .6rem;background:#f3f5f7;overflow-x:auto}
.copy{white-space:pre-wrap;overflow-wrap:anywhere}
section,.in{padding-left:1.2rem}h3{margin-left:-1.2rem}figure{margin:1rem 0;overflow-x:auto}
h2{color:#1b5e93}.muted{color:#5b6773}
table{border-collapse:collapse;margin:.4rem 0;display:block;overflow-x:auto}
td,th{padding:.1rem .7rem .1rem 0;text-align:left}
td.right,th.right{text-align:right}svg{max-width:100%;height:auto}
.strong,.bold{font-weight:600}.key{color:#1b5e93}.good,.link-nvlink{color:#2d7a1c}
.warn,.link-socket{color:#8a5700}.bad{color:#b71c1c}.link-pcie{color:#1b5e93}
@media screen and (max-width:60rem){svg{max-width:none}}
@media print{section{break-inside:avoid}body{margin:0}}
"""
_POLICY = "; ".join(
    (
        "default-src 'none'",
        f"style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)
"""Content-Security-Policy: this style alone, whatever else would get into the page."""


def html_page(title: str, blocks: Iterable[Block], picture: str = "") -> str:
    """A whole document. `picture`: the map as SVG, whose texts are escaped already."""
    figure = f"<h2>Map</h2>\n<figure>{picture}</figure>\n"
    return "".join(
        (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n',
            '<meta name="viewport" content="width=device-width">\n',
            f"<title>{_plain(title)}</title>\n<style>{_STYLE}</style></head><body>\n",
            f"<h1>{_plain(title)}</h1>\n",
            *_inside(blocks),
            figure if picture else "",
            "</body></html>\n",
        )
    )


def _inside(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        yield from _WRITERS.get(type(block), _paragraphs)(block)


def _plain(text: str) -> str:
    return escape(clean(text, _LONGEST_CELL))


def _spans(line: Line) -> str:
    return "".join(
        f'<span class="{escape(ink)}">{escape(text)}</span>' if ink else escape(text)
        for text, ink in line
    ).strip()


def _paragraphs(block: Block) -> Iterator[str]:
    """Each line of the terminal as a paragraph."""
    for line in render((block,), UNWRAPPED, whole=True):
        if line:
            yield f"<p>{_spans(line)}</p>\n"


def _heading(block: Heading) -> Iterator[str]:
    for line in render((block,), UNWRAPPED):
        yield f"<h2>{_spans(line)}</h2>\n"


def _drawn(block: Block) -> Iterator[str]:
    """What is made of cells stays as it is."""
    lines = render((block,), PANEL, whole=True)
    yield "<pre>" + "\n".join(_spans_as_they_are(line) for line in lines) + "</pre>\n"


def _spans_as_they_are(line: Line) -> str:
    return escape("".join(text for text, _ in line).rstrip())


def _commands(block: Commands) -> Iterator[str]:
    text = "\n".join(clean(one, 140_000) for one in block.commands)
    yield f'<pre class="copy">{escape(text)}</pre>\n'


def _steps(block: Steps) -> Iterator[str]:
    """What to do in words, and each command by itself, to be copied."""
    for number, fix in enumerate(block.fix):
        lead = '<span class="good bold">Fix: </span>' if number == 0 else ""
        root = ' <span class="warn">(needs root)</span>' if fix.needs_root else ""
        yield f"<p>{lead}{_plain(fix.text)}{root}</p>\n"
        if fix.command:
            yield from _commands(Commands(tuple(fix.command.split("\n"))))


def _findings(block: Findings) -> Iterator[str]:
    for finding in block.findings:
        sign, ink, word = finding.severity.shown
        yield (
            f'<section><h3><span class="{ink}">{sign} {word}</span> {_plain(finding.title)} '
            f'<span class="muted">[{_plain(finding.id)}]</span></h3>\n'
        )
        if block.whole:
            yield from _inside(finding_blocks(finding))
        yield "</section>\n"
    for finding, reason in block.silenced:
        why = f" ({_plain(reason)})" if reason else ""
        yield (
            f'<p><span class="warn">{SILENCED_SIGN} silenced</span> {_plain(finding.title)} '
            f'<span class="muted">[{_plain(finding.id)}]{why}</span></p>\n'
        )


def _table(block: Table) -> Iterator[str]:
    kinds = [' class="right"' if column.right else "" for column in block.columns]
    yield "<table>"
    heads = zip(kinds, (column.title for column in block.columns), strict=True)
    yield "<tr>" + "".join(f"<th{kind}>{_plain(head)}</th>" for kind, head in heads) + "</tr>\n"
    for number, row in enumerate(block.rows):
        mark = block.marks[number] if block.marks else None
        ink = f' class="{mark.ink}"' if mark is not None else ""
        cells = zip(kinds, row, strict=True)
        shown = "".join(f"<td{kind}>{_plain(cell)}</td>" for kind, cell in cells)
        yield f"<tr{ink}>{shown}</tr>\n"
    yield "</table>\n"


def _within(block: Indented) -> Iterator[str]:
    yield '<div class="in">'
    yield from _inside(block.blocks)
    yield "</div>\n"


def _blank(block: Blank) -> Iterator[str]:
    return iter(())


_WRITERS: dict[type, Callable[[Any], Iterator[str]]] = {
    Heading: _heading,
    Commands: _commands,
    Steps: _steps,
    Findings: _findings,
    Table: _table,
    Rows: _drawn,
    CellGrid: _drawn,
    Bars: _drawn,
    Indented: _within,
    Blank: _blank,
}
"""Blocks that HTML has a form for; all others are paragraphs."""
