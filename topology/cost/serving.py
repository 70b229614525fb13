"""Serving a model: what fits, prefill, decode, and moving the KV cache. Seconds and bytes."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ..expectation.calls.kinds import CollectiveKind
from .gpu import GpuRates
from .layer import FUSED_KERNELS, GAP_S
from .layout import Layout, why_not
from .memory import kv_bytes
from .shape import ModelShape
from .wires import GroupWire, WireOf
from .work import work_of

USABLE = 0.9
"""Of a GPU's memory for weights and the KV cache, as vLLM's gpu_memory_utilization has it."""
MOST_REQUESTS = 256
"""At the same time, the usual limit of a server."""
KV_BYTES = 2.0


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """One model on `tp` GPUs."""

    tp: int
    weights_bytes: float
    """On one GPU."""
    kv_tokens: int
    """Tokens whose keys and values fit beside the weights; 0 where the weights do not."""
    prefill_s: float | None
    """One prompt alone, which is the time to the first token."""
    decode_one_s: float | None
    """A token of a single request."""
    requests: int
    """That fit at once with a prompt each, at most MOST_REQUESTS."""
    decode_s: float | None
    """A token of each of them."""
    wire_s: float
    """Of `decode_s`, all-reduces: at these sizes they are latency."""
    wire: str

    @property
    def tokens_per_s(self) -> float | None:
        """Decoded over all requests."""
        return None if not self.decode_s else self.requests / self.decode_s


def servings(
    shape: ModelShape,
    each: int,
    prompt: int,
    weight_bytes: float,
    rates: GpuRates,
    wire_of: WireOf,
) -> Iterator[Serving]:
    """Every width of tensor parallelism that divides the model, inside a node."""
    for tp in range(1, each + 1):
        if each % tp or why_not(shape, Layout(tp=tp), each):
            continue
        wire = wire_of(tp, 1)
        if wire is not None:
            yield _serving(shape, tp, prompt, weight_bytes, rates, wire)


def _serving(
    shape: ModelShape,
    tp: int,
    prompt: int,
    weight_bytes: float,
    rates: GpuRates,
    wire: GroupWire,
) -> Serving:
    weights = shape.parameters * weight_bytes / tp
    ways = 1 if shape.latent else min(tp, shape.kv_heads)
    each = kv_bytes(shape, KV_BYTES) / ways
    room = 0.0 if rates.memory_bytes is None else USABLE * rates.memory_bytes - weights
    tokens = max(0, int(room / each))
    requests = min(MOST_REQUESTS, tokens // prompt)
    timed = requests > 0 and bool(rates.flops) and bool(rates.bytes_per_s)
    reduces = 2 * shape.layers
    if not timed:
        return Serving(
            tp=tp, weights_bytes=weights, kv_tokens=tokens, prefill_s=None, decode_one_s=None,
            requests=requests, decode_s=None, wire_s=0.0, wire=wire.name,
        )  # fmt: skip
    size = 2.0 * shape.hidden
    prefill = work_of(shape, prompt).forward * prompt / tp / (rates.flops or 1.0)
    prefill += reduces * wire.seconds(CollectiveKind.ALL_REDUCE, size * prompt)
    one, many = (
        _decode(shape, tp, prompt, batch, weight_bytes, each, rates) for batch in (1, requests)
    )
    small, large = (
        reduces * wire.seconds(CollectiveKind.ALL_REDUCE, size * batch) for batch in (1, requests)
    )
    return Serving(
        tp=tp, weights_bytes=weights, kv_tokens=tokens, prefill_s=prefill,
        decode_one_s=one + small, requests=requests, decode_s=many + large, wire_s=large,
        wire=wire.name,
    )  # fmt: skip


def _decode(
    shape: ModelShape,
    tp: int,
    prompt: int,
    batch: int,
    weight_bytes: float,
    kv_each: float,
    rates: GpuRates,
) -> float:
    """One token of each request without all-reduces: reads all weights that are used, and all keys.

    Launches are taken to be in a CUDA graph: a gap between kernels is left.
    """
    read = touched(shape, batch) * weight_bytes / tp + batch * prompt * kv_each
    products = 2.0 * shape.multiplied * batch / tp / (rates.flops or 1.0)
    gaps = shape.layers * FUSED_KERNELS[0] * GAP_S
    return max(read / (rates.bytes_per_s or 1.0), products) + gaps


def touched(shape: ModelShape, batch: int) -> float:
    """Parameters that a batch of tokens reads: of the experts those that one of them is sent to."""
    beside = shape.parameters - shape.all_experts - shape.embedding
    if not shape.experts:
        return beside
    idle = (1 - shape.active_experts / shape.experts) ** batch
    return beside + shape.all_experts * (1 - idle)


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """Keys and values of one prompt, moved."""

    bytes: float
    over_network_s: float | None
    """To another node by the share of the NICs that these GPUs have; None without a NIC."""
    to_host_s: float | None
    """To the memory of the host, by each GPU's own link; None where its rate is not known."""


def moved(
    shape: ModelShape, prompt: int, tp: int, nics_gbs: float | None, host_gbs: float | None
) -> Moved:
    """One prompt's cache, of which each of `tp` GPUs has its heads. `nics_gbs`: of these GPUs."""
    size = kv_bytes(shape, KV_BYTES) * prompt
    ways = 1 if shape.latent else min(tp, shape.kv_heads)
    return Moved(
        bytes=size,
        over_network_s=None if not nics_gbs else size / (nics_gbs * 1e9),
        to_host_s=None if not host_gbs else size / ways / (host_gbs * 1e9),
    )
