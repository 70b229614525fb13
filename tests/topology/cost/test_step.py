"""The model of time and of memory: what has to hold whatever the rates are."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from gputop.topology.cost.gpu import GpuRates
from gputop.topology.cost.layout import Layout, StepPlan, why_not
from gputop.topology.cost.memory import KernelStyle
from gputop.topology.cost.models import model_named
from gputop.topology.cost.peak import memory_peak
from gputop.topology.cost.ranked import Free, layouts, ranked
from gputop.topology.cost.shape import ModelShape
from gputop.topology.cost.step import HELD, StepTime, parameters_of, step_time
from gputop.topology.cost.wires import GroupWire, alone, flat
from gputop.topology.cost.work import Recompute
from gputop.topology.expectation.calls.kinds import CollectiveKind
from gputop.topology.model.severity import FigureBasis

RATES = GpuRates(
    name="made up", dtype="bf16", sheet_flops=1e15, flops=0.7e15, sheet_bytes_per_s=3e12,
    bytes_per_s=2.5e12, memory_bytes=80 << 30, basis=FigureBasis.TYPICAL, source="",
)  # fmt: skip
PLAN = StepPlan(sequence=4096, accumulation=8)


def wires(gbs: float) -> Callable[[int, int], GroupWire]:
    def of(ranks: int, stride: int) -> GroupWire:
        if ranks < 2:
            return alone()
        return flat("made up", ranks, gbs * 1e9, 1e-5, FigureBasis.ESTIMATE, "")

    return of


def model(name: str) -> ModelShape:
    found = model_named(name)
    assert found is not None
    return found


def timed(
    layout: Layout, plan: StepPlan = PLAN, gbs: float = 300, name: str = "Llama 3 8B"
) -> StepTime:
    found = step_time(model(name), layout, plan, RATES, wires(gbs))
    assert isinstance(found, StepTime)
    return found


def test_a_step_is_the_sum_of_its_parts() -> None:
    for layout in (Layout(), Layout(dp=8), Layout(tp=8), Layout(pp=4, dp=2), Layout(tp=2, cp=4)):
        found = timed(layout)
        whole = found.compute_s + found.bubble_s + found.exposed_s
        assert found.step_s == pytest.approx(max(whole, found.host_s), rel=0.02)


@pytest.mark.parametrize("layout", [Layout(dp=8), Layout(tp=8), Layout(pp=8), Layout(tp=2, dp=4)])
def test_a_slower_wire_never_shortens_a_step(layout: Layout) -> None:
    steps = [timed(layout, gbs=gbs).step_s for gbs in (400, 100, 20, 4)]
    assert steps == sorted(steps)


def test_full_recomputation_takes_a_forward_pass_more_and_less_memory() -> None:
    plain, again = PLAN, msgspec.structs.replace(PLAN, recompute=Recompute.FULL)
    slower = timed(Layout(), again).products_s / timed(Layout(), plain).products_s
    assert 1.25 < slower < 1.34
    shape = model("Llama 3 8B")
    kept = [memory_peak(shape, Layout(), plan).activations for plan in (plain, again)]
    assert kept[1] < kept[0] / 8


def test_the_bubble_is_that_of_megatron_where_stages_are_equal() -> None:
    shape = msgspec.structs.replace(model("Llama 3 70B"), vocabulary=64)
    plan = msgspec.structs.replace(PLAN, accumulation=16)
    found = step_time(shape, Layout(pp=4), plan, RATES, wires(300))
    assert isinstance(found, StepTime)
    held = HELD * (found.products_s + found.attention_s)
    worked = found.products_s + found.attention_s + found.between_s - held
    assert found.bubble_s / worked == pytest.approx(3 / 16, rel=0.01)


def test_parameters_of_all_ranks_add_up() -> None:
    for name in ("Llama 3 8B", "Mixtral 8x7B", "DeepSeek V3"):
        shape = model(name)
        assert parameters_of(shape, Layout()) == pytest.approx(shape.parameters, rel=1e-3)
        eighth = parameters_of(shape, Layout(tp=8))
        assert 8 * eighth == pytest.approx(shape.parameters, rel=1e-3)


def test_zero_three_takes_least_memory() -> None:
    shape = model("Llama 3 8B")
    needed = [
        memory_peak(shape, Layout(dp=8), msgspec.structs.replace(PLAN, zero=zero)).needed
        for zero in (0, 1, 2, 3)
    ]
    assert needed == sorted(needed, reverse=True)


def test_small_layers_are_bound_by_launches_in_eager_tensor_parallelism() -> None:
    eager = msgspec.structs.replace(
        PLAN, style=KernelStyle.EAGER, sequence=128, accumulation=1, sequence_parallel=False
    )
    assert timed(Layout(tp=2), eager).launch_bound
    assert not timed(Layout(tp=2), msgspec.structs.replace(eager, sequence=8192)).launch_bound


@pytest.mark.parametrize(
    ("name", "layout", "said"),
    [
        ("Llama 3 8B", Layout(tp=3), "32 heads cannot be divided by tp=3"),
        ("Llama 3 8B", Layout(tp=16), "does not fit into a node of 8"),
        ("Llama 3 8B", Layout(pp=64), "fewer than pp=64"),
        ("Llama 3 8B", Layout(dp=2, ep=2), "no experts"),
        ("Mixtral 8x7B", Layout(dp=3, ep=3), "8 experts cannot be divided by ep=3"),
        ("Mixtral 8x7B", Layout(dp=1, ep=2), "do not divide dp=1"),
    ],
)
def test_what_cannot_be_divided_says_why(name: str, layout: Layout, said: str) -> None:
    assert said in why_not(model(name), layout, 8)


def test_every_layout_takes_all_gpus_and_stands_once() -> None:
    found = list(layouts(model("Mixtral 8x7B"), 32, 8, Free(sequence=4096)))
    assert len(found) == len(set(found)) > 20
    assert {layout.gpus for layout in found} == {32}


def test_what_fits_stands_before_what_does_not() -> None:
    found = ranked(
        model("Llama 3 70B"), 32, 8, Free(sequence=4096), StepPlan(sequence=4096), RATES, wires(300)
    )
    fits = [one.fits for one in found]
    assert fits == sorted(fits, key=bool, reverse=True)
    speeds = [one.tokens_per_s for one in found if one.fits]
    assert speeds == sorted(speeds, reverse=True)


def test_off_load_saves_memory_and_costs_the_link_to_the_host() -> None:
    plan = msgspec.structs.replace(PLAN, offload=True)
    shape = model("Llama 3 8B")
    said = step_time(shape, Layout(dp=8), plan, RATES, wires(300))
    assert said == "the rate of the link to the host is not known, which off-load is bound by"
    rates = msgspec.structs.replace(RATES, host_bytes_per_s=50e9, sharing=8)
    found = step_time(shape, Layout(dp=8), plan, rates, wires(300))
    assert isinstance(found, StepTime)
    host = {one.what: one.seconds for one in found.exposed if one.what.startswith("host")}
    eighth = shape.parameters / 8
    assert host["host: gradients and weights"] == pytest.approx(4 * eighth / 50e9, rel=0.01)
    assert host["host: AdamW"] == pytest.approx(0.25e-9 * shape.parameters, rel=0.01)
    saved = [memory_peak(shape, Layout(dp=8), one).states for one in (PLAN, plan)]
    assert saved[0] - saved[1] == pytest.approx(12 * eighth, rel=0.01)


def test_unknown_rates_are_said_and_not_guessed() -> None:
    unknown = msgspec.structs.replace(RATES, flops=None)
    said = step_time(model("GPT-2"), Layout(), PLAN, unknown, wires(300))
    assert said == "the rates of made up in bf16 are not known"
    said = step_time(model("GPT-2"), Layout(dp=2), PLAN, RATES, lambda ranks, stride: None)
    assert isinstance(said, str)


def test_a_curve_is_followed_between_its_sizes() -> None:
    wire = GroupWire(
        name="made up", ranks=2, latency_s=1e-5, basis=FigureBasis.TYPICAL,
        curves={CollectiveKind.ALL_REDUCE: ((1 << 20, 50e9), (1 << 30, 300e9))},
    )  # fmt: skip
    times = [wire.seconds(CollectiveKind.ALL_REDUCE, 1 << power) for power in range(10, 34)]
    assert times == sorted(times)
    assert wire.seconds(CollectiveKind.ALL_REDUCE, 1 << 20) == pytest.approx((1 << 20) / 50e9)
    assert wire.seconds(CollectiveKind.ALL_REDUCE, 1 << 30) == pytest.approx((1 << 30) / 300e9)
    gather = wire.seconds(CollectiveKind.ALL_GATHER, 1 << 30)
    assert gather == pytest.approx((1 << 29) / 300e9)


def zero_three(gbs: float, flops: float = 0.7e15) -> StepTime:
    plan = msgspec.structs.replace(PLAN, zero=3, accumulation=2)
    rates = msgspec.structs.replace(RATES, flops=flops)
    found = step_time(model("Llama 3 8B"), Layout(dp=8), plan, rates, wires(gbs))
    assert isinstance(found, StepTime)
    return found


def test_sharded_parameters_are_gathered_twice_and_scattered_once() -> None:
    shape = model("Llama 3 8B")
    (sent,) = zero_three(300).exposed
    passed = 3 * 2 * 2 * shape.parameters * 7 / 8
    assert sent.bytes_sent == pytest.approx(passed, rel=1e-3)
    # Ends are gathered once only: embedding and head stay whole from forward to backward.
    ends = 2 * 2 * 2 * shape.vocabulary * shape.hidden * 7 / 8
    assert sent.seconds == pytest.approx((passed - ends) / 300e9, rel=0.02)


def test_what_a_slow_wire_sends_is_exposed_but_for_the_passes() -> None:
    slow, fast = zero_three(5), zero_three(3000, flops=0.7e13)
    (part,) = slow.exposed
    passes = slow.products_s + slow.attention_s + slow.between_s
    assert part.exposed_s == pytest.approx(part.seconds - 0.95 * passes, rel=0.02)
    (part,) = fast.exposed
    shape = model("Llama 3 8B")
    ends = 2 * 2 * shape.vocabulary * shape.hidden * 7 / 8 / 3000e9
    layer = 2 * (shape.parameters - 2 * shape.embedding) / shape.layers * 7 / 8 / 3000e9
    latencies = 5 * 1e-5
    assert part.exposed_s == pytest.approx(2 * (2 * ends + 3 * layer + latencies), rel=0.03)


@pytest.mark.parametrize(("zero", "tp"), [(0, 1), (1, 1), (0, 2), (1, 2)])
def test_gradients_hide_but_for_the_last_bucket(zero: int, tp: int) -> None:
    shape = model("Llama 3 8B")
    plan = msgspec.structs.replace(PLAN, zero=zero, accumulation=1)
    rates = msgspec.structs.replace(RATES, flops=0.7e13)
    found = step_time(shape, Layout(dp=8 // tp, tp=tp), plan, rates, wires(300))
    assert isinstance(found, StepTime)
    (part,) = [one for one in found.exposed if one.what.startswith("data")]
    ways = (8 // tp - 1) / (8 // tp)
    whole = 2 * shape.parameters / tp
    assert part.bytes_sent == pytest.approx(2 * whole * ways, rel=1e-3)
    assert part.seconds > 2 * whole * ways / 300e9
    last = (1 if zero else 2) * 2 * shape.vocabulary * shape.hidden / tp * ways / 300e9
    assert part.exposed_s == pytest.approx(last, rel=0.02)
