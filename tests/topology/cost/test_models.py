"""Names of models as people write them."""

from __future__ import annotations

import pytest

from gputop.topology.cost.models import model_named, models, models_like

ONE = {
    "Llama 3 8B": (
        "Llama3_8B", "llama 3 8 b", "llama3.1:8b", "meta-llama/Llama-3.1-8B-Instruct",
        "Meta-Llama-3-8B", "llama-3-8b-hf", "LLAMA3-8B-BF16",
    ),
    "Llama 3 70B": ("Llama 3 70B", "llama3-70b", "llama 3.3 70b"),
    "Llama 3 405B": ("Llama-3.1-405B", "Llama 3.1 405B Instruct", "405b"),
    "Llama 2 70B": ("llama-2-70b-chat-hf",),
    "Mixtral 8x7B": ("mixtral-8x7b", "8x7b", "mistralai/Mixtral-8x7B-Instruct-v0.1"),
    "Mistral 7B": ("Mistral", "mistral-7b-instruct-v0.2"),
    "DeepSeek V3": (
        "deepseek-v3", "deepseek-ai/DeepSeek-V3", "DeepSeek-V3-0324", "deepseek r1", "deepseek",
    ),
    "Qwen 2.5 7B": ("qwen2.5 7b", "Qwen2-7B-Instruct"),
    "Qwen 3 235B-A22B": ("qwen3-235b", "Qwen/Qwen3-235B-A22B"),
    "GPT-2": ("gpt2",),
    "GPT-2 XL": ("gpt2-xl", "GPT 2 XL"),
    "GPT-3 175B": ("gpt-3",),
}  # fmt: skip
SEVERAL = {
    "Mixtral": ["Mixtral 8x7B", "Mixtral 8x22B"],
    "llama-70b": ["Llama 2 70B", "Llama 3 70B"],
    "8b": ["Llama 3 8B", "Qwen 3 8B"],
    "qwen3": ["Qwen 3 8B", "Qwen 3 30B-A3B", "Qwen 3 235B-A22B"],
}
NONE = (
    "", "x", "7", "Llama 4", "llama-3.2-1b", "gpt-4", "gpt2 medium", "mistral-7b-v0.3",
    "DeepSeek-R1-Distill-Llama-70B", "../../etc/passwd", "instruct", "/", "v", "a" * 10_000,
)  # fmt: skip


@pytest.mark.parametrize(
    ("known", "name"), [(of, one) for of, every in ONE.items() for one in every]
)
def test_a_name_that_means_one_model_finds_it(known: str, name: str) -> None:
    assert model_named(name) == models()[known]


@pytest.mark.parametrize("name", models())
def test_each_name_of_the_table_finds_its_own_row(name: str) -> None:
    for spelled in (
        name,
        name.lower(),
        name.replace(" ", "-"),
        name.replace(" ", ""),
        name.upper(),
    ):
        assert model_named(spelled) == models()[name]


@pytest.mark.parametrize("name", SEVERAL)
def test_a_name_that_means_several_finds_all_of_them(name: str) -> None:
    assert [one.name for one in models_like(name)] == SEVERAL[name]
    assert model_named(name) is None


@pytest.mark.parametrize("name", NONE)
def test_a_name_of_another_shape_finds_none(name: str) -> None:
    assert models_like(name) == ()
