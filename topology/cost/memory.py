"""Bytes of a training job on one GPU: states of parameters, activations; KV bytes of a token."""

from __future__ import annotations

import msgspec

from ..model.severity import Word
from .shape import ModelShape
from .work import Recompute


class States(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes for each parameter."""

    weights: float
    gradients: float
    optimizer: float
    """Both moments of Adam, and the FP32 copy of the weights where there is one."""
    name: str = ""

    @property
    def all(self) -> float:
        """The three together."""
        return self.weights + self.gradients + self.optimizer

    def on_one(self, parameters: float, zero: int = 0, ways: int = 1) -> float:
        """Bytes on one GPU, with `ways` data-parallel GPUs (ZeRO, figure 1)."""
        optimizer = self.optimizer / (ways if zero >= 1 else 1)
        gradients = self.gradients / (ways if zero >= 2 else 1)
        weights = self.weights / (ways if zero >= 3 else 1)
        return parameters * (weights + gradients + optimizer)


def passes_over_the_wire(zero: int) -> int:
    """How often all parameters cross the wire in a step (ZeRO, section 7).

    An all-reduce is two passes; ZeRO-3 gathers forward and backward, and scatters gradients.
    """
    return 3 if zero >= 3 else 2


MIXED = States(weights=2, gradients=2, optimizer=12, name="BF16 with FP32 copy and moments")
MIXED_FP32_GRADIENTS = States(
    weights=2, gradients=4, optimizer=12, name="BF16, gradients added up in FP32 (Megatron)"
)
PURE = States(weights=2, gradients=2, optimizer=4, name="all in BF16")
FP32 = States(weights=4, gradients=4, optimizer=8, name="all in FP32")
FP8 = States(weights=1, gradients=2, optimizer=8, name="FP8 weights, FP32 copy, BF16 moments")
FP4 = States(weights=0.5, gradients=2, optimizer=8, name="FP4 weights, FP32 copy, BF16 moments")
STATES = {
    "bf16": MIXED,
    "bf16-fp32-grads": MIXED_FP32_GRADIENTS,
    "bf16-pure": PURE,
    "fp32": FP32,
    "fp8": FP8,
    "fp4": FP4,
}


class KernelStyle(Word):
    """Who wrote the kernels between the products, which decides what is kept for backward."""

    FUSED = "fused"
    """Norms, rotation and activation in one kernel each: Megatron, Transformer Engine, compiled."""
    EAGER = "eager"
    """PyTorch operator by operator, with norms in FP32, as transformers has them."""


class KeptBytes(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one token and layer that are kept for the backward pass."""

    whole: float
    """On each GPU of a tensor-parallel group; sequence parallelism divides this too."""
    divided: float
    """What tensor parallelism divides."""
    scores: float = 0.0
    """The same, of the scores that FlashAttention does not keep; times the sequence already."""

    def on_one(self, tp: int, sp: bool, recompute: Recompute) -> float:
        """On one of `tp` GPUs, unless all is recomputed."""
        scores = 0.0 if recompute is Recompute.SELECTIVE else self.scores
        whole = self.whole / tp if sp else self.whole
        return whole + (self.divided + scores) / tp


def kept_by_gpt(shape: ModelShape, sequence: int) -> KeptBytes:
    """A layer of GPT with dropout: sbh(34 + 5as/h) (arXiv 2205.05198, table 2)."""
    return KeptBytes(
        whole=10 * shape.hidden,
        divided=24 * shape.hidden,
        scores=5 * shape.heads * sequence,
    )


def kept(shape: ModelShape, kernels: KernelStyle) -> KeptBytes:
    """A layer with FlashAttention and without dropout, counted by what each operator keeps.

    Fused: input and output of both norms, the operands and the result of attention, the two
    results before the activation and the one behind it. Eager, counted by the hooks of autograd
    for the model of transformers: an FP32 copy in both norms, and the activation's result.
    """
    h, inner = shape.hidden, _inner(shape)
    kv = 2 * shape.kv_heads * shape.head_dim
    if shape.latent:
        kv = shape.heads * (shape.head_dim + shape.rope_dim + shape.value_dim)
        kv += shape.kv_rank + shape.query_rank
    attention = 2 * (shape.query_width + kv + shape.value_width)
    eager = kernels is KernelStyle.EAGER
    norms = 16 * h if eager else 8 * h
    products = 3 if shape.gated else 2
    return KeptBytes(whole=norms, divided=attention + 2 * inner * (products + eager))


def _inner(shape: ModelShape) -> float:
    """Width inside the feed-forward that a token passes, on average over the layers."""
    if not shape.experts:
        return shape.feed_forward
    ways = (shape.active_experts + shape.shared_experts) * shape.expert_width
    return (shape.dense_layers * shape.feed_forward + shape.expert_layers * ways) / shape.layers


def input_bytes(shape: ModelShape) -> float:
    """The input of a layer, for each token: all that full recomputation keeps."""
    return 2.0 * shape.hidden


LOSS_BYTES = 12
"""For each token and word at the beginning of the backward pass: log-probabilities, their gradient
and that of the logits, all FP32; PyTorch's cross_entropy holds the three at once."""


def kv_bytes(shape: ModelShape, bytes_each: float = 2.0) -> float:
    """Bytes that a token leaves in the KV cache, over all layers; MLA keeps one squeezed row."""
    width = 2 * shape.kv_heads * shape.head_dim
    if shape.latent:
        width = shape.kv_rank + shape.rope_dim
    return bytes_each * shape.layers * width
