"""Who can be guilty of a failure: possible causes, ranked by what a text says for and against."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import msgspec

from ...model.finding import Candidate
from ...model.page import Fix
from .codes import Code


class PossibleCause(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who can be guilty; one entry of operations.toml or of a row of symptoms."""

    cause: str
    decide: str
    fix: str
    codes: tuple[str, ...] = ()
    supports: tuple[str, ...] = msgspec.field(name="for", default=())
    against: tuple[str, ...] = ()


_NOT_LOADED = re.compile(
    r"\b([a-z][a-z0-9_-]+) is (?:not installed [\w ]{0,30}or )?not loaded(?=[.:]| and\b| on\b)"
)
"""A module that a cause calls not loaded, with no other possibility beside it."""


@cache
def matching(texts: tuple[str, ...]) -> re.Pattern[str]:
    """One pattern of several."""
    return re.compile("|".join(f"(?:{text})" for text in texts))


def ranked(
    causes: Sequence[PossibleCause], around: Sequence[str], code: Code | None = None
) -> tuple[Candidate, ...]:
    """The causes that the code and the text allow, the best supported first.

    `around`: lines of the text. Those that it contradicts come last; those that are the usual
    cause of another code are left out, unless the text speaks for them.
    """
    found: list[tuple[int, Candidate]] = []
    for cause in causes:
        supports = _said(cause.supports, around)
        against = _said((*cause.against, *_loaded(cause.cause)), around)
        by_code = code is not None and code.name in cause.codes
        if cause.codes and code is not None and not (by_code or supports):
            continue
        # What is the cause of certain codes or words is less likely where neither is seen.
        unseen = bool(cause.supports or cause.codes) and not (supports or by_code)
        weight = by_code + bool(supports) - unseen - 3 * bool(against)
        found.append(
            (
                weight,
                Candidate(
                    cause=cause.cause,
                    supported_by=supports,
                    contradicted_by=against,
                    needs=cause.decide,
                    fix=(Fix(text=cause.fix),),
                ),
            )
        )
    if causes and not found:
        return ranked(causes, around)  # a code that none of them names: any may be it
    found.sort(key=lambda item: -item[0])
    return tuple(candidate for _, candidate in found)


def _loaded(cause: str) -> tuple[str, ...]:
    """Lines of lsmod or /proc/modules that refute a cause which calls a module not loaded."""
    names = (name.replace("-", "_") for name in _NOT_LOADED.findall(cause))
    return tuple(rf"^\s*{name} +\d+ +\d+(?: |$)" for name in names)


def _said(patterns: tuple[str, ...], around: Sequence[str]) -> tuple[str, ...]:
    """The lines that one of these patterns matches, at most two."""
    if not patterns:
        return ()
    wanted = matching(patterns)
    return tuple(dict.fromkeys(text[:200] for text in around if wanted.search(text)))[:2]
