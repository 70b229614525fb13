"""Pages as HTML: whole, nothing loaded from outside, and nothing from outside is markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from gputop.printing.html import html_page
from gputop.topology.model.page import (
    BarLine,
    Bars,
    Bullets,
    CellGrid,
    Column,
    Commands,
    Fact,
    Facts,
    Fix,
    Heading,
    Indented,
    Role,
    Rows,
    Steps,
    Table,
    Text,
)
from tests.support.hostile import EVIL, obeyed

ALLOWED = {
    "html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "pre", "span", "div",
    "section", "table", "tr", "td", "th", "figure", "svg", "rect", "g", "text", "polyline",
}  # fmt: skip
VOID = {"meta"}
LOADING = ("src", "href", "srcset", "data", "action", "background", "poster", "style")


class Reader(HTMLParser):
    """Tags that are open at the end, all tags, attributes and texts."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(page: str) -> Reader:
    """Read a page, which has to be whole and to ask for nothing."""
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    assert reader.tags <= ALLOWED
    assert not reader.attributes.intersection(LOADING)
    assert not any(name.startswith("on") for name in reader.attributes)
    assert "url(" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page
    return reader


def test_every_block_has_its_words_and_no_markup_from_outside() -> None:
    evil = f"<script>alert(1)</script>{EVIL}<img src=http://x/>"
    blocks = (
        Heading(evil),
        Text(evil, label="Impact"),
        Text(((evil, Role.BAD), ("plain", Role.PLAIN))),
        Bullets((evil, "a bullet")),
        Facts((Fact(what=evil, value="16 of 18", source=evil, because="a reason"),)),
        Table((Column(evil), Column("GB/s", right=True)), ((evil, "63.0"),), (None,)),
        CellGrid("corner", ("GPU0",), ((evil[:20],),), ((evil[:3],),)),
        Rows(((("row", Role.GOOD),),)),
        Steps((Fix(text=evil, command="nvidia-smi nvlink -s", needs_root=True),)),
        Commands(("lspci -vv | grep -E 'a|b'",)),
        Bars((BarLine(evil[:20], 3.0, "a note"),)),
        Indented((Text("further in"),)),
    )
    page = html_page(evil, blocks)
    reader = read(page)
    assert obeyed(page) == set()
    text = "".join(reader.texts)
    for part in (
        "<script>", "a bullet", "16 of 18", "a reason", "63.0", "row", "(needs root)",
        "nvidia-smi nvlink -s", "grep -E 'a|b'", "a note", "further in", "Impact: ",
    ):  # fmt: skip
        assert part in text


def test_a_narrow_screen_wraps_commands_and_keeps_the_size_of_the_map() -> None:
    page = html_page("x", [Commands(("nvidia-smi " * 20,))], "<svg></svg>")
    assert '<pre class="copy">' in page
    style = page.partition("<style>")[2].partition("</style>")[0]
    assert re.search(r"\.copy\{[^}]*white-space:pre-wrap[^}]*overflow-wrap:anywhere", style)
    assert re.search(r"@media screen and \(max-width:\w+\)\{[^}]*svg\{max-width:none\}", style)
    assert re.search(r"figure\{[^}]*overflow-x:auto", style)
