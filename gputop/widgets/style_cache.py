"""Caches of Textual's that would keep closed panels and old lines in memory."""

from __future__ import annotations

from typing import Any

from rich.segment import Segment
from textual._styles_cache import StylesCache
from textual.app import App
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import OptionList

from gputop.widgets.board import Board

_UNTIL_FULL = (
    (Strip, "render_ansi"),
    (Segment, "_split_cells"),
    (StylesCache, "get_inner_outer"),
)
"""Functions with an `lru_cache` that fills over hours: Textual 8.2 and rich 15 allow 16,384 entries
for the first two, a kilobyte each, and cells that a mouse could select have styles of their own.

Each entry of the third holds the style cache of a widget, closed ones included, with its rendered
lines, 0.85 MB for each panel opened.
"""


def release_old_lines(app: App[Any]) -> None:
    """Forget all lines that were drawn; the screen that is shown draws its own again.

    Each line keeps the pieces into which panels ever cut it and the colours that themes ever gave
    it, and a screen that is not shown draws all of its lines when it is shown next.
    """
    for owner, name in _UNTIL_FULL:
        clear = getattr(getattr(owner, name, None), "cache_clear", None)
        if clear is not None:  # a Textual that caches otherwise needs nothing of us
            clear()
    for stack in app._screen_stacks.values():
        for screen in stack:
            release_lines(screen)


def release_lines(screen: Screen[Any]) -> None:
    """Forget the lines of one screen, 2 KB each, before it is collected or drawn again."""
    for widget in screen.walk_children(Widget):
        widget._styles_cache.clear()
        if isinstance(widget, Board):
            widget.release_lines()
        elif isinstance(widget, OptionList):
            widget._option_render_cache.clear()
