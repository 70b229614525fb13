"""Many texts, each of one line, looked for in a large one at once.

A text of a megabyte has some ten thousand different words, so most searches end in a few kilobytes;
and many of its lines differ in numbers alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain

_DIGITS = bytes.maketrans(b"123456789", b"0" * 9)
_LONG_NUMBERS = 4
"""How often a number is halved: one of up to 2^4 digits becomes one digit."""
_SIDE_BY_SIDE = 4
"""Bytes of a word that are compared at once, as one number."""


def _bare(text: bytes) -> bytes:
    """The text with a zero for each number: what holds another text does so then too."""
    text = text.translate(_DIGITS)
    for _ in range(_LONG_NUMBERS):
        text = text.replace(b"00", b"0")
    return text


class Vocabulary:
    """A text and its different lines and words, with a zero for each number."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.bare = b"\n".join(set(_bare(text).split(b"\n")))
        """Its lines, of those that differ in numbers alone only one."""
        self.whole = set(self.bare.split())
        self.joined = b" ".join(self.whole)
        self._there: dict[bytes, bool] = {}

    @cached_property
    def fours(self) -> frozenset[int]:
        """Every four bytes that stand side by side, as numbers."""
        joined = memoryview(self.joined)
        starts = range(_SIDE_BY_SIDE)
        sizes = ((len(joined) - start) // _SIDE_BY_SIDE * _SIDE_BY_SIDE for start in starts)
        shifted = (joined[start : start + size] for start, size in zip(starts, sizes, strict=True))
        return frozenset().union(*(part.cast("I") for part in shifted if part))

    def hold(self, wanted: bytes, bare: bytes) -> bool:
        """Whether the text holds another one, which is given with zeros too."""
        return bare in self.bare and (b"0" not in bare or wanted in self.text)

    def within(self, part: bytes) -> bool:
        """Whether a word holds this part."""
        known = self._there.get(part)
        if known is None:
            known = self._there[part] = part in self.joined
        return known


class Sought:
    """Texts that are looked for again and again."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        self._texts: list[tuple[bytes, bytes, frozenset[bytes], tuple[bytes, ...]]] = []
        """Each as it is and with zeros, with the words that stand whole in it, and the parts of
        words at its ends."""
        for text in dict.fromkeys(texts):
            bare = _bare(text)
            words = bare.split()
            first, last = not bare[:1].isspace(), not bare[-1:].isspace()
            inner = words[first : len(words) - last]
            ends = [*words[:first], *words[len(words) - last :]]
            parts = tuple(sorted(set(ends), key=len, reverse=True))
            self._texts.append((text, bare, frozenset(inner), parts))
        self._by_four: dict[int | None, list[int]] = {None: []}
        """The places of the texts that need four bytes side by side; None: of the shorter ones."""
        for place, (_, _, _, parts) in enumerate(self._texts):
            end = parts[0][-_SIDE_BY_SIDE:] if parts else b""
            four = int.from_bytes(end, sys.byteorder) if len(end) == _SIDE_BY_SIDE else None
            self._by_four.setdefault(four, []).append(place)

    def _possible(self, words: Vocabulary) -> Iterator[tuple[bytes, bytes]]:
        """Those that a text with these words may hold, each as it is and with zeros."""
        whole, within = words.whole, words.within
        there = (None, *(self._by_four.keys() & words.fours))
        for place in sorted(chain.from_iterable(map(self._by_four.__getitem__, there))):
            text, bare, inner, parts = self._texts[place]
            if inner <= whole and all(map(within, parts)):
                yield text, bare

    def found(self, words: Vocabulary) -> list[bytes]:
        """Those that the text with these words holds."""
        return [text for text, bare in self._possible(words) if words.hold(text, bare)]

    def any(self, words: Vocabulary) -> bool:
        """Whether the text with these words holds one of them."""
        return any(words.hold(text, bare) for text, bare in self._possible(words))


def lines_with(wanted: Iterable[bytes], text: bytes) -> dict[bytes, list[bytes]]:
    """The lines of a text that hold one of the wanted texts, each with those that it holds."""
    found: dict[bytes, list[bytes]] = {}
    for one in wanted:
        at = text.find(one)
        while at >= 0:
            end = text.find(b"\n", at)
            end = end if end >= 0 else len(text)
            found.setdefault(text[text.rfind(b"\n", 0, at) + 1 : end], []).append(one)
            at = text.find(one, end)
    return found
