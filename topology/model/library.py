"""Which library is meant."""

from __future__ import annotations

import msgspec


class Library(msgspec.Struct, frozen=True, kw_only=True):
    """Whose rules were followed."""

    name: str
    """"nccl" or "rccl"."""
    version: str
