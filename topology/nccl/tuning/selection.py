"""NCCL_ALGO and NCCL_PROTO: which algorithms and protocols may be used (graph/tuning.cc:parseList).

Up to 2.23 the value is one list for all collectives and unknown words are skipped. Since 2.24 it
may hold a list per collective, and a word that is not understood ends the initialisation.
"""

import re
from dataclasses import dataclass

from ..settings import Settings
from .version import COLLECTIVES, PROTOCOLS, TuningVersion

WORDS = {
    "TREE": "Tree",
    "RING": "Ring",
    "COLLNET_DIRECT": "CollNetDirect",
    "COLLNET_CHAIN": "CollNetChain",
    "NVLS": "NVLS",
    "NVLS_TREE": "NVLSTree",
    "PAT": "PAT",
    "LL": "LL",
    "LL128": "LL128",
    "SIMPLE": "Simple",
}
"""How NCCL spells them; case does not matter."""

BY_RULE = 2
"""LL128 until somebody names it: allowed where the hardware is known to be safe."""

Remark = tuple[str, str, str]
"""(name, value, why) of something that has no effect as written."""


@dataclass(frozen=True)
class Selection:
    """The names that one variable allows: collective -> name -> 0, 1 or BY_RULE."""

    allowed: dict[str, dict[str, int]]
    remarks: tuple[Remark, ...] = ()
    failure: str | None = None
    """Why NCCL refuses to start, in one sentence."""


def algorithms(settings: Settings, version: TuningVersion) -> Selection:
    """The algorithms that NCCL_ALGO leaves."""
    start = dict.fromkeys(version.algorithms, 1)
    return read("NCCL_ALGO", settings.text("NCCL_ALGO"), start, version.grammar)


def protocols(settings: Settings, version: TuningVersion) -> Selection:
    """The protocols that NCCL_PROTO leaves."""
    start = {name: BY_RULE if name == "LL128" else 1 for name in PROTOCOLS}
    return read("NCCL_PROTO", settings.text("NCCL_PROTO"), start, version.grammar)


def read(
    variable: str,
    text: str | None,
    start: dict[str, int],
    grammar: str,
    library: str = "NCCL",
) -> Selection:
    """Read one value; `start` is what holds when the variable is not set."""
    allowed = {collective: dict(start) for collective in COLLECTIVES}
    if text is None:
        return Selection(allowed)
    if grammar == "list":
        return read_list(variable, text, allowed, library)
    return read_functions(variable, text, allowed, library)


def read_list(
    variable: str, text: str, allowed: dict[str, dict[str, int]], library: str
) -> Selection:
    """Up to 2.23: "ring,tree" or "^ring"; words that are not known are skipped in silence."""
    unknown: list[str] = []
    for table in allowed.values():
        unknown = enter(table, text)
    remarks = (
        (variable, text, f"{library} does not know {quoted(word)} and skips it without a word")
        for word in unknown
    )
    return Selection(allowed, tuple(remarks))


def read_functions(
    variable: str, text: str, allowed: dict[str, dict[str, int]], library: str
) -> Selection:
    """Since 2.24: "ring;allreduce:tree,ring;broadcast:^LL". The first list may lack a prefix."""
    remarks: list[Remark] = []
    for place, entry in entries(text):
        parts = [part for part in entry.split(":") if part]
        if not parts:
            return Selection(
                allowed, tuple(remarks), f"{variable}={quoted(text)} has an empty entry"
            )
        if len(parts) == 1 and place > 0:
            why = f"{variable}={quoted(text)}: only the first entry may lack a collective"
            return Selection(allowed, tuple(remarks), why)
        prefix, words = (parts[0], parts[1]) if len(parts) > 1 else (None, parts[0])
        if len(parts) > 2:
            late = quoted(":".join(parts[2:]))
            remarks.append((variable, text, f"what follows a second colon is not read: {late}"))
        meant = [name for name in COLLECTIVES if prefix is None or prefix.lower() == name.lower()]
        if not meant:
            why = f"{variable}={quoted(text)}: {quoted(prefix or '')} is not a collective"
            return Selection(allowed, tuple(remarks), why)
        for collective in meant:
            unknown = enter(allowed[collective], words)
            if unknown:
                why = f"{variable}={quoted(text)}: {library} does not know {quoted(unknown[0])}"
                return Selection(allowed, tuple(remarks), why)
    return Selection(allowed, tuple(remarks))


def entries(text: str) -> list[tuple[int, str]]:
    """The parts between semicolons with their places; empty ones are skipped, as strtok does."""
    return [(match.start(), match[0]) for match in re.finditer(r"[^;]+", text)]


def enter(table: dict[str, int], words: str) -> list[str]:
    """Put one list into the table of a collective; returns the words that are not known.

    A list with ^ sets everything else to 1, LL128 too: "^LL" forces LL128 on, whatever the
    hardware.
    """
    without = words.startswith("^")
    for name in table:
        table[name] = int(without)
    known = {WORDS[name].lower(): name for name in table}
    unknown: list[str] = []
    for word in (words[1:] if without else words).split(","):
        if not word:
            continue
        found = known.get(word.lower())
        if found is None:
            unknown.append(word)
        else:
            table[found] = int(not without)
    return unknown


def quoted(text: str) -> str:
    """Text from outside, shortened and without control characters, for a sentence."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in text[:80])
    return f'"{shown}"' + ("…" if len(text) > 80 else "")
