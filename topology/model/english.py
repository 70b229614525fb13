"""English lists and plurals."""

from collections.abc import Sequence


def listing(names: Sequence[str], most: int = 0) -> str:
    """A list in words: "a", "a and b", "a, b and c"; with `most`, "a, b, c and 4 more"."""
    if most and len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most:,} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def first(names: Sequence[str], most: int, between: str = ", ") -> str:
    """The first names of many: "a, b and 4 more"; all of a few."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return between.join(names[:most]) + more


def plural(count: int, noun: str, plural_noun: str = "") -> str:
    """A number with its noun: "1 rank", "4 ranks", "2 entries"."""
    return f"{count:,} {noun if count == 1 else plural_noun or noun + 's'}"
