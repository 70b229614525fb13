"""Caches of Textual's that would keep closed panels and old lines in memory."""

from __future__ import annotations

from typing import Any

from textual._styles_cache import StylesCache
from textual.screen import Screen
from textual.widget import Widget

from gputop.widgets.board import Board


def release_old_lines(shown: Screen[Any]) -> None:
    """Forget lines that were drawn before this screen was shown; it draws its own again.

    Textual 8.2 caches the method `StylesCache.get_inner_outer` with an `lru_cache` of 1,024
    entries: each holds the style cache of a widget, closed ones included, with its rendered lines,
    0.85 MB for each panel opened. And each line keeps the pieces into which panels ever cut it and
    the colours that themes ever gave it.
    """
    clear = getattr(StylesCache.get_inner_outer, "cache_clear", None)
    if clear is not None:  # a Textual that caches otherwise needs nothing of us
        clear()
    for widget in shown.walk_children(Widget):
        widget._styles_cache.clear()
        if isinstance(widget, Board):
            widget.release_lines()
