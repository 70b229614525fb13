"""One GPU's raw amdsmi answers, read field by field; whatever does not fit becomes a gap."""

from __future__ import annotations

import re
from typing import TypeGuard

from ...model.part import Raw
from ...model.record import NOT_ASKED, Gap

Path = tuple[str, ...]
"""A function's key in the answers, and keys inside its answer."""
TEXT_LIMIT = 256
_NOTHING = {"", "n/a", "none", "unknown", "not supported"}
_UNKNOWN = {0xFFFF, 0xFFFFFFFF, 2**64 - 1}
"""All ones of 16, 32 and 64 bits: "not told"; the binding turns most of them into "N/A"."""
_NOT_TOLD = "the driver does not say"
_NOT_FOUND = "the installed amdsmi does not know this function"


class AmdsmiAnswers:
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

    def look(self, path: Path) -> tuple[Raw, str | None]:
        """Find what stands at a path: (value, None), or (None, why there is none)."""
        answer = self.raw.get(path[0])
        why = refusal(answer)
        if why is not None:
            return None, why
        for step in path[1:]:
            if not isinstance(answer, dict):
                return None, odd(answer)
            if step not in answer:
                return None, "not in this version's answer"
            answer = answer[step]
        if answer is None or (
            isinstance(answer, str) and clean(answer).strip().lower() in _NOTHING
        ):
            return None, _NOT_TOLD
        return answer, None

    def number(self, field: str, *paths: Path) -> int | None:
        """Return the first whole number, not below 0, that the paths lead to."""
        whys: list[str] = []
        for path in paths:
            value, why = self.look(path)
            if why is None and is_whole(value) and 0 <= value < 2**64 - 1:
                if value not in _UNKNOWN:
                    return value
                why = _NOT_TOLD
            whys.append(why or odd(value))
        self._miss_all(field, whys)
        return None

    def scaled(self, field: str, factor: float, *paths: Path) -> float | None:
        """Return a number times `factor`."""
        number = self.number(field, *paths)
        return None if number is None else number * factor

    def text(self, field: str, *paths: Path) -> str | None:
        """Return the first text that says something."""
        whys: list[str] = []
        for path in paths:
            value, why = self.look(path)
            if why is None and isinstance(value, str):
                return clean(value).strip()[:TEXT_LIMIT]
            whys.append(why or odd(value))
        self._miss_all(field, whys)
        return None

    def flag(self, field: str, path: Path) -> bool | None:
        """Return a truth value, given as such or as 0 or 1."""
        value, why = self.look(path)
        if why is None and (value is True or value is False or value in (0, 1)):
            return bool(value)
        self.miss(field, why or odd(value))
        return None

    def items(self, path: Path) -> list[Raw]:
        """Return a list, empty where there is none."""
        value, _ = self.look(path)
        return value if isinstance(value, list) else []

    def _miss_all(self, field: str, whys: list[str]) -> None:
        said = [why for why in whys if why != NOT_ASKED]
        self.miss(field, (said or whys or [NOT_ASKED])[0])


def refusal(answer: Raw) -> str | None:
    """Say why an answer holds no value; None when it holds one."""
    if answer is None:
        return NOT_ASKED
    if isinstance(answer, dict) and "error" in answer:
        return reason(answer["error"])
    return None


def reason(error: Raw) -> str:
    """Shorten "AmdSmiLibraryException: AMDSMI_STATUS_NO_PERM - ..." to what a person needs."""
    kind, _, words = clean(str(error)[:400]).partition(":")
    if kind == "AttributeError":
        return _NOT_FOUND
    if "NO_PERM" in words:
        return "no permission"
    said = re.sub(r"^\s*AMD_?SMI_(STATUS_)?\w+\s+-\s+", "", words).strip()
    return (said or kind.strip() or "no reason given")[:200]


def clean(text: str) -> str:
    """Replace what UTF-8 cannot carry, and cut where a C string ends."""
    text = text.partition("\x00")[0]
    return text.encode("utf-8", "replace").decode()


def odd(value: object) -> str:
    """Name an answer that has the wrong shape."""
    return f"not understood: {type(value).__name__}"


def is_whole(value: object) -> TypeGuard[int]:
    """Whether this is a whole number and not a truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def dicts(value: Raw) -> list[dict[str, Raw]]:
    """The dicts of a list; anything else is left out."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
