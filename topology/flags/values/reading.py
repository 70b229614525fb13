"""The meaning of one value."""

from __future__ import annotations

import msgspec


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How a library reads a value."""

    effective: str
    """The value that takes effect: "1", "PHB", "default"."""
    ignored: bool = False
    """Whether the value has no effect."""
    fatal: bool = False
    """Whether the library refuses to start because of it."""
    why: str = ""
    """What is unusual about the value, a clause without a full stop; "" for a plain value."""


def skipped(why: str) -> Reading:
    """Make the reading of a value without effect, for which the default holds."""
    return Reading(effective="default", ignored=True, why=why)
