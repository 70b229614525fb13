"""The picture of a screen says what the screen says."""

from __future__ import annotations

from defusedxml.ElementTree import fromstring

from .cells import Ink, Run
from .fleet import KEYS as FLEET_TABS
from .page import page
from .scenes import KEYS
from .svg import svg_of

PLAIN, LOUD = Ink("#ffffff", "#000000"), Ink("#ff0000", "#400000", bold=True)
SVG = "{http://www.w3.org/2000/svg}"


def test_a_picture_has_each_run_in_its_place_and_colour() -> None:
    rows = ((Run(0, 6, "GPU0 <", PLAIN), Run(6, 4, " ▼ 8", LOUD)), (Run(0, 10, " " * 10, PLAIN),))
    drawn = fromstring(svg_of(rows, "a & b"))
    spans = drawn.findall(f".//{SVG}tspan")
    assert [(span.text, span.get("x"), span.get("fill")) for span in spans] == [
        ("GPU0 <", "0.0", "#ffffff"),
        ("▼ 8", "59.0", "#ff0000"),
    ]
    behind = drawn.findall(f".//{SVG}g/{SVG}rect")
    assert [(one.get("x"), one.get("width"), one.get("fill")) for one in behind] == [
        ("50.6", "33.7", "#400000")
    ]


def test_each_sign_of_braille_has_its_own_place() -> None:
    drawn = fromstring(svg_of(((Run(0, 5, "a ⠤⠒b", PLAIN),),), "a curve"))
    spans = [(span.text, span.get("x")) for span in drawn.findall(f".//{SVG}tspan")]
    assert spans == [("a", "0.0"), ("⠤", "16.9"), ("⠒", "25.3"), ("b", "33.7")]


def test_the_page_shows_every_screen_of_every_demo() -> None:
    assert page().count("<img") == 3 * 5 * len(KEYS) + 3 * len(FLEET_TABS)
