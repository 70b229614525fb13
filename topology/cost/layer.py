"""Seconds of one layer on one GPU: products, attention, and the kernels between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from ..model.quantities import FIRST_USE
from ..model.snapshot import Measurement
from .gpu import GpuRates
from .layout import Layout, StepPlan
from .memory import KernelStyle
from .shape import ModelShape

GAP_S = 2e-6
"""Between two kernels on the GPU, and the tail of each."""
WRITTEN = 0.5
"""Share of the time of writing a product's result that hides behind no other tile."""
BACKWARD_ATTENTION = 2.5
"""FlashAttention works the scores out again: five products instead of two (arXiv 2205.14135)."""
EAGER_BYTES = ((124, 10), (260, 18))
"""Bytes that eager PyTorch moves between products for each token and layer, forward and backward,
for each width of the model and of its feed-forward; counted operator by operator by its dispatcher
for the Llama of transformers (norms in FP32)."""
FUSED_BYTES = ((24, 6), (40, 10))
"""The same with one kernel for each norm, rotation and activation."""
EAGER_SHARE = 0.8
"""Of the bandwidth of a copy that eager kernels reach: many read with strides, or repeat a row."""
EAGER_KERNELS, FUSED_KERNELS = (46, 82), (14, 26)
"""Kernels of a layer, forward and backward, products included."""
LAUNCH_S = 6e-6
"""Of the host for each kernel in eager PyTorch, autograd included."""
EAGER_LAYER = "eager layer"
"""What `gputop probe launch` calls a layer forward and backward."""


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of one pass."""

    products: float = 0.0
    attention: float = 0.0
    between: float = 0.0
    host: float = 0.0
    """Of the host, to launch it; beside the others, not on top."""

    @property
    def gpu(self) -> float:
        """Of the GPU."""
        return self.products + self.attention + self.between

    @property
    def busy(self) -> float:
        """Of the GPU's multiprocessors; what lies between products is bound by its memory."""
        return self.products + self.attention

    def times(self, factor: float) -> Spent:
        """So many of them."""
        return Spent(**{name: factor * getattr(self, name) for name in self.__struct_fields__})

    def plus(self, other: Spent) -> Spent:
        """One after the other."""
        return Spent(
            **{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__}
        )


def launches_here(figures: Iterable[Measurement]) -> float | None:
    """How many times as long as a usual host this one takes to launch, by `gputop probe launch`.

    A layer forward and backward in eager PyTorch; None where it was not measured.
    """
    usual = sum(EAGER_KERNELS) * LAUNCH_S
    took = [
        one.details.get("steady_us")
        for one in figures
        if one.credible and one.quantity == FIRST_USE and one.variant == EAGER_LAYER
    ]
    known = [float(value) for value in took if isinstance(value, int | float) and value > 0]
    return max(known) * 1e-6 / usual if known else None


class _Sure(msgspec.Struct, frozen=True):
    """Rates that are known, of one GPU."""

    flops: float
    bytes_per_s: float

    def product(self, tokens: float, wide: float, out: float) -> float:
        """A product of tokens x wide with wide x out."""
        writing = 2 * tokens * out / self.bytes_per_s
        return 2 * tokens * wide * out / self.flops + WRITTEN * writing + GAP_S

    def both(self, tokens: float, wide: float, out: float) -> tuple[float, float]:
        """Forward and backward: the gradients of the input and of the weights."""
        backward = self.product(tokens, out, wide) + self.product(wide, tokens, out)
        return self.product(tokens, wide, out), backward


def _products(shape: ModelShape, tp: int, style: KernelStyle) -> Iterator[tuple[float, float]]:
    """(width in, width out) of each product of a layer that has no experts, on one rank."""
    h = shape.hidden
    q = shape.query_width / tp
    if shape.latent:
        queries = shape.query_rank or h
        yield h, queries + shape.kv_rank + shape.rope_dim
        yield queries, q
        yield shape.kv_rank, shape.heads * (shape.head_dim + shape.value_dim) / tp
    else:
        kv = shape.kv_heads * shape.head_dim / min(tp, shape.kv_heads)
        yield from ((h, q + 2 * kv),) if style is KernelStyle.FUSED else ((h, q), (h, kv), (h, kv))
    yield shape.value_width / tp, h


def _feed_forward(
    h: int, width: float, gated: bool, style: KernelStyle
) -> Iterator[tuple[float, float]]:
    if not gated:
        yield h, width
    elif style is KernelStyle.FUSED:
        yield h, 2 * width
    else:
        yield from ((h, width), (h, width))
    yield width, h


def layer(
    shape: ModelShape, layout: Layout, plan: StepPlan, rates: GpuRates, *, experts: bool = False
) -> tuple[Spent, Spent] | None:
    """One layer forward and backward for one micro-batch; None where the rates are not known."""
    if not rates.flops or not rates.bytes_per_s:
        return None
    sure = _Sure(rates.flops, rates.bytes_per_s)
    tokens = plan.micro * plan.sequence / layout.cp
    products = [(tokens, *widths) for widths in _products(shape, layout.tp, plan.style)]
    inner: float = shape.feed_forward
    if experts:
        copies = shape.active_experts
        inner = shape.expert_width * (copies + shape.shared_experts)
        width = shape.expert_width / layout.tp
        each = _feed_forward(shape.hidden, width, shape.gated, plan.style)
        products += [(tokens * (copies + shape.shared_experts), *widths) for widths in each]
        products.append((tokens, shape.hidden, shape.experts))
    else:
        width = shape.feed_forward / layout.tp
        each = _feed_forward(shape.hidden, width, shape.gated, plan.style)
        products += [(tokens, *widths) for widths in each]
    seconds = [sure.both(*product) for product in products]
    scores = _scores(shape, layout, plan, tokens)
    shares = rates.attention
    peak = rates.sheet_flops or rates.flops
    passes = []
    eager = plan.style is KernelStyle.EAGER
    moved = sure.bytes_per_s * (EAGER_SHARE if eager else 1.0)
    for which in (0, 1):
        kernels = (EAGER_KERNELS if eager else FUSED_KERNELS)[which]
        passes.append(
            Spent(
                products=sum(pair[which] for pair in seconds),
                attention=scores * (BACKWARD_ATTENTION if which else 1) / (shares[which] * peak),
                between=_between(shape, layout, plan, inner, which) * tokens / moved
                + (kernels - len(products)) * GAP_S,
                host=kernels * LAUNCH_S if eager else 0.0,
            )
        )
    return passes[0], passes[1]


def _scores(shape: ModelShape, layout: Layout, plan: StepPlan, tokens: float) -> float:
    """FLOP of the scores of a layer forward, causal, on one rank."""
    widths = (shape.query_width + shape.value_width) / layout.tp
    return tokens * widths * plan.sequence  # 2 FLOP, half of the scores


def _between(shape: ModelShape, layout: Layout, plan: StepPlan, inner: float, which: int) -> float:
    """Bytes of a token between products, on one rank.

    Norms and residuals are a share of the hidden width's bytes; tensor parallelism divides them
    only with sequence parallelism, and always what lies inside attention and feed-forward.
    """
    of_hidden, of_inner = (EAGER_BYTES if plan.style is KernelStyle.EAGER else FUSED_BYTES)[which]
    inside = 0.35 * of_hidden * shape.query_width / layout.tp
    outside = 0.65 * of_hidden * shape.hidden
    if plan.sequence_parallel:
        outside /= layout.tp
    return inside + outside + of_inner * inner / layout.tp


def head(
    shape: ModelShape, layout: Layout, plan: StepPlan, rates: GpuRates
) -> tuple[Spent, Spent] | None:
    """The last matrix and the loss of one micro-batch; its words are divided by tp."""
    if not rates.flops or not rates.bytes_per_s:
        return None
    sure = _Sure(rates.flops, rates.bytes_per_s)
    tokens = plan.micro * plan.sequence / layout.cp
    words = shape.vocabulary / layout.tp
    forward, backward = sure.both(tokens, shape.hidden, words)
    bytes_of = (14, 26)  # to FP32, log of the softmax; its gradient, the target's, back to 16 bits
    between = [each * tokens * words / sure.bytes_per_s for each in bytes_of]
    return (
        Spent(products=forward, between=between[0], host=10 * LAUNCH_S),
        Spent(products=backward, between=between[1], host=20 * LAUNCH_S),
    )


def optimizer_seconds(parameters: float, plan: StepPlan, rates: GpuRates) -> float | None:
    """AdamW over so many parameters: reads all states, writes all but the gradients."""
    if not rates.bytes_per_s:
        return None
    states = plan.states
    moved = 2 * (states.weights + states.optimizer) + states.gradients
    return parameters * moved / rates.bytes_per_s
