"""Every kind of communication of a small made-up model, worked out by hand on a wire of 100 GB/s.

8 layers of width 1024 with 16 heads of 64, four of keys, a feed-forward of 4096, 1000 words; two
sequences of 512 tokens in each of four micro-batches.
"""

from __future__ import annotations

import math

import msgspec
import pytest

from gputop.topology.cost.layer import optimizer_seconds
from gputop.topology.cost.layout import Layout, StepPlan
from gputop.topology.cost.peak import memory_peak
from gputop.topology.cost.shape import ModelShape
from gputop.topology.cost.step import Exposed, StepTime, parameters_of, step_time
from gputop.topology.cost.wires import GroupWire, alone, flat
from gputop.topology.cost.work import Recompute
from gputop.topology.model.severity import FigureBasis
from tests.topology.cost.test_step import RATES

RATE = 100e9
DENSE = ModelShape(
    name="small", layers=8, hidden=1024, heads=16, kv_heads=4, head_dim=64, feed_forward=4096,
    vocabulary=1000,
)  # fmt: skip
EXPERTS = msgspec.structs.replace(
    DENSE, experts=8, active_experts=2, expert_width=512, dense_layers=2
)
PLAN = StepPlan(sequence=512, micro=2, accumulation=4, zero=0)
TOKENS = 2 * 512
ARRAY = 2 * TOKENS * 1024
"""Bytes of one micro-batch between two layers."""


def wire(ranks: int, stride: int) -> GroupWire:
    if ranks < 2:
        return alone()
    return flat("by hand", ranks, RATE, 0.0, FigureBasis.ESTIMATE, "")


def timed(layout: Layout, plan: StepPlan = PLAN, shape: ModelShape = DENSE) -> StepTime:
    found = step_time(shape, layout, plan, RATES, wire)
    assert isinstance(found, StepTime)
    return found


def part(found: StepTime, start: str) -> Exposed:
    (one,) = [one for one in found.exposed if one.what.startswith(start)]
    return one


@pytest.mark.parametrize(("again", "each"), [(Recompute.NONE, 4), (Recompute.FULL, 6)])
def test_tensor_parallelism_reduces_four_times_a_layer_and_twice_at_the_ends(
    again: Recompute, each: int
) -> None:
    found = part(timed(Layout(tp=4), msgspec.structs.replace(PLAN, recompute=again)), "tensor")
    calls = 4 * (8 * each + 2)
    assert found.bytes_sent == pytest.approx(calls * ARRAY * 2 * 3 / 4)
    assert found.seconds == found.exposed_s == pytest.approx(found.bytes_sent / RATE)


def test_context_parallelism_gathers_keys_and_values_three_times_a_layer() -> None:
    found = part(timed(Layout(cp=2)), "context")
    keys = 2 * 2 * TOKENS * 4 * 64  # keys and values in 16 bits, of the whole sequence
    assert found.bytes_sent == pytest.approx(4 * 8 * 3 * keys / 2)
    assert found.exposed_s == pytest.approx(found.bytes_sent / RATE)


def test_experts_exchange_four_times_in_each_layer_that_has_them() -> None:
    found = part(timed(Layout(dp=4, ep=4), shape=EXPERTS), "experts")
    assert found.bytes_sent == pytest.approx(4 * 6 * 4 * (2 * ARRAY) * 3 / 4)
    assert found.exposed_s == pytest.approx(found.bytes_sent / RATE)
    assert not [one for one in timed(Layout(dp=4), shape=EXPERTS).exposed if "experts" in one.what]


@pytest.mark.parametrize("tp", [1, 2])
def test_a_pipeline_sends_each_micro_batch_forth_and_back(tp: int) -> None:
    found = part(timed(Layout(pp=2, tp=tp)), "pipeline")
    assert found.bytes_sent == pytest.approx(8 * ARRAY / tp)
    assert found.seconds == pytest.approx(8 * ARRAY / tp / RATE)
    assert found.exposed_s == pytest.approx(6 * ARRAY / tp / RATE)


@pytest.mark.parametrize("zero", [0, 1])
def test_gradients_are_sent_once_a_step(zero: int) -> None:
    found = part(timed(Layout(dp=2), msgspec.structs.replace(PLAN, zero=zero)), "data")
    sent = 2 * 2 * parameters_of(DENSE, Layout()) / 2
    assert found.bytes_sent == pytest.approx(sent)
    assert found.seconds == pytest.approx(sent / RATE, rel=1e-6)


def test_sharded_parameters_are_sent_for_each_micro_batch() -> None:
    plan = msgspec.structs.replace(PLAN, zero=3)
    found = part(timed(Layout(dp=2), plan), "data")
    inside = parameters_of(DENSE, Layout()) - 2 * 1000 * 1024
    passed = 4 * 2 * (3 * inside + 2 * 2 * 1000 * 1024) / 2
    assert found.seconds == pytest.approx(passed / RATE, rel=1e-3)
    in_two = part(timed(Layout(dp=2, pp=2), plan), "data")
    passed = 4 * 2 * (3 * inside / 2 + 2 * 1000 * 1024) / 2
    assert in_two.seconds == pytest.approx(passed / RATE, rel=1e-3)


def test_the_optimizer_updates_experts_by_the_ranks_that_share_them() -> None:
    plan = msgspec.structs.replace(PLAN, zero=1)
    experts = 6 * 8 * 3 * 1024 * 512
    rest = parameters_of(EXPERTS, Layout()) - experts
    for ep, copies in ((1, 8), (4, 2), (8, 1)):
        found = timed(Layout(dp=8, ep=ep), plan, EXPERTS).optimizer_s
        updated = rest / 8 + experts / ep / copies
        assert found == pytest.approx(optimizer_seconds(updated, plan, RATES), rel=1e-6)


def test_layers_with_experts_compute_what_a_token_sees() -> None:
    """Two of eight experts of half a thousand are a fourth of a feed-forward of 4096."""
    dense, experts = timed(Layout()).products_s, timed(Layout(), shape=EXPERTS).products_s
    none = msgspec.structs.replace(EXPERTS, dense_layers=8)
    assert timed(Layout(), shape=none).products_s == pytest.approx(dense)
    assert 0.4 < experts / dense < 0.9


def test_the_bubble_leaves_out_the_head() -> None:
    words = msgspec.structs.replace(DENSE, vocabulary=100_000)
    few, many = timed(Layout(pp=2)), timed(Layout(pp=2), shape=words)
    assert many.bubble_s == pytest.approx(few.bubble_s, rel=1e-6)
    assert many.products_s > 1.5 * few.products_s
    halved = timed(Layout(pp=2), msgspec.structs.replace(PLAN, interleave=2))
    assert halved.bubble_s == pytest.approx(few.bubble_s / 2)


def test_the_range_follows_the_band_of_the_wire() -> None:
    def ranged(ranks: int, stride: int) -> GroupWire:
        return msgspec.structs.replace(wire(ranks, stride), least=0.5, most=2.0)

    found = step_time(DENSE, Layout(tp=4), PLAN, RATES, ranged)
    assert isinstance(found, StepTime)
    rest = found.step_s - found.exposed_s
    # The host of this step takes little, and it waits for nothing.
    assert found.least_s == pytest.approx(0.9 * rest + found.exposed_s / 2, rel=1e-3)
    assert found.most_s == pytest.approx(1.1 * rest + found.exposed_s * 2, rel=1e-3)
    assert math.isfinite(found.most_s)


@pytest.mark.parametrize(("groups", "held"), [(1, 16.0), (2, 16 + 7.5), (8, 16 + 1.875)])
def test_a_first_stage_of_several_groups_holds_more(groups: int, held: float) -> None:
    """L (1 + (p - 1) / (p m)) layers of one micro-batch (arXiv 2205.05198, 4.2.3), p = 16."""
    shape = msgspec.structs.replace(DENSE, layers=128)
    plan = msgspec.structs.replace(PLAN, accumulation=64, interleave=groups)
    one = memory_peak(shape, Layout(pp=16), msgspec.structs.replace(plan, accumulation=1))
    found = memory_peak(shape, Layout(pp=16), plan)
    assert found.activations == pytest.approx(held * one.activations)


def test_layers_that_are_left_over_spare_the_first_stage_one() -> None:
    """126 over 16: 7 layers of 16 micro-batches in the first stage, 8 of 15 in the second."""
    shape = msgspec.structs.replace(DENSE, layers=126)
    plan = msgspec.structs.replace(PLAN, accumulation=64)
    one = memory_peak(shape, Layout(pp=16), msgspec.structs.replace(plan, accumulation=1))
    assert memory_peak(shape, Layout(pp=16), plan).activations == pytest.approx(
        15 * one.activations
    )
