"""Texts of public threads, and innocent ones that look alike (threads.toml)."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec


class Thread(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One post, and what it has to be answered with."""

    source: str
    row: str
    proof: tuple[int, ...]
    """Numbers of the lines that prove it."""
    text: str


_ALL = tomllib.loads((Path(__file__).parent / "threads.toml").read_text())
THREADS = tuple(msgspec.convert(found, Thread) for found in _ALL["thread"])
INNOCENT: dict[str, str] = {found["name"]: found["text"] for found in _ALL["innocent"]}
"""Texts that use the same words and say nothing bad."""
