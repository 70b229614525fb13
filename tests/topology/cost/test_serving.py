"""Serving: what fits, what a token reads, and what moves."""

from __future__ import annotations

import msgspec
import pytest

from gputop.topology.cost.memory import kv_bytes
from gputop.topology.cost.serving import MOST_REQUESTS, USABLE, Serving, servings, touched
from tests.topology.cost.test_step import RATES, model, wires


def served(name: str, weight_bytes: float = 2.0) -> dict[int, Serving]:
    found = servings(model(name), 8, 4096, weight_bytes, RATES, wires(300))
    return {one.tp: one for one in found}


@pytest.mark.parametrize("name", ["Llama 3 8B", "Llama 3 70B", "Mixtral 8x7B"])
def test_what_fits_fills_the_usable_memory_and_no_more(name: str) -> None:
    for tp, one in served(name).items():
        kept = kv_bytes(model(name)) / min(tp, model(name).kv_heads) * one.kv_tokens
        assert not one.kv_tokens or one.weights_bytes + kept <= USABLE * (RATES.memory_bytes or 0)
        assert (one.decode_s is None) == (one.requests == 0)
        assert one.requests <= MOST_REQUESTS


def test_a_token_takes_at_least_the_reading_of_all_weights() -> None:
    for tp, one in served("Llama 3 8B").items():
        assert one.decode_one_s is not None
        assert one.decode_s is not None
        least = touched(model("Llama 3 8B"), 1) * 2 / tp / (RATES.bytes_per_s or 1)
        assert least < one.decode_one_s < one.decode_s
        assert one.wire_s == 0 if tp == 1 else one.wire_s > 0


def test_weights_that_do_not_fit_leave_no_figure() -> None:
    one = served("Llama 3 70B")[1]
    assert (one.kv_tokens, one.requests, one.prefill_s, one.tokens_per_s) == (0, 0, None, None)


def test_a_batch_touches_ever_more_experts() -> None:
    shape = model("DeepSeek V3")
    read = [touched(shape, batch) for batch in (1, 8, 64, 1024)]
    assert read == sorted(read)
    assert read[0] == pytest.approx(shape.active - shape.embedding)
    assert read[-1] == pytest.approx(shape.parameters - shape.embedding, rel=1e-3)


def test_a_cache_is_moved_by_all_its_gpus_unless_each_has_all_of_it() -> None:
    rates = msgspec.structs.replace(RATES, host_bytes_per_s=50e9)

    def moves(name: str, nics: float | None = 400e9) -> dict[int, Serving]:
        found = servings(model(name), 8, 1000, 2.0, rates, wires(300), nics)
        return {one.tp: one for one in found}

    dense, latent = moves("Llama 3 70B"), moves("DeepSeek V3")
    assert dense[1].kv_to_node_s == pytest.approx(8 * (dense[8].kv_to_node_s or 0))
    assert dense[1].kv_to_host_s == pytest.approx(8 * (dense[8].kv_to_host_s or 0))
    assert latent[1].kv_to_host_s == latent[8].kv_to_host_s
    assert moves("Llama 3 70B", None)[8].kv_to_node_s is None


def test_products_of_a_token_lie_below_both_roofs() -> None:
    for one in served("Llama 3 8B").values():
        assert one.tflops is not None
        assert one.flop_per_byte is not None
        assert one.tflops * 1e12 <= (RATES.flops or 0)
        assert one.tflops * 1e12 <= one.flop_per_byte * (RATES.bytes_per_s or 0)
    alone = served("Llama 3 8B")[1]
    least = alone.requests / (2 + 4096 * kv_bytes(model("Llama 3 8B")) * alone.requests / 8e9)
    assert alone.flop_per_byte == pytest.approx(2 * least, rel=0.2)


def test_unknown_rates_give_no_time() -> None:
    unknown = msgspec.structs.replace(RATES, bytes_per_s=None)
    (one, *_) = servings(model("Llama 3 8B"), 8, 4096, 2.0, unknown, wires(300))
    assert one.kv_tokens > 0
    assert one.decode_s is None
