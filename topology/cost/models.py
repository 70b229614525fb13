"""The models that are known by name."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from ..toml import tomllib
from .shape import ModelShape

TABLE = Path(__file__).with_name("models.toml")


@cache
def models() -> dict[str, ModelShape]:
    """All of them, by their names."""
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))["model"]
    return {row["name"]: msgspec.convert(row, ModelShape) for row in rows}


def _plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def model_named(name: str) -> ModelShape | None:
    """The model of this name in any spelling, "llama-3-8b"; None where none is known."""
    wanted = _plain(name).replace("llama31", "llama3")
    return next((shape for known, shape in models().items() if _plain(known) == wanted), None)
