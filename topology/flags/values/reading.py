"""What one value comes to."""

from __future__ import annotations

import msgspec


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What a library makes of a value as it is written."""

    effective: str
    """The value that counts, as the library has it: "1", "PHB", "default"."""
    ignored: bool = False
    """Set, and nothing changes by it."""
    fatal: bool = False
    """The library refuses to start over it."""
    why: str = ""
    """What is unusual about it, a clause without a full stop; "" for a plain value."""


def skipped(why: str) -> Reading:
    """The reading of a value that has no effect, so that the default holds."""
    return Reading(effective="default", ignored=True, why=why)
