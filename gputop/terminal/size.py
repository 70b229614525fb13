"""The size of the terminal: what the variables COLUMNS and LINES may say about it."""

from __future__ import annotations

import os
import shutil
import sys

WIDEST, HIGHEST = 2000, 1000
"""No terminal is larger; a screen of millions of cells would never be drawn."""
TINY_BELOW = (60, 14)
"""Columns and lines under which the app can show nothing useful."""


def forget_odd_sizes() -> None:
    """Take COLUMNS and LINES out of the environment where they hold no size of a terminal.

    All that asks for the size then asks the terminal itself.
    """
    for name, most in (("COLUMNS", WIDEST), ("LINES", HIGHEST)):
        if name in os.environ and _said(name, most) is None:
            del os.environ[name]


def bounded(columns: int, lines: int) -> tuple[int, int]:
    """A size that a window reports: of a larger one only the corner is drawn."""
    return min(columns, WIDEST), min(lines, HIGHEST)


def text_width(widest: int = WIDEST) -> int:
    """Columns for paragraphs on stdout, at most `widest`: those of the terminal.

    In a pipe those of COLUMNS, else 80: shells keep COLUMNS to themselves, so who exports it means
    it.
    """
    columns = terminal_width() or _said("COLUMNS", WIDEST) or 80
    return min(columns, widest)


def terminal_width() -> int | None:
    """Columns of the terminal on stdout; None where it is none: scripts read whole lines."""
    # stdout is None when the caller closed it.
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return min(shutil.get_terminal_size((80, 24)).columns, WIDEST)


def _said(name: str, most: int) -> int | None:
    """The size that a variable holds; None where it is not set, or no size of a terminal."""
    said = os.environ.get(name, "")
    number = said.isascii() and said.isdecimal() and len(said) <= len(str(most))
    return int(said) if number and 0 < int(said) <= most else None
