"""Signs for a terminal whose encoding lacks ours: each becomes one of ASCII, of the same width."""

from __future__ import annotations

import codecs
import io
import unicodedata
from typing import TextIO

HANDLER = "gputop-signs"
_PLAIN = dict(zip("·–—…×°µ›•●▶▲▼▽←→↑↓“”’✓✗■○◆◇▓▒░", '---~xou>**>!vv<>^v""\'+x#o*o%:.', strict=True))


def fit(stream: TextIO | None) -> None:
    """Make a stream without UTF-8 write ASCII signs: Python's escapes break lines."""
    if isinstance(stream, io.TextIOWrapper) and "utf" not in stream.encoding.lower():
        codecs.register_error(HANDLER, _replace)
        stream.reconfigure(errors=HANDLER)


def plain(character: str) -> str:
    """One character in ASCII, as many cells wide."""
    known = _PLAIN.get(character)
    if known is not None:
        return known
    name = unicodedata.name(character, "")
    if name.startswith("BOX DRAWINGS"):
        if "HORIZONTAL" in name and "VERTICAL" not in name and " AND " not in name:
            return "=" if "HEAVY" in name else "-"
        return "|" if name.endswith(" VERTICAL") and "HORIZONTAL" not in name else "+"
    if "BLOCK" in name:
        return "#"
    return "??" if unicodedata.east_asian_width(character) in "WF" else "?"


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(plain, error.object[error.start : error.end])), error.end
