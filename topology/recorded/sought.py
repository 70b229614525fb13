"""Many texts looked for in a large one at once: those that its different words cannot hold are not.

A text of a megabyte has some ten thousand different words, so most searches end in a few kilobytes.
"""

from __future__ import annotations

from collections.abc import Iterable

_DIGITS = b"0123456789"


class Vocabulary:
    """A text and its different words, without their digits."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.whole = set(text.translate(None, _DIGITS).split())
        self.joined = b" ".join(self.whole)
        self._there: dict[bytes, bool] = {}

    def within(self, part: bytes) -> bool:
        """Whether a word holds this part."""
        known = self._there.get(part)
        if known is None:
            known = self._there[part] = part in self.joined
        return known


class Sought:
    """Texts that are looked for again and again."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        self._texts: list[tuple[bytes, frozenset[bytes], tuple[bytes, ...]]] = []
        """Each with the words that stand whole in it, and the parts of words at its ends."""
        for text in dict.fromkeys(texts):
            bare = text.translate(None, _DIGITS)
            words = bare.split()
            first, last = not bare[:1].isspace(), not bare[-1:].isspace()
            inner = words[first : len(words) - last]
            ends = [*words[:first], *words[len(words) - last :]]
            parts = tuple(sorted(set(ends), key=len, reverse=True))
            self._texts.append((text, frozenset(inner), parts))

    def possible(self, words: Vocabulary) -> list[bytes]:
        """Those that a text with these words may hold."""
        whole, within = words.whole, words.within
        return [
            text for text, inner, parts in self._texts if inner <= whole and all(map(within, parts))
        ]

    def found(self, words: Vocabulary) -> list[bytes]:
        """Those that the text with these words holds."""
        return [wanted for wanted in self.possible(words) if wanted in words.text]

    def any(self, words: Vocabulary) -> bool:
        """Whether the text with these words holds one of them."""
        return any(wanted in words.text for wanted in self.possible(words))


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
