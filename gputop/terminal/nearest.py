"""Names that somebody may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

MOST = 3
_FARTHER = 0.25
"""What is less like the word by more than this than the best one is not offered beside it."""
_LISTED = 16
"""How many names a sentence lists."""


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> tuple[str, ...]:
    """The known names most like a word, best first; those that begin with it before all others."""
    names = list(dict.fromkeys(known))
    word = word.lower()
    begun = [name for name in names if word and name.lower().startswith(word)]
    by_plain = {name.lower(): name for name in reversed(names)}
    close = get_close_matches(word, by_plain, n=MOST, cutoff=cutoff)
    likeness = {name: SequenceMatcher(None, name, word).ratio() for name in close}
    least = max(likeness.values(), default=0.0) - _FARTHER
    near = [by_plain[name] for name in close if likeness[name] >= least]
    return tuple(dict.fromkeys((*begun, *near)))[:MOST]


def did_you_mean(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """A question that ends a sentence about an unknown name: "; did you mean a or b?"; else ""."""
    return meant(nearest(word, known, cutoff=cutoff))


def instead(word: str, known: Iterable[str], listed: str = "", *, cutoff: float = 0.6) -> str:
    """The same question; where nothing is like the word, what lists the names, or all of them."""
    names = list(known)
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    there = f"`{listed}` lists them" if listed else f"there are: {', '.join(names[:_LISTED])}{more}"
    return did_you_mean(word, names, cutoff=cutoff) or f"; {there}"


def meant(names: Iterable[str]) -> str:
    """The same for names that were found already."""
    *first, last = tuple(names) or ("",)
    if not last:
        return ""
    return f"; did you mean {', '.join(first)}{' or ' if first else ''}{last}?"
