"""How a model is divided over GPUs, and how it is trained."""

from __future__ import annotations

import msgspec

from .memory import MIXED, KernelStyle, States
from .shape import ModelShape
from .work import Recompute


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Ways of tensor, pipeline, data, expert and context parallelism.

    Ranks count tensor first, then context, then data, then pipeline; experts are spread over the
    data-parallel ranks.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    cp: int = 1

    @property
    def gpus(self) -> int:
        """GPUs that it takes."""
        return self.tp * self.pp * self.dp * self.cp

    @property
    def text(self) -> str:
        """The ways of more than one, "tp=8 dp=2"; "one GPU"."""
        ways = {name: getattr(self, name) for name in self.__struct_fields__}
        return " ".join(f"{name}={ways[name]}" for name in ways if ways[name] > 1) or "one GPU"


class StepPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How a step is trained, apart from the layout."""

    sequence: int
    micro: int = 1
    """Sequences of a micro-batch."""
    accumulation: int = 1
    """Micro-batches of a step, on each data-parallel rank."""
    interleave: int = 1
    """Groups of layers that each stage of a pipeline has (Megatron's virtual stages)."""
    zero: int = 1
    recompute: Recompute = Recompute.NONE
    states: States = MIXED
    dtype: str = "bf16"
    style: KernelStyle = KernelStyle.FUSED
    sequence_parallel: bool = True
    """Whether norms are divided among tensor-parallel ranks, which costs no more bytes."""
    reduces: tuple[int, int] = (2, 2)
    """All-reduces of tensor parallelism in a layer, forward and backward: Megatron's are 2 and 2;
    DTensor has one for each product whose input it was told of by itself."""
    offload: bool = False
    """Whether states of the optimizer lie in the memory of the host."""
    host: float = 1.0
    """How many times as long as a usual host this one takes to launch kernels in eager PyTorch."""
    bucket_bytes: int = 25 << 20
    """Of data parallelism's all-reduces."""
    keeps_buckets: bool = False
    """Whether gradients stay allocated between steps (DDP's buckets)."""


def why_not(shape: ModelShape, layout: Layout, each: int) -> str:
    """Why a model cannot be divided like that, as a sentence; "" where it can."""
    if shape.heads % layout.tp:
        return f"{shape.heads} heads cannot be divided by tp={layout.tp}"
    if shape.kv_heads % layout.tp and layout.tp % shape.kv_heads:
        return f"{shape.kv_heads} heads of keys cannot be divided by tp={layout.tp}"
    width = shape.feed_forward if not shape.experts else shape.expert_width
    if width % layout.tp:
        return f"a feed-forward of {width} cannot be divided by tp={layout.tp}"
    if layout.pp > shape.layers:
        return f"{shape.layers} layers are fewer than pp={layout.pp} stages"
    if layout.tp > each:
        return f"tp={layout.tp} does not fit into a node of {each} GPUs"
    if layout.ep > 1 and not shape.experts:
        return f"{shape.name} has no experts to divide by ep={layout.ep}"
    if shape.experts % layout.ep:
        return f"{shape.experts} experts cannot be divided by ep={layout.ep}"
    if (layout.dp * layout.cp) % layout.ep:
        return f"ep={layout.ep} experts' ranks do not divide dp={layout.dp} times cp={layout.cp}"
    return ""
