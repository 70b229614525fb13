"""What was measured on a node stands before what healthy ones reach."""

from __future__ import annotations

import msgspec
import pytest

from gputop.answers.cost import CostRequest, answer
from gputop.topology.cost.gpu import measured_rates
from gputop.topology.cost.node_wires import NodeWires
from gputop.topology.expectation.calls.kinds import CollectiveKind
from gputop.topology.model import quantities
from gputop.topology.model.severity import FigureBasis
from gputop.topology.model.snapshot import Measurement, NodeSnapshot
from gputop.topology.node import Node
from tests.support.snapshots import demo_node
from tests.topology.cost.test_step import RATES


def gemm(gpu: str, value: float, dtype: str = "bf16") -> Measurement:
    return Measurement(
        probe="gemm", quantity=quantities.GEMM, src=gpu, value=value, variant=f"{dtype} {value}",
        device_kind="gpu", details={"dtype": dtype},
    )  # fmt: skip


def copy(gpu: str, value: float, variant: str = "kernel copy") -> Measurement:
    return Measurement(
        probe="memory", quantity=quantities.MEMORY_COPY, src=gpu, value=value, variant=variant,
        device_kind="gpu",
    )  # fmt: skip


def reduced(size: int, value: float) -> Measurement:
    return Measurement(
        probe="collectives",
        quantity=quantities.ALL_REDUCE,
        value=value,
        bytes_per_copy=size,
        device_kind="gpu",
    )


def with_figures(*figures: Measurement) -> NodeSnapshot:
    return msgspec.structs.replace(demo_node("hgx-h100-8").snapshot, measurements=figures)


def test_the_slowest_gpu_sets_the_rates() -> None:
    figures = [gemm("a", 700), gemm("a", 720), gemm("b", 500), gemm("b", 520), gemm("b", 9, "fp8")]
    found = measured_rates(RATES, [*figures, copy("a", 2900), copy("a", 99, "driver copy")])
    assert found.flops == pytest.approx(510e12)
    assert found.bytes_per_s == pytest.approx(2900e9)
    assert found.basis is FigureBasis.MEASURED


def test_without_figures_or_with_wrong_ones_rates_stay() -> None:
    assert measured_rates(RATES, []) is RATES
    wrong = msgspec.structs.replace(gemm("a", 900), device_kind="cpu")
    assert measured_rates(RATES, [wrong]) is RATES


def test_a_slow_gpu_lengthens_the_step_of_all() -> None:
    gpus = [gpu.address for gpu in demo_node("hgx-h100-8").snapshot.machine.gpus]
    steps = []
    for slowest in (720.0, 360.0):
        figures = [gemm(gpu, 720) for gpu in gpus[1:]] + [gemm(gpus[0], slowest)]
        request = CostRequest(
            given=with_figures(*figures), names=("Llama 3 8B",), layout="dp=8", accumulation=2,
            micro=1, zero=3,
        )  # fmt: skip
        steps.append(answer(request).layouts[0].step_s or 0.0)
    assert 1.6 < steps[1] / steps[0] < 2


def test_a_measured_curve_is_taken_and_nothing_else() -> None:
    node = Node(with_figures(reduced(1 << 20, 30), reduced(1 << 26, 200), reduced(1 << 30, 240)))
    wire = NodeWires(node.decide()).of(8, 1)
    assert wire is not None
    assert wire.basis is FigureBasis.MEASURED
    seconds = wire.seconds(CollectiveKind.ALL_REDUCE, 1 << 30)
    assert seconds == pytest.approx((1 << 30) * 2 * 7 / 8 / 240e9)
    two = NodeWires(node).of(2, 1)
    assert two is not None
    assert two.basis is not FigureBasis.MEASURED
