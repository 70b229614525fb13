"""A cache of Textual's that would keep every closed panel in memory."""

from __future__ import annotations

from textual._styles_cache import StylesCache


def release_closed_screens(_: object = None) -> None:
    """Empty the cache that is keyed by widgets' style caches, and so keeps widgets alive.

    Textual 8.2 caches the method `StylesCache.get_inner_outer` with an `lru_cache` of 1,024
    entries: each holds a style cache with its rendered lines, 0.85 MB for each panel opened.
    What is still on the screen is cached again with its next drawing.
    """
    clear = getattr(StylesCache.get_inner_outer, "cache_clear", None)
    if clear is not None:  # a Textual that caches otherwise needs nothing of us
        clear()
