"""The most memory that a layout takes on one GPU, and what it is made of. Bytes."""

from __future__ import annotations

import msgspec

from .layout import Layout, StepPlan
from .memory import LOSS_BYTES, KernelStyle, input_bytes, kept
from .shape import ModelShape
from .step import experts_of, parameters_of
from .work import Recompute

FRAGMENTS = 0.05
"""Of what is allocated, lost between blocks."""
CONTEXT_BYTES = 1.5e9
"""Of CUDA's context, of NCCL's buffers and of the libraries' workspaces, outside the allocator."""
SPLIT_LOSS_BYTES = 18
"""For each token and word of one rank where the words are divided (loss_parallel of DTensor)."""


class MemoryPeak(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes on the fullest GPU when most is allocated."""

    states: float
    """Weights, gradients that are there at that time, optimizer."""
    activations: float
    loss: float
    gathered: float
    """Parameters that ZeRO-3 has gathered."""

    @property
    def allocated(self) -> float:
        """What the allocator of PyTorch has given out."""
        return self.states + self.activations + self.loss + self.gathered

    @property
    def needed(self) -> float:
        """What the GPU has to have."""
        return self.allocated * (1 + FRAGMENTS) + CONTEXT_BYTES


def memory_peak(shape: ModelShape, layout: Layout, plan: StepPlan) -> MemoryPeak:
    """The fuller one of the first stage, which holds most micro-batches, and the last one."""
    ends = (_stage(shape, layout, plan, first=first) for first in (True, False))
    return max(ends, key=lambda peak: peak.allocated)


def _stage(shape: ModelShape, layout: Layout, plan: StepPlan, *, first: bool) -> MemoryPeak:
    layers = -(-shape.layers // layout.pp)
    tokens = plan.micro * plan.sequence / layout.cp
    mine = parameters_of(shape, layout, first=first)
    ways = layout.dp * layout.cp
    flying = _flying(shape, layout, plan) if first else 1.0
    each = kept(shape, plan.style).on_one(layout.tp, plan.sequence_parallel, plan.recompute)
    if plan.recompute is Recompute.FULL:
        inputs = input_bytes(shape) / (layout.tp if plan.sequence_parallel else 1)
        activations = tokens * (flying * layers * inputs + each)
    else:
        activations = tokens * flying * layers * each
    per_word = LOSS_BYTES if layout.tp == 1 else SPLIT_LOSS_BYTES
    has_loss = layout.pp == 1 or not first
    loss = tokens * per_word * shape.vocabulary / layout.tp if has_loss else 0.0
    states = plan.states
    if plan.offload:
        states = msgspec.structs.replace(states, optimizer=0.0)
    experts = experts_of(shape, layout)
    whole = states.on_one(mine - experts, plan.zero, ways)
    whole += states.on_one(experts, plan.zero, ways // layout.ep)
    gradients = mine * states.gradients / (ways if plan.zero >= 2 else 1)
    gathered = 0.0
    if plan.zero >= 3 and ways > 1:
        ends = _ends(shape, layout, first)
        gathered = 2.0 * ends + 2 * 2.0 * (mine - ends) / layers
    if _without_gradients(plan):  # freed after a step, and not there before the backward pass
        at_loss = MemoryPeak(
            states=whole - gradients, activations=activations, loss=loss, gathered=gathered
        )
        at_end = MemoryPeak(
            states=whole, activations=activations / layers, loss=0.0, gathered=gathered
        )
        return max(at_loss, at_end, key=lambda peak: peak.allocated)
    return MemoryPeak(states=whole, activations=activations, loss=loss, gathered=gathered)


def _flying(shape: ModelShape, layout: Layout, plan: StepPlan) -> float:
    """Micro-batches of the layers of a full stage that the fuller one of the first two holds.

    With several groups of layers a stage it holds 1 + (stages - 1) / (stages * groups) times as
    many (arXiv 2205.05198, 4.2.3). Where layers are left over the first stage has one less, and the
    second one holds a micro-batch less (Llama 3, arXiv 2407.21783, 3.3.2).
    """
    fewer, odd = divmod(shape.layers, layout.pp)
    whole = float(layout.pp)
    if odd:
        whole = max(whole * fewer / (fewer + 1), whole - 1)
    if plan.interleave > 1:
        whole *= 1 + (layout.pp - 1) / (layout.pp * plan.interleave)
    return min(whole, plan.accumulation)


def _ends(shape: ModelShape, layout: Layout, first: bool) -> float:
    """Parameters of the embedding and of the head that a stage has."""
    if layout.pp == 1:
        return (shape.embedding + (0 if shape.tied else shape.head)) / layout.tp
    return (shape.embedding if first else shape.head) / layout.tp


def _without_gradients(plan: StepPlan) -> bool:
    """Whether gradients are freed after each step, and a step has one backward pass."""
    eager = plan.style is KernelStyle.EAGER
    return eager and plan.accumulation == 1 and not plan.keeps_buckets
