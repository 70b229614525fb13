"""A walk shows each frame in its time, and draws once what does not change."""

from __future__ import annotations

from defusedxml.ElementTree import fromstring

from .cells import Ink, Row, Run
from .moving import Frame, moving

PLAIN = Ink("#ffffff", "#000000")
SVG = "{http://www.w3.org/2000/svg}"


def row(text: str) -> Row:
    return (Run(0, len(text), text, PLAIN),)


def test_rows_that_stay_are_drawn_once_and_others_in_their_time() -> None:
    frames = [
        Frame((row("stays"), row("one  ")), 1.0, "p", "measure"),
        Frame((row("stays"), row("two  ")), 3.0, "p", "measure"),
    ]
    drawn = fromstring(moving(frames, "a walk"))
    texts = ["".join(part.itertext()).strip() for part in drawn.iter(f"{SVG}text")]
    assert sorted(texts) == ["one", "p  measure", "stays", "two"]
    style = drawn.find(f"{SVG}style")
    assert style is not None
    assert style.text is not None
    assert "{0.000%{opacity:1}25.000%{opacity:0}}" in style.text
    assert "{0.000%{opacity:0}25.000%{opacity:1}}" in style.text
    assert style.text.count("4s step-end infinite") == 2
