"""Caches of Textual's that would keep closed panels and old lines in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import rich.cells
from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual._styles_cache import StylesCache
from textual.app import App
from textual.color import Color
from textual.css.scalar import Scalar
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from gputop.widgets.kept_lines import KeptLines

_OWNERS = (
    Strip, Segment, StylesCache, Region, Scalar, Color, Style, RichColor, RichStyle, rich.cells,
)  # fmt: skip
"""Classes and modules of Textual and rich whose functions have an `lru_cache`, with room for up to
16,384 results of half a kilobyte: hours pass until all are full.
"""


def _caches() -> Iterator[Any]:
    for owner in _OWNERS:
        for value in vars(owner).values():
            function = getattr(value, "__func__", value)
            if hasattr(function, "cache_clear"):
                yield function


_CACHES = tuple(_caches())


def forget_results() -> None:
    """Empty the caches of Textual and rich; what is used still is soon in them again."""
    for function in _CACHES:
        function.cache_clear()


def release_old_lines(app: App[Any]) -> None:
    """Forget all lines that were drawn; the screen that is shown draws its own again.

    Each line keeps the pieces into which panels ever cut it and the colours that themes ever gave
    it, and a screen that is not shown draws all of its lines when it is shown next.
    """
    # Each of its entries holds the style cache of a widget, closed ones included, with its lines.
    clear = getattr(StylesCache.get_inner_outer, "cache_clear", None)
    if clear is not None:  # a Textual that caches otherwise needs nothing of us
        clear()
    for stack in getattr(app, "_screen_stacks", {}).values():
        for screen in stack:
            release_lines(screen)


def release_lines(screen: Screen[Any]) -> None:
    """Forget the lines of one screen, 2 KB each, before it is collected or drawn again."""
    for widget in screen.walk_children(Widget, with_self=True):
        # Not their sizes (`_box_model_cache`): without them a picture is laid out otherwise. Of
        # what was looked up, each change of the children leaves an entry, 1024 for a widget.
        for name in ("_styles_cache", "_option_render_cache", "_query_one_cache"):
            cache = getattr(widget, name, None)
            if cache is not None:  # not of every widget, nor of every Textual
                cache.clear()
        if isinstance(widget, KeptLines):
            widget.release_lines()
