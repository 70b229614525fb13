"""Many texts looked for in a large one at once: those that its different words cannot hold are not.

A text of a megabyte has some ten thousand different words, so most searches end in a few kilobytes.
"""

from __future__ import annotations

from collections.abc import Iterable

_DIGITS = b"0123456789"


class Vocabulary:
    """The different words of a text, without their digits."""

    def __init__(self, text: bytes) -> None:
        self.whole = set(text.translate(None, _DIGITS).split())
        self.joined = b" ".join(self.whole)


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
        joined, whole = words.joined, words.whole
        there: dict[bytes, bool] = {}
        found = []
        for text, inner, parts in self._texts:
            if not inner <= whole:
                continue
            for part in parts:
                known = there.get(part)
                if known is None:
                    known = there[part] = part in joined
                if not known:
                    break
            else:
                found.append(text)
        return found

    def found(self, text: bytes, words: Vocabulary) -> list[bytes]:
        """Those that the text holds; `words` are its own."""
        return [wanted for wanted in self.possible(words) if wanted in text]
