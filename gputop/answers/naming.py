"""Names as people write them: "CX-7", "NVIDIA A100 80GB", "HGX H200", "RTX PRO 6000"."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

_SHORT = (
    (re.compile(r"\bcx[ -]?(\d)"), r"connectx-\1"),
    (re.compile(r"\bbf[ -]?(\d)\b"), r"bluefield-\1"),
    (re.compile(r"\bmax[ -]q\b"), "maxq"),
    (re.compile(r"\bworkstation\b"), "ws"),
    (re.compile(r"\b(?:pcie?[ -]?)?gen[ -]?(\d)(?:\.0)?\b"), r"pciegen\1"),
    (re.compile(r"\bpci(?:e|[ -]express)[ -]?(\d)(?:\.0)?\b"), r"pciegen\1"),
    (re.compile(r"(?<=pciegen\d)[ ,]*x ?(?:1|2|4|8|16)\b"), ""),
)
"""Short forms -> what tables write."""
_SILENT = frozenset(
    word
    for line in (
        "nvidia amd intel habana mellanox broadcom pensando",
        "tesla geforce quadro instinct volta turing ampere hopper blackwell",
        "gpu gpus card graphics accelerator tensor core edition generation oam",
        "nic dpu adapter ethernet infiniband",
        "hbm hbm2 hbm2e hbm3 hbm3e gddr6 gddr6x gddr7",
    )
    for word in line.split()
)
"""Words that tell no model apart: makers, families, what a thing is, kinds of memory."""
_MEMORY = re.compile(r"(\d{2,3}) ?g(?:i?b)?")
_FORM = re.compile(r"(sxm|nvl)(\d*)")
_MODEL = re.compile(r"(?=\D*\d)(?=.*[a-z]).{2,}|\d{4,}")
"""A word that can stand for a model: letters and digits, or a long number."""
_MOST_WORDS = 12
_MOST_ALIKE = 6
"""A name that stands for more tells too little."""


class _Parts(NamedTuple):
    words: frozenset[str]
    memory_gb: int | None = None


@lru_cache(4096)
def _parts(name: str) -> _Parts:
    """What a name says of a model: its words, and its memory where it says one."""
    text = name.lower()
    for short, whole in _SHORT:
        text = short.sub(whole, text)
    words, memory = [], None
    for word in re.split(r"[\s_\-/(),.]+", text):
        if size := _MEMORY.fullmatch(word):
            memory = int(size[1])
        elif word and word not in _SILENT:
            words.append(word)
    return _Parts(frozenset(words), memory)


def told_apart(name: str) -> str:
    """The name without words that tell nothing apart, in the words of the tables."""
    text = name.lower()
    for short, whole in _SHORT:
        text = short.sub(whole, text)
    return " ".join(word for word in text.split() if word not in _SILENT)


def alike(name: str, names: Iterable[str], memory_of: Callable[[str], float]) -> tuple[str, ...]:
    """The names that say all that this one says, and more; () where they are many.

    `memory_of`: GB of a model, 0 where that is not known.
    """
    asked = _parts(name)
    if not any(_MODEL.fullmatch(word) and not _FORM.fullmatch(word) for word in asked.words):
        return ()
    found = tuple(
        one
        for one in names
        if all(_has(_parts(one).words, word) for word in asked.words)
        and (asked.memory_gb is None or asked.memory_gb in _sizes(asked, one, memory_of(one)))
    )
    return found if len(found) <= _MOST_ALIKE else ()


def _sizes(asked: _Parts, name: str, memory_gb: float) -> Collection[int | None]:
    """GB that a model has, by its name or its data sheet; all where that is not known."""
    if not memory_gb:
        return (asked.memory_gb,)
    named = {int(word) for word in _parts(name).words if word.isdecimal()}
    return named | {_parts(name).memory_gb, round(memory_gb)}


def _has(words: frozenset[str], asked: str) -> bool:
    """Whether a name says a word; SXM alone is every SXM, and SXM5 is one that says no number."""
    form = _FORM.fullmatch(asked)
    if form is None or asked in words:
        return asked in words
    return any(
        (other := _FORM.fullmatch(word)) is not None
        and other[1] == form[1]
        and "" in (other[2], form[2])
        for word in words
    )


def grouped(words: Sequence[str], is_known: Callable[[str], bool]) -> tuple[str, ...]:
    """Words as a shell hands them on, joined to the names that they are: as many as there can be.

    All are known then; else they are left as they are.
    """
    if len(words) > _MOST_WORDS:
        return tuple(words)
    best: list[tuple[str, ...] | None] = [()]
    for end in range(1, len(words) + 1):
        ways = [
            (*before, name)
            for begin in range(end)
            if (before := best[begin]) is not None and is_known(name := " ".join(words[begin:end]))
        ]
        best.append(max(ways, key=len, default=None))
    return best[-1] or tuple(words)
