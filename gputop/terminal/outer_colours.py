"""Colours that the terminal around GNU screen has, and screen itself may not."""

from __future__ import annotations

import os


def forget_outer_colours() -> None:
    """Take COLORTERM out of the environment where it tells of the terminal around GNU screen.

    Until version 5 screen takes the parts of a 24-bit colour for attributes: text blinks and has
    lines below it. Its TERM says rightly whether it knows 256 colours. Within tmux it is tmux that
    draws, and it knows.
    """
    if "STY" in os.environ and "TMUX" not in os.environ:
        os.environ.pop("COLORTERM", None)
