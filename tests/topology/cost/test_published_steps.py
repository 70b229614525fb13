"""Steps that others trained, against what the model of time says of the same layout on such nodes.

Unlike the table beside this file, these were compared after the model was written.
"""

from __future__ import annotations

from statistics import median
from typing import NamedTuple

import pytest

from gputop.topology.cost.gpu import rates_of
from gputop.topology.cost.layout import Layout, StepPlan
from gputop.topology.cost.memory import MIXED_FP32_GRADIENTS, KernelStyle
from gputop.topology.cost.node_wires import NodeWires
from gputop.topology.cost.peak import memory_peak
from gputop.topology.cost.shape import Biases, ModelShape
from gputop.topology.cost.step import StepTime, step_time
from tests.support.snapshots import demo_node


class Trained(NamedTuple):
    """A GPT with sequences of 2048, on nodes of eight A100 80 GB that tensor parallelism joins."""

    shape: tuple[int, int, int]
    stages: int
    replicas: int
    micro: int
    accumulation: int
    interleave: int
    seconds: float


GPT3 = (12288, 96, 96)
STEPS = {
    # arXiv 2205.05198, tables 3 and 5, with sequence parallelism and selective recomputation
    "22B": Trained((6144, 48, 64), 1, 1, 4, 1, 1, 1.10),
    "175B": Trained(GPT3, 8, 1, 1, 64, 3, 13.75),
    "530B": Trained((20480, 105, 128), 35, 1, 1, 280, 3, 37.83),
    "1T": Trained((25600, 128, 160), 64, 1, 1, 512, 1, 71.49),
    # MegaScale, arXiv 2402.15627, table 2: Megatron-LM, then MegaScale
    "Megatron-LM, 256 GPUs": Trained(GPT3, 8, 4, 1, 192, 6, 40.0),
    "MegaScale, 256 GPUs": Trained(GPT3, 8, 4, 1, 192, 6, 32.0),
    "Megatron-LM, 12288 GPUs": Trained(GPT3, 8, 192, 1, 32, 6, 8.57),
    "MegaScale, 12288 GPUs": Trained(GPT3, 8, 192, 1, 32, 6, 6.34),
}
LEAST, MOST, MIDDLE = 0.74, 1.12, 0.90


def _predicted(one: Trained) -> tuple[float, float]:
    """Seconds of a step, bytes of the fullest GPU."""
    hidden, layers, heads = one.shape
    shape = ModelShape(
        name="GPT", layers=layers, hidden=hidden, heads=heads, kv_heads=heads,
        head_dim=hidden // heads, feed_forward=4 * hidden, vocabulary=51200,
        gated=False, tied=True, biases=Biases.ALL, positions=2048,
    )  # fmt: skip
    layout = Layout(tp=8, pp=one.stages, dp=one.replicas)
    plan = StepPlan(
        sequence=2048, micro=one.micro, accumulation=one.accumulation,
        interleave=one.interleave, states=MIXED_FP32_GRADIENTS,
    )  # fmt: skip
    node = demo_node("hgx-a100-8").decide()
    gpu = node.machine.gpus[0]
    rates = rates_of(gpu, node.devices.sku(gpu), "bf16", KernelStyle.FUSED)
    found = step_time(shape, layout, plan, rates, NodeWires(node, layout.gpus // 8).of)
    assert isinstance(found, StepTime)
    return found.step_s, memory_peak(shape, layout, plan).needed


@pytest.mark.parametrize("name", STEPS)
def test_published_steps_are_near_and_fit(name: str) -> None:
    seconds, needed = _predicted(STEPS[name])
    assert LEAST < seconds / STEPS[name].seconds < MOST
    assert needed < 80e9


def test_half_of_the_published_steps_took_a_tenth_longer() -> None:
    ratios = [_predicted(one)[0] / one.seconds for one in STEPS.values()]
    assert median(ratios) == pytest.approx(MIDDLE, abs=0.02)
