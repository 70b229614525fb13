"""How NVML's answers are written: numbers that mean "unknown", refusals, field values."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ...model.part import Raw
from ...model.record import NOT_ASKED
from ..files.answers import under
from ..files.field_reader import Missing
from ..files.library_answers import LibraryDialect, Path, is_whole, wrong_shape
from ..files.tree import clean
from .words import RETURNS, word

UNKNOWN_32 = 0xFFFFFFFF
"""NVML's number for "unknown" in a 32-bit answer."""
FIELDS = "fields"
"""Key of NVML's field values, {name: {"value" | "ull": n}}."""
RECOVERY_FIELDS = "recovery_fields"
"""Key of the field values that are asked rarely."""
OUR_LIMIT = "OurLimit"
"""How the refusal of an answer begins that is larger than is read."""
NO_TEXT = ("", "N/A", "[N/A]")
_UNKNOWN = Missing("the driver says unknown")
_TEXT_LIMIT = 512
_REFUSING = frozenset(("needs_args", "error", "ret"))
"""Keys of an answer that may be a refusal."""
_REASONS = 512
"""Refusals kept in words: each second the same ones come."""


def _find(raw: dict[str, Raw], path: tuple[Any, ...]) -> Raw:
    answer = raw.get(path[0])
    if path[0] in (FIELDS, RECOVERY_FIELDS) and len(path) > 1:
        return _field_value(answer, path[1])
    why = refusal(answer)
    if why is not None:
        return Missing(why)
    for step in path[1:]:
        listed = isinstance(answer, list) and isinstance(step, int) and step < len(answer)
        if not listed and not (isinstance(answer, dict) and step in answer):
            return Missing(wrong_shape(answer))
        answer = answer[step]  # type: ignore[index]
    return Missing(NOT_ASKED) if answer is None else answer


def _field_value(table: Raw, name: str) -> Raw:
    answer = under(table, name)
    if isinstance(answer, dict):
        value = answer.get("value", answer.get("ull"))
        if value is not None:
            return value
    return Missing(refusal(answer) or wrong_shape(answer))


def _whole(value: Raw) -> int | Missing:
    if not is_whole(value) or not -(2**63) <= value < 2**64:
        return Missing(wrong_shape(value))
    return _UNKNOWN if value in (UNKNOWN_32, 2**64 - 1) else int(value)


def _fast_int(raw: dict[str, Raw], path: Path) -> int | None:
    value: Raw = None
    if isinstance(path, str):
        value = raw.get(path)
    elif len(path) == 2:
        name, step = path
        answer = raw.get(str(name))
        if type(answer) is dict:
            if name in (FIELDS, RECOVERY_FIELDS):
                field = answer.get(step)
                value = field.get("value") if type(field) is dict else None
            elif _REFUSING.isdisjoint(answer):
                value = answer.get(step)
        elif type(answer) is list and type(step) is int and step < len(answer):
            value = answer[step]
    usual = type(value) is int and 0 <= value < 2**64 - 1 and value != UNKNOWN_32
    return value if usual else None


def _text(value: Raw) -> str | Missing:
    if not isinstance(value, str):
        return Missing(wrong_shape(value))
    text = value.strip()
    if text in NO_TEXT:
        return Missing("the driver gives no text")
    return clean(text)[:_TEXT_LIMIT]


NVML = LibraryDialect(_find, _whole, _fast_int, _text, first_reason=False)


def refusal(answer: Raw) -> str | None:
    """Say why an answer holds no value; None when it holds one."""
    if answer is None:
        return NOT_ASKED
    if not isinstance(answer, dict):
        return None
    if "needs_args" in answer:
        return NOT_ASKED
    if "error" in answer:
        return reason(str(answer["error"]))
    if "ret" in answer:
        code = answer["ret"]
        return word(RETURNS, code) if is_whole(code) else wrong_shape(code)
    return None


@lru_cache(_REASONS)
def reason(error: str) -> str:
    """Shorten "NVMLError_NotSupported: Not Supported" to what a person needs."""
    kind, _, words = error.partition(":")
    if "FunctionNotFound" in kind or "LibraryMismatch" in kind:
        return "the installed driver does not know this function"
    if "AttributeError" in kind:
        return "the installed nvidia-ml-py does not know this function"
    if "NoPermission" in kind:
        return "no permission"
    if "UnicodeDecodeError" in kind:
        return "not understood: bytes that are no text"
    return clean(words.strip() or kind.strip() or "no reason given")[:200]
