"""Which lines without the library's head say something: patterns, and how to skip the rest fast.

A line counts when it speaks of the library, of a GPU or of their drivers and a pattern matches it.
Both need texts that are looked for in a whole chunk first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from .literals import literals

ABOUT = (
    b"CCL", b"nccl", b"CUDA", b"Cuda", b"cuda", b"HIP", b"hipE", b"hipI", b"NVRM", b"NVML",
    b"nvml", b"NVLink", b"GPU", b"NET/", b"ibv_", b"IBV_", b"mlx", b"c10d", b"ProcessGroup",
    b"Last error:", b"torch", b"[rank", b"oom", b"Killed process", b"Signal ", b"signal ",
    b"srun: ", b"slurmstepd", b"system not yet", b"ROCm", b"amdgpu", b".cc:", b".cu:", b"/dev/shm",
    b" in comm 0x", b"[INFO] ", b"] INFO NET", b"] INFO Ring", b"] INFO Channel",
    b"] INFO Tree", b"] INFO Using", b"] INFO comm", b"DataLoader worker", b"bus error", b"Imex",
    b"NVSwitch", b"loo connect", b"client socket", b"Static function",
)  # fmt: skip
"""A line without any of these speaks of nothing that the patterns mean."""
_LIBRARY = re.compile(
    rb"[NR]CCL|nccl|ProcessGroup|c10d|NET/|ibv_|IBV_|mlx5|\w\.(?:cc|cu):\d|socket(?:Poll|Start|Prog)"
)
"""What a line names that comes from the library or from what carries its messages."""
LONGEST_EXCERPT = 360
DIGITS = b"0123456789.,:"
_WORD = re.compile(rb"\w+")
_INNER_WORD = re.compile(rb"(?<=\W)\w+(?=\W)")


class Present(NamedTuple):
    """The texts that stand somewhere in the lines of one chunk."""

    texts: list[bytes]
    numbered: list[bytes]
    """Those with digits, without them, that stand in the chunk without its digits."""


class Signs:
    """Patterns for lines that the library did not mark as its own."""

    def __init__(self, patterns: Iterable[str] = (), general: Iterable[str] = ()) -> None:
        """`general` patterns count only in lines that name the library or its network."""
        self._general = frozenset(general)
        self._by_text: dict[bytes, list[re.Pattern[str]]] = {}
        self._by_word: dict[bytes, list[bytes]] = {}
        """Texts by a word that stands whole in them: one split finds many at once."""
        self._wordless: list[bytes] = []
        self._always: list[re.Pattern[str]] = []
        """Patterns of which no text is certain."""
        for pattern in dict.fromkeys((*patterns, *self._general)):
            compiled = re.compile(pattern)
            for text in (needed := literals(pattern)):
                self._by_text.setdefault(text.encode(), []).append(compiled)
            if not needed:
                self._always.append(compiled)
        for known in self._by_text:
            words = _INNER_WORD.findall(known)
            if words:
                self._by_word.setdefault(max(words, key=len), []).append(known)
            else:
                self._wordless.append(known)
        self._numbered = [
            bare for text in self._by_text if (bare := text.translate(None, DIGITS)) != text
        ]

    def present(self, chunk: bytes | None) -> Present | None:
        """What of the texts stands in the lines of this chunk; None, for all, without a chunk.

        Few do, so that a line is then compared with few.
        """
        if chunk is None:
            return None
        texts = [text for text in self._wordless if text in chunk]
        for word in self._by_word.keys() & set(_WORD.findall(chunk)):
            texts += [text for text in self._by_word[word] if text in chunk]
        bare = chunk.translate(None, DIGITS)
        return Present(texts, [text for text in self._numbered if text in bare])

    @property
    def always(self) -> bool:
        """Whether some pattern needs no text, so that any line may match it."""
        return bool(self._always)

    def dull(self, texts: list[bytes], shape: bytes, present: Present | None = None) -> bool:
        """Whether a line says nothing whatever its digits are; `shape` is the line without them."""
        numbered = self._numbered if present is None else present.numbered
        return not texts and not self._always and not any(text in shape for text in numbered)

    def texts_in(self, line: bytes, present: Present | None = None) -> list[bytes]:
        """The texts that patterns need and that the line holds."""
        if present is not None:
            return [text for text in present.texts if text in line] if present.texts else []
        found = [text for text in self._wordless if text in line]
        for word in self._by_word.keys() & set(_WORD.findall(line)):
            found += [text for text in self._by_word[word] if text in line]
        return found

    def excerpt(self, line: bytes, texts: list[bytes] | None = None) -> str | None:
        """The part of the line that a pattern matches, None where none does."""
        texts = self.texts_in(line) if texts is None else texts
        if not texts and not self._always:
            return None
        decoded = line.decode("utf-8", "replace").strip()
        named = _LIBRARY.search(line) is not None
        tried = (pattern for text in texts for pattern in self._by_text[text])
        for pattern in (*tried, *self._always):
            if not named and pattern.pattern in self._general:
                continue
            match = pattern.search(decoded)
            if match is not None:
                start = 0 if match.end() <= LONGEST_EXCERPT else max(match.start() - 80, 0)
                return decoded[start : start + 4 * LONGEST_EXCERPT]
        return None


NONE = Signs()
