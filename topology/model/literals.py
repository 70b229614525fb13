"""Texts that a line must hold for a pattern to match it: looked for first, because that is fast."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_TOKEN = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?<?[=!]|\(\?P<\w+>|\(\?[a-z]*:|\(|\)|\||[.^$]|[?*+]\??"
    r"|\{[\d,]+\}\??|.",
    re.DOTALL,
)
_CLASSES = "dDwWsSbBAZ"
ANY_TEXT = (".", "^", "$", "+", "+?")
"""Pieces of a pattern that stand for no certain text, or end one."""
_MANY = ("?", "*", "{")
_LONG = 4
"""Characters of a text that is worth looking for beside another one."""

_Branch = list["str | _Group"]
"""Pieces of text and groups in order; "" separates texts."""


class _Group:
    def __init__(self, *, asserts: bool) -> None:
        self.asserts = asserts
        """A look-ahead or look-behind, which may forbid, or a group that takes other letters for
        its own: its text is not needed."""
        self.branches: list[_Branch] = [[]]


def literals(pattern: str) -> tuple[tuple[frozenset[str], ...], ...]:
    """What a match holds: of one of the alternatives, of each set of texts at least one.

    The two sets of the longest texts are given. Empty where no text is certain.
    """
    alternatives = [_certain(branch) for branch in _parsed(pattern).branches]
    return tuple(alternatives) if all(alternatives) else ()


class PatternIndex:
    """Which of many patterns a text may match: those of which it holds a text that they need."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._by_text: dict[str, list[int]] = {}
        """A text, and the places of the patterns that need it; "" for any text."""
        for place, pattern in enumerate(patterns):
            needed = {text for sets in literals(pattern) for text in sets[0]}
            for text in needed or {""}:
                self._by_text.setdefault(text, []).append(place)

    def possible(self, text: str) -> list[int]:
        """Their places, in order."""
        return sorted({at for one, places in self._by_text.items() if one in text for at in places})


def further(pattern: str) -> frozenset[str]:
    """Texts of which each match holds one, beside those of `literals`; empty for none."""
    branches = _parsed(pattern).branches
    if len(branches) > 1:
        return frozenset()
    known = _certain(branches[0])
    sets = [*_choices(branches[0]), *(_second(group) for group in _groups(branches[0]))]
    left = (texts for texts in sets if texts not in known and _worth(texts)[0] >= _LONG)
    return max(left, key=_worth, default=frozenset())


@lru_cache(1)
def _parsed(pattern: str) -> _Group:
    stack = [_Group(asserts=False)]
    for token in _TOKEN.findall(pattern):
        branch = stack[-1].branches[-1]
        if token.startswith("("):
            plain = token in ("(", "(?:") or token.startswith("(?P<")
            stack.append(_Group(asserts=not plain))
        elif token == ")":
            closed = stack.pop()
            stack[-1].branches[-1].append(closed)
        elif token == "|":
            stack[-1].branches.append([])
        elif token.startswith(_MANY) and branch:
            # What stood before may be left out, and what follows does not join it.
            branch[-1] = ""
        elif token in ANY_TEXT or token[0] == "[" or (token[0] == "\\" and token[1] in _CLASSES):
            branch.append("")
        else:
            branch.append(token[-1])
    return stack[0]


def _certain(branch: _Branch) -> tuple[frozenset[str], ...]:
    """The sets of texts of one alternative, the best first."""
    # In the pattern's order where two are worth as much: a set has another one in each process.
    different = dict.fromkeys(filter(None, _choices(branch)))
    best = sorted(different, key=_worth, reverse=True)
    return tuple(texts for texts in best[:2] if texts is best[0] or _worth(texts)[0] >= _LONG)


def _needed(group: _Group) -> frozenset[str]:
    found: set[str] = set()
    for branch in group.branches:
        best = max(_choices(branch), key=_worth, default=frozenset())
        if not best:
            return frozenset()
        found |= best
    return frozenset(found)


def _groups(branch: _Branch) -> list[_Group]:
    return [piece for piece in branch if isinstance(piece, _Group) and not piece.asserts]


def _second(group: _Group) -> frozenset[str]:
    """As `_needed`, but of each branch the second best set, where it has one."""
    found: set[str] = set()
    for branch in group.branches:
        best = sorted(filter(None, _choices(branch)), key=_worth)[-2:]
        if not best:
            return frozenset()
        found |= best[0]
    return frozenset(found)


def _choices(branch: _Branch) -> list[frozenset[str]]:
    runs, run = [], ""
    for piece in [*branch, ""]:
        if isinstance(piece, str) and piece:
            run += piece
            continue
        if run:
            runs.append(frozenset((run,)))
        run = ""
        if isinstance(piece, _Group) and not piece.asserts:
            runs.append(_needed(piece))
    return runs


def _worth(texts: frozenset[str]) -> tuple[int, int]:
    return min((len(text) for text in texts), default=0), -len(texts)
