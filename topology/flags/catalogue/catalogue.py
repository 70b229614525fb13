"""The catalogue of variables, with look-ups by name, old name, typing error and word."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path

import msgspec

from ...hardware.terms import VendorTerms, library_terms
from ...model.versions import numbers
from ...toml import tomllib

FILE = Path(__file__).with_name("catalogue.toml")
NEAR = 0.78
"""Similarity (difflib's ratio) from which a name counts as a typing error of another name."""
BESIDE = 0.06
"""Similarity that a name may lack against the best match and still be named beside it."""
MISNAMED = {"PYTORCH_TUNABLE_OPS": "PYTORCH_TUNABLEOP_ENABLED"}
"""Name that well-known texts use although nothing reads it -> the name that is meant."""
KINDS = ("paths", "p2p", "shm", "net", "gdr", "pxn", "search", "tuning", "none")


SHELVES = ("transport", "network", "algorithm", "memory", "debug", "AMD", "PyTorch")
"""The groups of the list of variables, in its order."""
_SHELF_OF = {
    "transport": "transport",
    "topology": "transport",
    "visibility": "transport",
    "network": "network",
    "gdr": "network",
    "pxn": "network",
    "bootstrap": "network",
    "memory": "memory",
    "debug": "debug",
    "errors": "debug",
}
"""Subject -> group; the others are about algorithms, channels and launches."""
_CLAUSE = re.compile(r"(?<=[a-z0-9)}])[.;:](?= |$)")


class Default(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What holds for an unset variable from one version of a library on."""

    library: str
    since: str
    value: str


class OnRccl(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sentences for RCCL that replace those that name NVIDIA's hardware."""

    values: str | None = None
    changes: str | None = None
    set_when: str | None = None
    trap: str | None = None


class Flag(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One variable. The head of catalogue.toml says what the fields mean."""

    name: str
    group: str
    subject: str
    type: str
    kind: str
    values: str
    default: str
    changes: str
    source: str
    options: tuple[str, ...] = ()
    exact: bool = False
    """Whether the case of `options` counts."""
    fallback: str | None = None
    """What an unknown word of an enum means; None where it is ignored."""
    history: tuple[Default, ...] = ()
    since: str | None = None
    until: str | None = None
    aliases: tuple[str, ...] = ()
    read_by: tuple[str, ...] = ()
    short: str = ""
    """What it does in a few words, where the first clause of `changes` is too long."""
    set_when: str | None = None
    trap: str | None = None
    tries: tuple[str, ...] = ()
    on_rccl: OnRccl | None = None
    confirmed: bool = True

    @property
    def in_short(self) -> str:
        """What it does in a few words."""
        return self.short or _CLAUSE.split(self.changes)[0].removesuffix(".")

    @property
    def shelf(self) -> str:
        """The group in which it is listed, one of SHELVES."""
        if self.group in ("rocm", "rccl"):
            return "AMD"
        if self.group == "pytorch":
            return "PyTorch"
        return _SHELF_OF.get(self.subject, "algorithm")

    @property
    def libraries(self) -> tuple[str, ...]:
        """The libraries that read it: "nccl", "rccl", or the one that the group names."""
        return self.read_by or {"nccl": ("nccl", "rccl")}.get(self.group, (self.group,))

    @property
    def of_library(self) -> bool:
        """Whether NCCL or RCCL itself reads it, so that versions and predictions mean something."""
        return "nccl" in self.libraries or "rccl" in self.libraries

    def said(self, words: VendorTerms) -> Flag:
        """The entry with these words in its sentences, which are templates in the file."""
        return msgspec.structs.replace(
            self,
            short=words.fill(self.short),
            changes=words.fill(self.changes),
            set_when=self.set_when and words.fill(self.set_when),
            trap=self.trap and words.fill(self.trap),
        )

    def default_of(self, library: str, version: tuple[int, ...]) -> str:
        """Return what holds in this version of "nccl" or "rccl" for an unset variable."""
        found = self.default
        best: tuple[int, ...] | None = None
        for default in self.history:
            since = numbers(default.since)
            if default.library == library and since <= version and (best is None or since >= best):
                found, best = default.value, since
        return found


class Catalogue:
    """All flags, in the order of the file."""

    def __init__(self, flags: tuple[Flag, ...]) -> None:
        self.flags = flags
        self._by_name = {flag.name: flag for flag in flags}
        self._by_alias = {alias: flag for flag in flags for alias in flag.aliases}

    def flag(self, name: str) -> Flag | None:
        """Find the flag with this name or alias; None when there is none."""
        return self._by_name.get(name) or self._by_alias.get(name)

    def alias(self, name: str) -> bool:
        """Whether the name is an alias of a flag."""
        return name in self._by_alias and name not in self._by_name

    def names(self) -> tuple[str, ...]:
        """Every name that is read, aliases included."""
        return (*self._by_name, *self._by_alias)

    def closest(self, name: str, count: int = 3) -> tuple[str, ...]:
        """Names that a misspelt `name` may stand for, best first; () when none is similar.

        The comparison ignores case and the prefix that nearly all names share.
        """
        typed = name.upper()
        if typed in MISNAMED:
            return (MISNAMED[typed],)
        scored: list[tuple[float, str]] = []
        for known in self.names():
            bare = typed, known
            if typed.startswith("NCCL_") and known.startswith("NCCL_"):
                bare = typed[5:], known[5:]
            if _swapped(*bare):
                scored.append((1.0, known))
                continue
            matcher = SequenceMatcher(None, *bare, autojunk=False)
            if matcher.real_quick_ratio() >= NEAR and matcher.quick_ratio() >= NEAR:
                ratio = matcher.ratio()
                if ratio >= NEAR:
                    scored.append((ratio, known))
        scored.sort(key=lambda pair: (-pair[0], pair[1]))
        good = [known for ratio, known in scored if ratio >= scored[0][0] - BESIDE]
        return tuple(good[:count])

    def search(self, text: str) -> tuple[Flag, ...]:
        """Find flags whose entry has every word of `text`; names that have all words come first."""
        words = text.lower().split()
        found = [flag for flag in self.flags if all(word in _haystack(flag) for word in words)]
        return tuple(
            sorted(found, key=lambda flag: not all(word in flag.name.lower() for word in words))
        )


@cache
def _haystack(flag: Flag) -> str:
    flag = flag.said(library_terms("nccl"))
    parts = (flag.name, *flag.aliases, flag.group, flag.subject, flag.values, flag.changes)
    return " ".join((*parts, flag.set_when or "", flag.trap or "")).lower()


@cache
def catalogue() -> Catalogue:
    """The catalogue of the program, read at first use, which takes about 60 ms."""
    with FILE.open("rb") as file:
        return Catalogue(tuple(msgspec.convert(tomllib.load(file)["flag"], list[Flag])))


def _swapped(typed: str, known: str) -> bool:
    """Whether two neighbouring letters changed places: AGLO for ALGO."""
    if len(typed) != len(known):
        return False
    other = [place for place, (a, b) in enumerate(zip(typed, known, strict=True)) if a != b]
    return len(other) == 2 and other[1] == other[0] + 1 and sorted(typed) == sorted(known)
