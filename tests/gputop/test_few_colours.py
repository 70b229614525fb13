"""Terminals of sixteen colours: consoles and TERM=xterm get a theme made of just those."""

from __future__ import annotations

import re

import pytest
from rich._palettes import STANDARD_PALETTE
from textual.color import Color

from gputop import theming
from tests.support.terminal import Terminal

SIXTEEN = {tuple(colour) for colour in STANDARD_PALETTE._colors}
PARAMETERS = re.compile(rb"\x1b\[([0-9;]*)m")


def test_every_colour_of_the_theme_is_one_of_the_sixteen() -> None:
    theme = theming.for_few_colours()
    assert theme.name == theming.SIXTEEN
    named = [theme.primary, theme.foreground, theme.background, theme.surface, theme.panel]
    for value in (*named, *theme.variables.values()):
        assert value is not None
        assert Color.parse(value).rgb in SIXTEEN


@pytest.mark.parametrize("term", ["xterm", "linux"])
def test_what_is_well_and_what_is_not_differ_there(term: str) -> None:
    given = {"TERM": term, "COLORTERM": ""}
    with Terminal(["--demo", "sick-h100-8"], columns=100, lines=30, environment=given) as terminal:
        terminal.wait_for("16/18!", 20.0)
        codes = {
            code for found in PARAMETERS.findall(terminal.written) for code in found.split(b";")
        }
        # Bright red for what is low, bright green for what is well, cyan for what is aside.
        assert {b"91", b"92", b"36"} <= codes
        assert b"38" not in codes
