"""The models that are known by name, and what people call them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from ..toml import tomllib
from .shape import ModelShape

TABLE = Path(__file__).with_name("models.toml")
_TOKEN = re.compile(
    r"(?:fp|bf|int)[0-9]+"  # a precision
    r"|[0-9]+x[0-9]+b|a?[0-9]+(?:\.[0-9]+)?b(?![a-z])"  # a size: 8x7b, 70b, a22b
    r"|[0-9]+(?:\.[0-9]+)?|[a-z]+"
)
_NO_SHAPE = {
    "awq", "base", "bf16", "chat", "fp16", "fp8", "gguf", "gptq", "hf", "instruct", "int4", "int8",
    "it", "meta", "model",
}  # fmt: skip
"""What names say of the tuning or the precision of weights, whose shape stays the same."""


def _rows() -> list[dict[str, Any]]:
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))["model"]  # type: ignore[no-any-return]


@cache
def models() -> dict[str, ModelShape]:
    """All of them, by their names."""
    shapes = ({key: value for key, value in row.items() if key != "also"} for row in _rows())
    return {row["name"]: msgspec.convert(row, ModelShape) for row in shapes}


@cache
def _called() -> dict[str, str]:
    """Every name that a shape has, and the one that it has here."""
    return {name: row["name"] for row in _rows() for name in (row["name"], *row.get("also", ()))}


def _plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _tokens(name: str) -> Counter[str]:
    """Its words and numbers, "deepseek-ai/DeepSeek-V3" without its owner."""
    found: Iterable[str] = _TOKEN.findall(name.casefold().rpartition("/")[2])
    return Counter(word for word in found if word not in _NO_SHAPE)


def models_like(name: str) -> tuple[ModelShape, ...]:
    """Those that a name may mean: one in any spelling, else all that have all of its words.

    "Mixtral-8x7B-Instruct-v0.1" is one, "70b" two; "Llama 4" is none.
    """
    every = models()
    plain = [of for known, of in _called().items() if _plain(known) == _plain(name)]
    if plain:
        return (every[plain[0]],)
    wanted = _tokens(name)
    if not any(len(word) > 1 for word in wanted):
        return ()
    whole = {of for known, of in _called().items() if _tokens(known) == wanted}
    part = {of for known, of in _called().items() if not wanted - _tokens(known)}
    return tuple(shape for known, shape in every.items() if known in (whole or part))


def model_named(name: str) -> ModelShape | None:
    """The one model that a name can mean; None where it means none or several."""
    found = models_like(name)
    return found[0] if len(found) == 1 else None


def is_spelled(name: str, shape: ModelShape) -> bool:
    """Whether a name is that of the shape and of no other model, in any spelling."""
    return _plain(name) == _plain(shape.name)
