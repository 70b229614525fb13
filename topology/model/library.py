"""The collective library whose behaviour is predicted."""

from __future__ import annotations

import msgspec


class Library(msgspec.Struct, frozen=True, kw_only=True):
    """A library and its version."""

    name: str
    """"nccl" or "rccl"."""
    version: str
