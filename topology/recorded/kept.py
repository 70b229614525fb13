"""The pieces of a long text that may hold outputs of tools, and the numbers of their lines."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache

from ..model.format import Format
from .sought import Sought, Vocabulary

KEPT_BYTES = 4 * 1024 * 1024
"""How much of a text is looked through for outputs of tools, beyond what cannot hold any."""
_PIECE_BYTES = 1024 * 1024
_LONGEST_LINE = 64 * 1024
FAR = f"only {KEPT_BYTES >> 20} MiB of a text are looked through for outputs of tools"
GAP = b"here lines are left out"
"""Stands between pieces; no output goes on over such a line."""


def not_looked_through(line: int) -> str:
    """Say from which line on outputs were not looked for."""
    return f"from line {line} on: {FAR}"


@lru_cache(8)
def _sought(needs: tuple[str, ...]) -> Sought:
    """Of the same formats as for the file before: a folder may have thousands of small ones."""
    return Sought(text.encode() for text in needs)


class KeptText:
    """Takes a text piece by piece and keeps what may hold an output of one of the formats."""

    def __init__(self, forms: Iterable[Format]) -> None:
        needs: dict[bool, list[str]] = {True: [], False: []}
        for form in forms:
            needs[form.finds is None] += form.needs
        self._wanted, self._alone = _sought(tuple(needs[True])), _sought(tuple(needs[False]))
        self._pieces: list[bytes] = []
        self._size = 0
        self._starts = [(1, 1)]
        """Where a piece begins: the number of its first line here, and in the text."""
        self._next = self._next_here = 1
        self.goes_on = True
        """Whether the piece before may hold an output, which may go on.

        The first piece is kept in any case: it is all that most people paste, and pages that it
        was copied from write spaces and signs in other ways."""
        self.until: int | None = None
        """The first line of what is not looked through although it may hold an output."""

    @property
    def data(self) -> bytes:
        """What was kept."""
        return b"".join(self._pieces)

    def offer(self, lines: Sequence[bytes], first: int, words: Vocabulary) -> None:
        """Keep these lines if need be; `words`: of every line that may be of an output, once."""
        found = self.until is None and self._wanted.any(words)
        wanted, self.goes_on = found or self.goes_on, found
        if wanted:
            self._keep(lines, first)
        elif self.until is None and (there := self._alone.found(words)):
            for number, line in enumerate(lines, first):
                if any(sign in line for sign in there):
                    self._keep([line], number)

    def _keep(self, lines: Sequence[bytes], first: int) -> None:
        piece = b"\n".join(lines) + b"\n"
        if self._size + len(piece) > KEPT_BYTES:
            piece = piece[: piece.rfind(b"\n", 0, KEPT_BYTES - self._size) + 1]
            self.until = first + piece.count(b"\n")
            self.goes_on = False
        if first != self._next:
            self._pieces.append(GAP + b"\n")
            self._next_here += 1
            self._starts.append((self._next_here, first))
        self._pieces.append(piece)
        self._size += len(piece)
        self._next = first + len(lines)
        self._next_here += len(lines)

    def offer_all(self, data: bytes) -> None:
        """Offer a text that is in memory, piece by piece."""
        start, first = 0, 1
        while start < len(data):
            end = data.find(b"\n", start + _PIECE_BYTES) + 1 or len(data)
            lines = data[start:end].removesuffix(b"\n").split(b"\n")
            text = b"\n".join({line[:_LONGEST_LINE] for line in lines})
            self.offer(lines, first, Vocabulary(text))
            start, first = end, first + len(lines)

    def number(self, line: int) -> int:
        """The number in the text of a line of `data`."""
        here, first = self._starts[bisect_right(self._starts, (line, 1 << 62)) - 1]
        return first + line - here
