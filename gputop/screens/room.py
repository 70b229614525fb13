"""How a screen answers to the room that the terminal gives it."""

from __future__ import annotations

from textual.screen import Screen

from gputop.terminal.size import TINY_BELOW
from gputop.widgets.board import Board

NARROW_BELOW = 110
WIDE_FROM = 150
"""Columns."""


def name_room(screen: Screen[None], width: int, height: int) -> bool:
    """Set the classes by which the stylesheet knows the room; whether it is a tiny one."""
    screen.set_class(width < NARROW_BELOW, "-narrow")
    screen.set_class(width >= WIDE_FROM, "-wide")
    tiny = width < TINY_BELOW[0] or height < TINY_BELOW[1]
    screen.set_class(tiny, "-tiny")
    return tiny


def fit(screen: Screen[None], width: int, height: int) -> None:
    """Tell the stylesheet the room that there is; a tiny one is said on #tiny."""
    if name_room(screen, width, height):
        hint = f"{width}×{height} is too small: gputop needs {TINY_BELOW[0]}×{TINY_BELOW[1]}"
        parts = (hint[start : start + width] for start in range(0, len(hint), width))
        screen.query_one("#tiny", Board).show([((part, "muted"),) for part in parts])
