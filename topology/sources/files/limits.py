"""Whether an answer of a vendor's library can be true: a broken driver answers with nonsense.

Limits are far outside of what is built: they tell nonsense from a value, not good from bad.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...model.part import Raw
from .library_answers import is_whole

FLAG = (0, 1)
BYTES = (0, 2**50)
DEGREES = (-60, 125)
"""What a sensor can say: silicon shuts itself down before that."""
THRESHOLD = (-100, 1000)
"""The degrees of a limit, which may be one that is never reached."""
MEMORY = (2**28, 2**42)
"""Bytes of a whole GPU's memory."""
MEGAHERTZ = (0, 10**5)
HIGHEST_MEGAHERTZ = (100, 10**4)
"""The clock that a board may reach."""
COUNT = (0, 2**48)
LANES = (0, 64)
CODE = (0, 1000)
"""Return codes and enumerations, the unknown ones of drivers to come among them."""
PAGES = 4096
"""The longest list of bad pages: a board retires some hundred."""
UNKNOWN = (0xFFFF, 0xFFFFFFFF, 2**64 - 1)
"""All ones: how libraries say that they do not know."""


def wrong(answers: Mapping[str, Raw], limits_of: Callable[[str], Any]) -> list[str]:
    """The keys of answers that are outside of their limits."""
    found = []
    for key, answer in answers.items():
        limits = limits_of(key)
        if limits is None:
            continue
        if type(answer) is int and type(limits) is tuple and limits[0] <= answer <= limits[1]:
            continue  # nearly all answers are like this one
        if not possible(answer, limits):
            found.append(key)
    return found


def doubtful(
    device: Mapping[str, Raw],
    limits_of: Callable[[str], Any],
    *,
    never_zero: Iterable[str],
    lists: Iterable[str],
    impossible: Raw,
    zero: Raw,
) -> dict[str, Raw]:
    """Refusals in place of a device's answers that cannot be true.

    `never_zero`: there is always more; `lists`: those of pages, which may be too long.
    """
    found = dict.fromkeys(wrong(device, limits_of), impossible)
    found |= {key: zero for key in never_zero if device.get(key) == 0}
    pages = {key: device.get(key) for key in lists}
    for key, listed in pages.items():
        if isinstance(listed, list) and len(listed) >= PAGES:
            found[key] = impossible
    return found


def possible(answer: Raw, limits: Any) -> bool:
    """Whether a number, or each part of an answer, is within its limits; other things are."""
    if isinstance(limits, dict):
        parts = dict(enumerate(answer)) if isinstance(answer, list) else answer
        if not isinstance(parts, dict):
            return True
        for part, within in limits.items():
            value = parts.get(part)
            usual = type(value) is int and type(within) is tuple
            if usual and within[0] <= value <= within[1]:
                continue
            if not possible(value, within):
                return False
        return True
    if limits is None or not is_whole(answer) or answer in UNKNOWN:
        return True
    return bool(limits[0] <= answer <= limits[1])
