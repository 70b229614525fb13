"""Statements that were written down before they were compared: how many agreed at first.

174 of four public tables: 169 were within 3 % of what stood here, four have no fact here (A10G's
rates of products), and one, MI210's 45.3 TFLOP/s, is the rate of its matrix units, where it
stands now.
"""

from __future__ import annotations

import pytest

from gputop.topology.hardware.specs import own_skus
from gputop.topology.hardware.statements import SAME, figures_of, statements

FOUR = ("NVIDIA/TensorRT-LLM", "pytorch/pytorch", "pytorch/torchtitan", "mlcommons/inference")
WITHOUT = {"tflops.tf32", "tflops.fp16", "tflops.bf16", "tflops.int8"}
SAID = [
    (name, one) for name in own_skus() for one in statements(name) if one.source.startswith(FOUR)
]


def test_none_was_lost() -> None:
    assert len(SAID) == 174


@pytest.mark.parametrize(("name", "said"), SAID)
def test_a_statement_is_that_of_the_table(name: str, said: object) -> None:
    facts = dict(figures_of(name))
    key, value = getattr(said, "key", ""), getattr(said, "value", 0.0)
    if name == "A10G" and key in WITHOUT:
        assert key not in facts
    else:
        assert value == pytest.approx(facts[key], rel=SAME)
