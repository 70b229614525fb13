"""A Llama-like model in eager PyTorch, written as transformers writes it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .plans import HEAD, SEQUENCE, VOCABULARY, TrainedShape

torch: Any = import_module("torch")
nn: Any = torch.nn
functional: Any = torch.nn.functional


class Norm(nn.Module):  # type: ignore[misc]
    """RMSNorm in FP32, as transformers has it."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x: Any) -> Any:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.weight * wide.to(x.dtype)


def _turned(x: Any, cosine: Any, sine: Any) -> Any:
    """Rotary positions: x has the shape (batch, heads, sequence, head)."""
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-second, first), dim=-1) * sine


class Attention(nn.Module):  # type: ignore[misc]
    """Its number of heads follows from the width of `wq`, which tensor parallelism narrows."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (
            nn.Linear(hidden, hidden, bias=False) for _ in range(4)
        )

    def forward(self, x: Any, cosine: Any, sine: Any) -> Any:
        batch, length = x.shape[:2]
        q, k, v = (
            part(x).view(batch, length, -1, HEAD).transpose(1, 2)
            for part in (self.wq, self.wk, self.wv)
        )
        q, k = _turned(q, cosine, sine), _turned(k, cosine, sine)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(seen.transpose(1, 2).reshape(batch, length, -1))


class FeedForward(nn.Module):  # type: ignore[misc]
    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.gate = nn.Linear(hidden, inner, bias=False)
        self.up = nn.Linear(hidden, inner, bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Any) -> Any:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):  # type: ignore[misc]
    def __init__(self, shape: TrainedShape) -> None:
        super().__init__()
        self.before, self.after = Norm(shape.hidden), Norm(shape.hidden)
        self.attention = Attention(shape.hidden)
        self.feed_forward = FeedForward(shape.hidden, shape.feed_forward)

    def forward(self, x: Any, cosine: Any, sine: Any) -> Any:
        x = x + self.attention(self.before(x), cosine, sine)
        return x + self.feed_forward(self.after(x))


class Llama(nn.Module):  # type: ignore[misc]
    """A whole model, or one stage of a pipeline: the first has the embedding, the last the head."""

    def __init__(self, shape: TrainedShape, stage: int = 0, stages: int = 1) -> None:
        super().__init__()
        each = shape.layers // stages
        first, last = stage == 0, stage == stages - 1
        self.embedding = nn.Embedding(VOCABULARY, shape.hidden) if first else None
        self.blocks = nn.ModuleList(Block(shape) for _ in range(each))
        self.norm = Norm(shape.hidden) if last else None
        self.head = nn.Linear(shape.hidden, VOCABULARY, bias=False) if last else None
        angle = 1e4 ** (-torch.arange(0, HEAD, 2).float() / HEAD)
        turned = torch.outer(torch.arange(SEQUENCE).float(), angle).repeat(1, 2)
        self.register_buffer("cosine", turned.cos(), persistent=False)
        self.register_buffer("sine", turned.sin(), persistent=False)

    def forward(self, x: Any) -> Any:
        if self.embedding is not None:
            x = self.embedding(x)
        for block in self.blocks:
            x = block(x, self.cosine, self.sine)
        if self.norm is not None and self.head is not None:
            x = self.head(self.norm(x))
        return x


def loss_of(logits: Any, target: Any) -> Any:
    """Cross entropy in FP32."""
    return functional.cross_entropy(logits.flatten(0, 1).float(), target.flatten())
