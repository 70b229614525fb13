"""Lists of hosts as Slurm and ClusterShell write them: "g[1-6,8-16],login1".

Slurm reads at most two bracketed ranges in one name (slurm.conf, NodeName), so no more are written;
any number is read. Of ClusterShell's syntax its steps ("g[0-8/2]") are read; its groups (@) and
operators (! & ^) need its own tool, and the error says so.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from ..model.gathered import gathered_by

LIMIT_HOSTS = 200_000
"""As many hosts as a list may name, repeats counted: twice the largest fleet that is judged."""
_MOST_DIGITS = 18
_MOST_BRACKETS = 2
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?")
_DIGITS = re.compile(r"([0-9]{1,18})")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18})(?:/([0-9]+))?)?")
_BRACKETS = re.compile(r"\[([^\]]*)\]")
_FOREIGN = re.compile(r"[@!&^]")


def is_host(name: str) -> bool:
    """Whether a text can be the name of a host: letters, digits, ".", "-" and "_"."""
    return _HOST.fullmatch(name) is not None


def in_order(names: Iterable[str]) -> list[str]:
    """Names without repeats in the order in which people count: g2 before g10."""
    return sorted(set(names), key=_key)


def as_they_answer(asked: Iterable[str], there: Collection[str]) -> list[str]:
    """Names that were asked for, as the nodes write them: without domain, in other letters.

    DNS makes no difference between those. A name stays as it is where it fits several.
    """
    names = list(asked)
    given = frozenset(names)
    rest = [name for name in names if name not in there]
    if not rest:
        return names
    lone = _alone(name for name in there if name not in given)
    wanted = _alone(rest)
    known = {name: lone[short] for short, name in wanted.items() if short in lone}
    return [known.get(name, name) for name in names]


def _alone(names: Iterable[str]) -> dict[str, str]:
    """Short name in small letters -> name, where it is the only one."""
    found = gathered_by(names, lambda name: name.partition(".")[0].lower())
    return {short: items[0] for short, items in found.items() if len(items) == 1}


def fold(names: Iterable[str]) -> str:
    """Write hosts as a short list: g1, g2, g3, g8 -> "g[1-3,8]"; "" for none.

    Raises ValueError for a text that is no name of a host.
    """
    ordered = in_order(names)
    for name in ordered:
        if not is_host(name):
            raise ValueError(f"{name[:60]!r} is no name of a host")
    items = [tuple(_DIGITS.split(name)) for name in ordered]
    widest = max((len(item) for item in items), default=0)
    for place in range(widest - 2, 0, -2):
        items = list(_folded(items, place))
    return ",".join("".join(item) for item in items)


def expand(text: str, limit: int = LIMIT_HOSTS) -> tuple[str, ...]:
    """The hosts of a list, each once, in the order of `in_order`.

    Raises ValueError with one sentence for what is no such list, or names more than `limit`.
    """
    found: set[str] = set()
    made = 0
    for item in _items(text):
        pieces = []
        count = 1
        for choices in _pieces(item):
            pieces.append(choices)
            count *= len(choices)
            if count > limit:
                raise ValueError(f"{_short(item)} names more than {limit} hosts")
        made += count
        if made > limit:
            raise ValueError(f"the list names more than {limit} hosts")
        names = [""]
        for choices in pieces:
            names = [name + choice for name in names for choice in choices]
        for name in names:
            if not is_host(name):
                raise ValueError(f"{name[:60]!r} is no name of a host")
        found.update(names)
    return tuple(in_order(found))


def _key(name: str) -> list[str | tuple[int, int]]:
    """What a name is sorted by: its numbers as numbers; of equal ones the longer text last."""
    return [
        (int(piece), len(piece)) if place % 2 else piece
        for place, piece in enumerate(_DIGITS.split(name))
    ]


def _folded(items: Iterable[tuple[str, ...]], place: int) -> Iterator[tuple[str, ...]]:
    """Join items that differ in the number at this place alone."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for item in items:
        full = sum(part.startswith("[") for part in item[1::2]) >= _MOST_BRACKETS
        if place >= len(item) or full:
            alike[item] = []
            continue
        alike.setdefault((*item[:place], "", *item[place + 1 :]), []).append(item[place])
    for rest, numbers in alike.items():
        if not numbers:
            yield rest
            continue
        text = _ranges(numbers)
        bare = len(numbers) == 1
        yield (*rest[:place], text if bare else f"[{text}]", *rest[place + 1 :])


def _runs(values: Iterable[int]) -> list[list[int]]:
    """The first and the last of each run of numbers that follow each other."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return runs


def _ranges(numbers: list[str]) -> str:
    """Write numbers as ranges; those with leading zeros stay as wide as they are."""
    padded = sorted({len(text) for text in numbers if text[0] == "0" and len(text) > 1})
    by_width: dict[int, list[int]] = {}
    for text in numbers:
        fitting = [width for width in padded if width <= len(text)]
        exact = text[0] == "0" and len(text) > 1
        width = len(text) if exact else fitting[-1] if fitting else 0
        by_width.setdefault(width, []).append(int(text))
    pieces: list[str] = []
    for width, values in sorted(by_width.items()):
        for first, last in _runs(sorted(values)):
            low, high = str(first).zfill(width), str(last).zfill(width)
            pieces.append(low if first == last else f"{low}-{high}")
    return ",".join(pieces)


def _items(text: str) -> Iterator[str]:
    """The items of a list; commas inside brackets do not part them, white space does."""
    found = _FOREIGN.search(text)
    if found is not None:
        raise ValueError(
            f"{found[0]!r} in a list of hosts: expand groups and operators first, "
            "with `nodeset -f` of ClusterShell"
        )
    depth, start = 0, 0
    for place, letter in enumerate(text):
        if letter == "[":
            depth += 1
            if depth > 1:
                raise ValueError(f"a bracket inside a bracket: {_short(text[start:])}")
        elif letter == "]":
            depth -= 1
            if depth < 0:
                raise ValueError(f"a bracket that nothing opened: {_short(text[start:])}")
        elif depth == 0 and (letter == "," or letter.isspace()):
            if start < place:
                yield text[start:place]
            start = place + 1
    if depth:
        raise ValueError(f"a bracket that nothing closes: {_short(text[start:])}")
    if start < len(text):
        yield text[start:]


def _pieces(item: str) -> Iterator[list[str]]:
    """What may stand at each place of an item."""
    for place, piece in enumerate(_BRACKETS.split(item)):
        choices = [] if place % 2 else [piece]
        for text in piece.split(",") if place % 2 else ():
            choices += _numbers(text)
            if len(choices) > LIMIT_HOSTS:
                raise ValueError(f"{_short(item)} names more than {LIMIT_HOSTS} hosts")
        yield choices


def _numbers(text: str) -> list[str]:
    """The numbers of one range: "08-10" -> 08, 09, 10."""
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text[:40]!r} is no number and no range such as 1-16")
    if found[2] is None:
        return [found[1]]
    first, last, step = int(found[1]), int(found[2]), int((found[3] or "1")[:_MOST_DIGITS])
    if last < first or step < 1:
        raise ValueError(f"{text[:40]!r}: a range goes upwards")
    if (last - first) // step >= LIMIT_HOSTS:
        raise ValueError(f"{text[:40]!r} names more than {LIMIT_HOSTS} hosts")
    width = len(found[1]) if found[1][0] == "0" else 0
    return [str(number).zfill(width) for number in range(first, last + 1, step)]


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
