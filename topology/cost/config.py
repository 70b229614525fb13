"""The shape of a model from its config.json, as Hugging Face writes it. The file is hostile."""

from __future__ import annotations

from typing import Any

import msgspec

from ..model.errors import GputopError
from .shape import Biases, ModelShape

MOST_BYTES = 1 << 20
MOST_PARAMETERS = 10**15
"""More than a hundred times what anybody has trained."""
MOST = 10**7
"""The largest count or width that is taken."""


class ConfigError(GputopError):
    """A config.json that no shape follows from."""


KNOWN: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {},
    "mixtral": {},
    "qwen2": {"biases": Biases.QKV},
    "qwen3": {"qk_norm": True},
    "qwen3_moe": {"qk_norm": True},
    "deepseek_v3": {},
    "gpt2": {"biases": Biases.ALL, "gated": False},
}
"""`model_type` -> what the file does not say."""
NAMES = {
    "layers": ("num_hidden_layers", "n_layer"),
    "hidden": ("hidden_size", "n_embd"),
    "heads": ("num_attention_heads", "n_head"),
    "vocabulary": ("vocab_size",),
}
"""What every file has to say, and under which names."""


def shape_of_config(data: bytes, name: str) -> ModelShape:
    """The shape that the content of a config.json describes. Raises ConfigError, a sentence."""
    if len(data) > MOST_BYTES:
        raise ConfigError(f"{name}: larger than {MOST_BYTES >> 20} MiB, which no config.json is")
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name}: no JSON: {str(error)[:80]}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{name}: a config.json is an object with names")
    inner = found.get("text_config")
    facts = inner if isinstance(inner, dict) and "hidden_size" not in found else found
    return _Reader(facts, name).shape()


class _Reader:
    """One file."""

    def __init__(self, facts: dict[str, Any], name: str) -> None:
        self.facts, self.name = facts, name

    def shape(self) -> ModelShape:
        kind = self.facts.get("model_type")
        if not isinstance(kind, str) or kind not in KNOWN:
            known = ", ".join(KNOWN)
            said = "no model_type" if kind is None else f"model_type {str(kind)[:40]!r}"
            raise ConfigError(f"{self.name}: {said}; known are {known}")
        more: dict[str, Any] = dict(KNOWN[kind])
        base: dict[str, Any] = {field: self._first(names) for field, names in NAMES.items()}
        heads, hidden = base["heads"], base["hidden"]
        if kind == "gpt2":
            more |= {"positions": self._number("n_positions", 1024), "tied": True}
        if self.facts.get("num_experts", self.facts.get("n_routed_experts")) or kind == "mixtral":
            more |= self._experts(kind)
        if kind == "deepseek_v3":
            more |= self._latent()
        if kind in ("qwen2", "llama") and self.facts.get("attention_bias") is True:
            more["biases"] = Biases.QKV
        head_dim = self._number("head_dim", 0) or hidden // heads
        if kind == "deepseek_v3":
            head_dim = self._number("qk_nope_head_dim")
        elif not self.facts.get("head_dim") and hidden % heads:
            raise ConfigError(f"{self.name}: {hidden} cannot be divided by {heads} heads")
        tied = more.pop("tied", self.facts.get("tie_word_embeddings") is True)
        shape = ModelShape(
            name=self.name,
            kv_heads=self._number("num_key_value_heads", heads),
            head_dim=head_dim,
            feed_forward=self._feed_forward(kind, hidden),
            context=self._number("max_position_embeddings", self._number("n_positions", 0)),
            tied=tied,
            source=self.name,
            **base,
            **more,
        )
        self._sound(shape)
        return shape

    def _feed_forward(self, kind: str, hidden: int) -> int:
        return self._number("n_inner", 4 * hidden) if kind == "gpt2" else self._number(
            "intermediate_size"
        )  # fmt: skip

    def _experts(self, kind: str) -> dict[str, int]:
        names = ("num_local_experts", "num_experts", "n_routed_experts")
        width = "intermediate_size" if kind == "mixtral" else "moe_intermediate_size"
        return {
            "experts": self._first(names),
            "active_experts": self._number("num_experts_per_tok"),
            "shared_experts": self._number("n_shared_experts", 0),
            "expert_width": self._number(width),
            "dense_layers": self._number("first_k_dense_replace", 0),
        }

    def _latent(self) -> dict[str, int]:
        return {
            "query_rank": self._number("q_lora_rank", 0),
            "kv_rank": self._number("kv_lora_rank"),
            "rope_dim": self._number("qk_rope_head_dim"),
            "value_dim": self._number("v_head_dim"),
        }

    def _first(self, names: tuple[str, ...]) -> int:
        name = next((name for name in names if self.facts.get(name) is not None), names[0])
        return self._number(name)

    def _number(self, name: str, default: int | None = None) -> int:
        """A count; raises where it is missing, no whole number, or absurd."""
        value = self.facts.get(name)
        if value is None:
            if default is None:
                raise ConfigError(f"{self.name}: {name} is missing")
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigError(f"{self.name}: {name} is no whole number")
        least = 1 if default is None else 0
        if not least <= value <= MOST:
            shown = f"{value:.3g}" if abs(value) < 10**300 else "beyond all bounds"
            raise ConfigError(f"{self.name}: {name} is {shown}, not from {least} to {MOST:,}")
        return value

    def _sound(self, shape: ModelShape) -> None:
        if shape.kv_heads < 1 or shape.heads % shape.kv_heads:
            raise ConfigError(
                f"{self.name}: {shape.heads} heads cannot share {shape.kv_heads} heads of keys"
            )
        if shape.active_experts > shape.experts:
            raise ConfigError(
                f"{self.name}: a token cannot see {shape.active_experts} of {shape.experts} experts"
            )
        if shape.dense_layers > shape.layers:
            raise ConfigError(f"{self.name}: more dense layers than layers")
        if shape.parameters > MOST_PARAMETERS:
            raise ConfigError(
                f"{self.name}: {shape.parameters:.3g} parameters, more than any model has"
            )
