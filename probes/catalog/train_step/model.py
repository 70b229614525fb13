"""A stack of transformer layers as in Llama 3 8B, and what one of its steps computes.

Input and output are hidden states; there is no embedding and no vocabulary head. The layers are
plain eager PyTorch. The input needs a gradient too, as above an embedding, so that every product
of the backward pass is computed.
"""

import contextlib
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Optional

from ...protocol.sizing import MIB
from ...protocol.spec import level_of

CAUSAL = 0.5
"""Part of the attention matrix that a causal mask leaves."""
_KERNELS = {0: "plain", 1: "flash", 2: "memory-efficient", 3: "cuDNN"}
"""torch.nn.attention.SDPBackend."""
_LIBRARY_BYTES = 2048 * MIB
"""Memory for NCCL's buffers, workspaces of the GEMM library, and kernels."""


@dataclass(frozen=True)
class Stack:
    """Sizes of the layers and of one step's batch."""

    layers: int
    sequence: int
    batch: int = 1
    hidden: int = 4096
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    ffn: int = 14336

    @property
    def parameters(self) -> int:
        """Weights of all layers: attention, the three matrices of SwiGLU, two norms."""
        attention = 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)
        return self.layers * (attention + 3 * self.hidden * self.ffn + 2 * self.hidden)

    @property
    def tokens(self) -> int:
        """Tokens of one step on one GPU."""
        return self.batch * self.sequence

    @property
    def flop_per_token(self) -> float:
        """Model FLOP of a step, forward and backward."""
        attention = 12 * self.layers * self.heads * self.head_dim * self.sequence * CAUSAL
        return 6 * self.parameters + attention

    @property
    def step_flop(self) -> float:
        """Model FLOP of one step on one GPU."""
        return self.flop_per_token * self.tokens

    @property
    def memory_bytes(self) -> int:
        """Memory of weights and gradients in bf16, saved activations, and the libraries."""
        kept = 12 * self.hidden + 6 * self.head_dim * (self.heads + self.kv_heads) + 5 * self.ffn
        passing = 24 * self.hidden
        activations = 2 * self.tokens * (self.layers * kept + passing)
        return 4 * self.parameters + activations + _LIBRARY_BYTES


SMALLEST = Stack(layers=1, sequence=2048)
_CPU = Stack(2, 32, hidden=64, heads=4, kv_heads=2, head_dim=16, ffn=128)


def stacks(params: Mapping[str, Any], *, cpu: bool) -> "tuple[Stack, ...]":
    """The stacks of a level; the first one is common to all. Figures do not depend on depth."""
    level = level_of(params)
    if cpu:
        return (_CPU, dataclasses.replace(_CPU, sequence=64)) if level == "full" else (_CPU,)
    usual = Stack(layers=2 if level == "quick" else 4, sequence=4096)
    return (usual, dataclasses.replace(usual, sequence=8192)) if level == "full" else (usual,)


def fitting(wanted: Stack, room_bytes: int) -> Stack:
    """The stack with fewer layers, then a shorter sequence, until it fits; at last SMALLEST."""
    for sequence in (wanted.sequence, *(s for s in (4096, 2048) if s < wanted.sequence)):
        for layers in (wanted.layers, *(n for n in (2, 1) if n < wanted.layers)):
            smaller = dataclasses.replace(wanted, layers=layers, sequence=sequence)
            if smaller.memory_bytes <= room_bytes:
                return smaller
    return dataclasses.replace(wanted, layers=1, sequence=min(wanted.sequence, SMALLEST.sequence))


def build(torch: Any, stack: Stack, device: str, dtype: Any) -> Any:
    """A torch module with random weights; its `forward` takes (batch, sequence, hidden)."""
    nn, functional = torch.nn, torch.nn.functional
    made = {"device": device, "dtype": dtype}
    norm, linear = _norm(torch, stack.hidden, made), partial(nn.Linear, bias=False, **made)
    grouped, _ = attention_of(torch, stack, device, dtype)
    rotation = _rotation(torch, stack, device, dtype)

    class Layer(nn.Module):  # type: ignore[misc,name-defined]
        """Grouped attention, then SwiGLU, each after a norm and with a residual."""

        def __init__(self) -> None:
            super().__init__()
            self.norm, self.ffn_norm = norm(), norm()
            self.query = linear(stack.hidden, stack.heads * stack.head_dim)
            self.key = linear(stack.hidden, stack.kv_heads * stack.head_dim)
            self.value = linear(stack.hidden, stack.kv_heads * stack.head_dim)
            self.out = linear(stack.heads * stack.head_dim, stack.hidden)
            self.gate = linear(stack.hidden, stack.ffn)
            self.up = linear(stack.hidden, stack.ffn)
            self.down = linear(stack.ffn, stack.hidden)

        def forward(self, states: Any) -> Any:
            states = states + self.attend(self.norm(states))
            normed = self.ffn_norm(states)
            return states + self.down(functional.silu(self.gate(normed)) * self.up(normed))

        def attend(self, normed: Any) -> Any:
            batch, length, _ = normed.shape

            def heads(projected: Any) -> Any:
                return projected.view(batch, length, -1, stack.head_dim).transpose(1, 2)

            query = _turned(torch, heads(self.query(normed)), *rotation)
            key = _turned(torch, heads(self.key(normed)), *rotation)
            value, more = heads(self.value(normed)), {}
            if grouped:
                more["enable_gqa"] = True
            else:
                key, value = (
                    heads.repeat_interleave(stack.heads // stack.kv_heads, dim=1)
                    for heads in (key, value)
                )
            mixed = functional.scaled_dot_product_attention(
                query, key, value, is_causal=True, **more
            )
            return self.out(mixed.transpose(1, 2).reshape(batch, length, -1))

    return nn.Sequential(*(Layer() for _ in range(stack.layers)))


def _norm(torch: Any, width: int, made: Mapping[str, Any]) -> Any:
    """A class of torch modules: RMSNorm over the last dimension."""
    nn, functional = torch.nn, torch.nn.functional

    class Norm(nn.Module):  # type: ignore[misc,name-defined]
        """RMSNorm."""

        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width, **made))

        def forward(self, states: Any) -> Any:
            if hasattr(functional, "rms_norm"):
                return functional.rms_norm(states, (width,), self.weight, 1e-5)
            wide = states.float()
            scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
            return (wide * scale).to(states.dtype) * self.weight

    return Norm


def _turned(torch: Any, states: Any, cosine: Any, sine: Any) -> Any:
    """RoPE: rotates pairs of (first half, second half) by their position."""
    low, high = states.chunk(2, dim=-1)
    return states * cosine + torch.cat((-high, low), dim=-1) * sine


def _rotation(torch: Any, stack: Stack, device: str, dtype: Any) -> "tuple[Any, Any]":
    """Cosine and sine of RoPE, (sequence, head_dim), with Llama 3's base."""
    half = torch.arange(0, stack.head_dim, 2, device=device, dtype=torch.float32) / stack.head_dim
    places = torch.arange(stack.sequence, device=device, dtype=torch.float32)
    angles = torch.outer(places, 500000.0**-half)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def attention_of(torch: Any, stack: Stack, device: str, dtype: Any) -> "tuple[bool, Optional[str]]":
    """Whether attention accepts fewer key heads than query heads, and its kernel if known.

    False if only the plain kernel accepts groups, which would write the whole attention matrix.
    """

    def heads(count: int) -> Any:
        shape = (stack.batch, count, stack.sequence, stack.head_dim)
        return torch.empty(shape, device=device, dtype=dtype, requires_grad=True)

    query, key = heads(stack.heads), heads(stack.kv_heads)
    for grouped, other, more in ((True, key, {"enable_gqa": True}), (False, query, {})):
        with contextlib.suppress(AttributeError, TypeError, RuntimeError, ValueError):
            chosen = int(torch._fused_sdp_choice(query, other, other, None, 0.0, True, **more))
            if chosen > 0 or not grouped:
                return grouped, _KERNELS.get(chosen)
    return False, None
