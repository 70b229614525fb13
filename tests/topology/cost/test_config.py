"""Reading config.json: known architectures give the shapes of our table; nothing else gets in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gputop.topology.cost.config import ConfigError, shape_of_config
from gputop.topology.cost.models import model_named, models
from tests.support.model_files import CONFIGS, LLAMA


@pytest.mark.parametrize("name", CONFIGS)
def test_a_file_gives_the_parameters_of_the_table(name: str) -> None:
    found = shape_of_config(json.dumps(CONFIGS[name]).encode(), "config.json")
    known = model_named(name)
    assert known is not None
    assert (found.parameters, found.active) == (known.parameters, known.active)
    assert found.multiplied == known.multiplied


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no JSON"),
        (b"[" * 100000, "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[1]", "an object with names"),
        (b"{}", "no model_type"),
        (b'{"model_type": 7}', "model_type '7'"),
        (b'{"model_type": "mamba"}', "known are llama"),
        (b" " * (1 << 20) + b" ", "larger than 1 MiB"),
    ],
)
def test_what_is_no_config_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace("[", "\\[")):
        shape_of_config(data, "config.json")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"hidden_size": "4096"}, "no whole number"),
        ({"hidden_size": True}, "no whole number"),
        ({"hidden_size": 1.5}, "no whole number"),
        ({"num_hidden_layers": 0}, "not from 1"),
        ({"num_hidden_layers": -1}, "not from 1"),
        ({"vocab_size": 10**400}, "no JSON|beyond all bounds|no whole number"),
        ({"hidden_size": 10**7, "num_attention_heads": 16, "num_hidden_layers": 10**4}, "e\\+18"),
        ({"num_attention_heads": 33}, "cannot be divided by 33 heads"),
        ({"num_key_value_heads": 5}, "cannot share 5 heads"),
        ({"num_experts": 4, "num_experts_per_tok": 8, "moe_intermediate_size": 8}, "cannot see 8"),
    ],
)
def test_absurd_numbers_are_refused_with_their_name(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        shape_of_config(json.dumps(LLAMA | changed).encode(), "config.json")
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 200


def test_names_are_found_in_any_spelling() -> None:
    assert model_named("llama-3-8b") is model_named("Llama 3 8B")
    assert model_named("Llama-3.1-405B") is model_named("llama3-405b")
    assert model_named("llama 9") is None
    assert all(shape.source.startswith("https://") for shape in models().values())
