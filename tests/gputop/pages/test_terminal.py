"""Sections of a page as lines of a terminal."""

from __future__ import annotations

from gputop.pages.terminal import NARROW, section_lines
from gputop.topology.model.page import Section


def test_text_keeps_within_narrow_widths() -> None:
    sections = (
        Section(
            title="T" * 50,
            paragraphs=("word " * 40,),
            table=(("a", "b" * 70), ("c" * 30, "d")),
            bullets=("x " * 60,),
        ),
    )
    for width in (0, 40, 60, 80, 200):
        lines = section_lines(sections, width)
        assert max(map(len, lines)) <= max(width, NARROW) + 30
    assert section_lines((), 80) == []
