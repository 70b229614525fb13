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
    """Serving on `tp` GPUs of one node; seconds, bytes of one GPU. Null where it does not fit."""

    tp: int
    weights_bytes: float
    kv_tokens: int
    """Whose keys and values fit beside the weights; 0 where the weights do not."""
    prefill_s: float | None
    """One prompt alone: the time to the first token."""
    decode_one_s: float | None
    """A token of one request alone."""
    requests: int
    """With a prompt each, at the same time; at most 256."""
    decode_s: float | None
    """A token of each of them."""
    wire_s: float
    """Of that, all-reduces: at these sizes they are latency."""
    wire: str
    tokens_per_s: float | None
    """Decoded, of all requests."""
    flop_per_byte: float | None
    """Of a token of each: products for each byte that is read."""
    tflops: float | None
    """Of these products, what a GPU reaches."""
    kv_bytes: float
    """Of one prompt, over all its GPUs."""
    kv_to_node_s: float | None
    """To another node, by the share of the NICs that these GPUs have."""
    kv_to_host_s: float | None
    """To the memory of the host, by each GPU's own link."""


def servings(
    shape: ModelShape,
    each: int,
    prompt: int,
    weight_bytes: float,
    rates: GpuRates,
    wire_of: WireOf,
    nics_bytes_per_s: float | None = None,
) -> Iterator[Serving]:
    """Every width of tensor parallelism that divides the model, inside a node.

    `nics_bytes_per_s`: what all NICs of the node carry to another one.
    """
    for tp in range(1, each + 1):
        if each % tp or why_not(shape, Layout(tp=tp), each):
            continue
        wire = wire_of(tp, 1)
        if wire is not None:
            mine = None if nics_bytes_per_s is None else nics_bytes_per_s * tp / each
            yield _serving(shape, tp, prompt, weight_bytes, rates, wire, mine)


def _serving(
    shape: ModelShape,
    tp: int,
    prompt: int,
    weight_bytes: float,
    rates: GpuRates,
    wire: GroupWire,
    nics: float | None,
) -> Serving:
    weights = shape.parameters * weight_bytes / tp
    ways = 1 if shape.latent else min(tp, shape.kv_heads)
    each = kv_bytes(shape, KV_BYTES) / ways
    room = 0.0 if rates.memory_bytes is None else USABLE * rates.memory_bytes - weights
    tokens = max(0, int(room / each))
    requests = min(MOST_REQUESTS, tokens // prompt)
    timed = requests > 0 and bool(rates.flops) and bool(rates.bytes_per_s)
    cache = kv_bytes(shape, KV_BYTES) * prompt
    found = Serving(
        tp=tp, weights_bytes=weights, kv_tokens=tokens, prefill_s=None, decode_one_s=None,
        requests=requests, decode_s=None, wire_s=0.0, wire=wire.name, tokens_per_s=None,
        flop_per_byte=None, tflops=None, kv_bytes=cache,
        kv_to_node_s=None if not nics else cache / nics,
        kv_to_host_s=None if not rates.host_bytes_per_s else cache / ways / rates.host_bytes_per_s,
    )  # fmt: skip
    if not timed:
        return found
    size, reduces = 2.0 * shape.hidden, 2 * shape.layers
    prefill = work_of(shape, prompt).forward * prompt / tp / (rates.flops or 1.0)
    prefill += reduces * wire.seconds(CollectiveKind.ALL_REDUCE, size * prompt)
    read, one = _decode(shape, tp, prompt, 1, weight_bytes, each, rates)
    read, many = _decode(shape, tp, prompt, requests, weight_bytes, each, rates)
    small, large = (
        reduces * wire.seconds(CollectiveKind.ALL_REDUCE, size * batch) for batch in (1, requests)
    )
    flop = 2.0 * shape.multiplied * requests / tp
    return msgspec.structs.replace(
        found, prefill_s=prefill, decode_one_s=one + small, decode_s=many + large, wire_s=large,
        tokens_per_s=requests / (many + large), flop_per_byte=flop / read,
        tflops=flop / (many + large) / 1e12,
    )  # fmt: skip


def _decode(
    shape: ModelShape,
    tp: int,
    prompt: int,
    batch: int,
    weight_bytes: float,
    kv_each: float,
    rates: GpuRates,
) -> tuple[float, float]:
    """Bytes that a GPU reads for one token of each request, and its seconds without all-reduces.

    All weights that are used and all keys are read. Launches are taken to be in a CUDA graph: a
    gap between kernels is left.
    """
    read = touched(shape, batch) * weight_bytes / tp + batch * prompt * kv_each
    products = 2.0 * shape.multiplied * batch / tp / (rates.flops or 1.0)
    gaps = shape.layers * FUSED_KERNELS[0] * GAP_S
    return read, max(read / (rates.bytes_per_s or 1.0), products) + gaps


def touched(shape: ModelShape, batch: int) -> float:
    """Parameters that a batch of tokens reads: of the experts those that one of them is sent to."""
    beside = shape.parameters - shape.all_experts - shape.embedding
    if not shape.experts:
        return beside
    idle = (1 - shape.active_experts / shape.experts) ** batch
    return beside + shape.all_experts * (1 - idle)
