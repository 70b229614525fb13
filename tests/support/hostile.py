"""Snapshots whose every text holds what a terminal obeys, and a check of what comes out."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any

EVIL = (
    "\x1b]0;owned\x07\x00\x7f\x9b31m\x85\xad\u200b\u202e\u2066\u2028\ufeff\ue000\ufffe\U000e0041"
    "\r\n\t\"'<&>]]>--\\{}[bold]"
)
OBEYED = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
"""General categories of what no output may hold, but for line ends and tabulators."""
CHECKED = ("schema", "tag", "gaps")
"""Fields that hold nothing else: a snapshot with another text there is refused."""
FREE = ("name", "colour")
"""Attributes of a topology XML in which any text is read."""


def obeyed(text: str) -> set[str]:
    """The characters in an output that a terminal obeys, or that hide what the text says."""
    return {
        character
        for character in set(text) - {"\n", "\t"}
        if unicodedata.category(character) in OBEYED
    }


def poisoned(document: Any, share: int | None = None, path: tuple[str, ...] = ()) -> Any:
    """Put EVIL into every string of a document; with `share` into that third of the fields.

    The thirds leave the vendor alone, without which most commands have little to say.
    """
    if isinstance(document, dict):
        return {
            name: value if name in CHECKED else poisoned(value, share, (*path, name))
            for name, value in document.items()
        }
    if isinstance(document, list):
        if path[-1:] == ("attributes",):  # of an element: pairs of name and value
            return [[name, value + EVIL * (name in FREE)] for name, value in document]
        return [poisoned(value, share, path) for value in document]
    if not isinstance(document, str):
        return document
    mine = share is None or (path[-1:] != ("vendor",) and sum(map(len, path)) % 3 == share)
    return document + EVIL if mine else document


def strings(document: Any) -> Iterator[str]:
    """All strings of a document that are no keys."""
    if isinstance(document, str):
        yield document
    elif isinstance(document, dict):
        for value in document.values():
            yield from strings(value)
    elif isinstance(document, list):
        for value in document:
            yield from strings(value)
