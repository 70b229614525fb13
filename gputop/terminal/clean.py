"""Text from devices, processes and files, made harmless before it is drawn."""

from __future__ import annotations

from gputop.topology.model.characters import HOSTILE, REPLACEMENT

LIMIT = 400
"""Longest text that is drawn, in characters; real names are below 100."""

_KEEP_IN_BLOCKS = "\n"


def clean(value: object, limit: int = LIMIT) -> str:
    """Make one line of plain text: control characters, format characters (bidirectional
    overrides, zero width) and lone surrogates become a replacement mark; length is capped.

    What comes out still has to be drawn as plain text, never as markup.
    """  # noqa: D205
    text = str(value)
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    if text.isascii() and text.isprintable():
        return text
    return HOSTILE.sub(REPLACEMENT, text)


def clean_block(value: object, limit: int = 100_000) -> str:
    """Clean a text of several lines, such as what goes to the clipboard; line ends stay."""
    lines = str(value)[:limit].split(_KEEP_IN_BLOCKS)
    return _KEEP_IN_BLOCKS.join(clean(line, limit) for line in lines)
