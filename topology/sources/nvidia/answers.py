"""One device's raw answers, read field by field; whatever does not fit becomes a gap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from ...model.part import Raw
from ...model.record import NOT_ASKED, Gap
from .words import RETURNS, word

UNKNOWN_32 = 0xFFFFFFFF
"""NVML's number for "not told" in a 32-bit answer."""
_TEXT_LIMIT = 512


class NvmlAnswers:
    """A dict of answers. Each method names the record field it is for, and notes its gap."""

    def __init__(self, raw: Raw) -> None:
        self.raw: dict[str, Raw] = raw if isinstance(raw, dict) else {}
        self._gaps: dict[str, str] = {}

    def gaps(self) -> tuple[Gap, ...]:
        """All gaps noted so far, in order."""
        return tuple(Gap(field, why) for field, why in self._gaps.items())

    def miss(self, field: str, why: str) -> None:
        """Note why `field` is unknown; the first reason stands."""
        self._gaps.setdefault(field, why)

    def get(self, field: str, *names: str) -> Raw:
        """Return the first of the answers that holds a value, None and a gap when none does."""
        why = None
        for name in names:
            answer = self.raw.get(name)
            reason = refusal(answer)
            if reason is None:
                return answer
            if reason != NOT_ASKED or why is None:
                why = reason
        self.miss(field, why or NOT_ASKED)
        return None

    def number(self, field: str, *names: str) -> int | None:
        """Return a whole number that NVML does not use for "unknown"."""
        return self._whole(field, self.get(field, *names))

    def scaled(self, field: str, factor: float, *names: str) -> float | None:
        """Return a number times `factor`, for milliwatts and the like."""
        number = self.number(field, *names)
        return None if number is None else number * factor

    def text(self, field: str, *names: str) -> str | None:
        """Return a text that says something."""
        value = self.get(field, *names)
        if value is None:
            return None
        if isinstance(value, str) and value.strip() and value.strip() not in ("N/A", "[N/A]"):
            return clean(value.strip())[:_TEXT_LIMIT]
        self.miss(field, "the driver gives no text" if isinstance(value, str) else odd(value))
        return None

    def worded(self, field: str, words: dict[int, str], *names: str) -> str | None:
        """Return the word for an enumeration value."""
        number = self.number(field, *names)
        return None if number is None else word(words, number)

    def flag(self, field: str, *names: str) -> bool | None:
        """Return a truth value given as 0 or 1."""
        return self._truth(field, self.get(field, *names))

    def item(self, field: str, name: str, key: str | int) -> int | None:
        """Return a whole number inside a list or dict answer."""
        return self._whole(field, self._inside(field, name, key))

    def flag_item(self, field: str, name: str, key: str | int) -> bool | None:
        """Return a truth value inside a list or dict answer."""
        return self._truth(field, self._inside(field, name, key))

    def field_value(self, field: str, name: str, fields: Raw = None) -> int | None:
        """Return a whole number of NVML's field values, {name: {"value" | "ull": n}}."""
        table = self.raw.get("fields") if fields is None else fields
        answer = table.get(name) if isinstance(table, dict) else None
        if isinstance(answer, dict) and ("value" in answer or "ull" in answer):
            return self._whole(field, answer.get("value", answer.get("ull")))
        self.miss(field, refusal(answer) or odd(answer))
        return None

    def numbers(self, field: str, name: str) -> list[int] | None:
        """Return a list of non-negative whole numbers."""
        value = self.get(field, name)
        if value is None:
            return None
        if isinstance(value, list) and all(is_whole(n) and 0 <= n < 2**64 for n in value):
            return value
        self.miss(field, odd(value))
        return None

    def _inside(self, field: str, name: str, key: str | int) -> Raw:
        value = self.get(field, name)
        if value is None:
            return None
        if isinstance(value, dict) and key in value:
            return value[str(key)]
        if isinstance(value, list) and isinstance(key, int) and key < len(value):
            return value[key]
        self.miss(field, odd(value))
        return None

    def _whole(self, field: str, value: Raw) -> int | None:
        if value is None:
            self.miss(field, NOT_ASKED)
            return None
        if not is_whole(value) or not -(2**63) <= value < 2**64:
            self.miss(field, odd(value))
            return None
        if value in (UNKNOWN_32, 2**64 - 1):
            self.miss(field, "the driver says unknown")
            return None
        return int(value)

    def _truth(self, field: str, value: Raw) -> bool | None:
        if value is True or value is False:
            return value
        number = self._whole(field, value)
        if number is None:
            return None
        if number not in (0, 1):
            self.miss(field, f"unknown ({number})")
            return None
        return number == 1


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
        return word(RETURNS, code) if is_whole(code) else odd(code)
    return None


def reason(error: str) -> str:
    """Shorten "NVMLError_NotSupported: Not Supported" to what a person needs."""
    kind, _, words = error.partition(":")
    if "FunctionNotFound" in kind or "LibraryMismatch" in kind:
        return "the installed driver does not know this function"
    if "AttributeError" in kind:
        return "the installed nvidia-ml-py does not know this function"
    if "NoPermission" in kind:
        return "no permission"
    return clean(words.strip() or kind.strip() or "no reason given")[:200]


def clean(text: str) -> str:
    """Replace what UTF-8 cannot carry: JSON can hold half a surrogate pair."""
    return text.encode("utf-8", "replace").decode()


def odd(value: object) -> str:
    """Name an answer that has the wrong shape."""
    return f"not understood: {type(value).__name__}"


def is_whole(value: object) -> TypeGuard[int]:
    """Whether this is a whole number and not a truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def dicts(value: Raw) -> Sequence[dict[str, Raw]]:
    """The dicts of a list; anything else is left out."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
