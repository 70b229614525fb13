"""How amdsmi's answers are written: words and numbers that mean "unknown", and refusals."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, TypeGuard

from ...model.part import Raw
from ...model.record import NOT_ASKED
from ..files import tree
from ..files.field_reader import Missing
from ..files.library_answers import LibraryDialect, Path, is_whole, wrong_shape

TEXT_LIMIT = 256
NOTHING = {"", "n/a", "none", "unknown", "not supported"}
_UNKNOWN_NUMBERS = {0xFFFF, 0xFFFFFFFF}
"""All ones of 16 and 32 bits; the binding turns most of them into "N/A"."""
_UNKNOWN = Missing("the driver does not say")


def _find(raw: dict[str, Raw], path: tuple[Any, ...]) -> Raw:
    answer = raw.get(path[0])
    why = refusal(answer)
    if why is not None:
        return Missing(why)
    for step in path[1:]:
        if not isinstance(answer, dict):
            return Missing(wrong_shape(answer))
        if step not in answer:
            return Missing("not in this version's answer")
        answer = answer[step]
    if answer is None or (isinstance(answer, str) and clean(answer).strip().lower() in NOTHING):
        return _UNKNOWN
    return answer


def is_count(value: Raw) -> TypeGuard[int]:
    """Whether this is a number that says something; for those that are read by the thousand."""
    return type(value) is int and 0 <= value < 2**64 - 1 and value not in _UNKNOWN_NUMBERS


def _whole(value: Raw) -> int | Missing:
    if not is_whole(value) or not 0 <= value < 2**64 - 1:
        return Missing(wrong_shape(value))
    return _UNKNOWN if value in _UNKNOWN_NUMBERS else value


def _fast_int(raw: dict[str, Raw], path: Path) -> int | None:
    if isinstance(path, str):
        value = raw.get(path)
    else:
        value = raw
        for depth, step in enumerate(path):
            if type(value) is not dict or (depth == 1 and "error" in value):
                return None
            value = value.get(step)
    return value if is_count(value) else None


def _text(value: Raw) -> str | Missing:
    if not isinstance(value, str):
        return Missing(wrong_shape(value))
    return clean(value).strip()[:TEXT_LIMIT]


AMDSMI = LibraryDialect(_find, _whole, _fast_int, _text, first_reason=True)


def refusal(answer: Raw) -> str | None:
    """Say why an answer holds no value; None when it holds one."""
    if answer is None:
        return NOT_ASKED
    if isinstance(answer, dict) and "error" in answer:
        return reason(answer["error"])
    return None


def reason(error: Raw) -> str:
    """Shorten "AmdSmiLibraryException: AMDSMI_STATUS_NO_PERM - ..." to what a person needs."""
    return _reason(str(error)[:400])


@lru_cache(512)
def _reason(error: str) -> str:
    # Each second the same refusals come.
    kind, _, words = clean(error).partition(":")
    if kind == "AttributeError":
        return "the installed amdsmi does not know this function"
    if "NO_PERM" in words:
        return "no permission"
    said = re.sub(r"^\s*AMD_?SMI_(STATUS_)?\w+\s+-\s+", "", words).strip()
    return (said or kind.strip() or "no reason given")[:200]


def clean(text: str) -> str:
    """Replace what UTF-8 cannot carry, and cut where a C string ends."""
    return tree.clean(text.partition("\x00")[0])
