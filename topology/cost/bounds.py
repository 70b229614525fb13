"""Bounds that need no layout: ridge points, tokens a GPU needs, bubbles.

The formulas are those of "How to scale your model" (jax-ml.github.io/scaling-book, GPUs): C is
FLOP/s of a GPU, W bytes/s of one GPU one way; an all-reduce of B bytes takes 2B/W on a ring.
"""

from __future__ import annotations


def ridge(flops: float, bytes_per_s: float) -> float:
    """FLOP for each byte of memory from which on the matrix units are the limit."""
    return flops / bytes_per_s


def tokens_for_data_parallel(flops: float, bytes_per_s: float) -> float:
    """Tokens of a GPU and step from which on gradients in 16 bits hide behind the backward pass.

    That takes 4 FLOP of each parameter, and an all-reduce in a switch that adds carries its 2 bytes
    once: tokens * 4 / C > 2 / W. By a ring it carries them twice, which takes twice as many tokens.
    """
    return flops / (2 * bytes_per_s)


def tokens_for_sharded(flops: float, bytes_per_s: float) -> float:
    """The same where parameters are sharded (ZeRO-3, FSDP), and of any all-reduce by a ring.

    Forward, a gather of 2 bytes hides behind 2 FLOP: tokens * 2 / C > 2 / W. Backward, another
    gather and a scatter of gradients hide behind 4: tokens * 4 / C > (2 + 2) / W. Both ask for
    C / W. In all 3 times 2 bytes are sent, 1.5 times what a ring sends without (3 Psi against
    2 Psi: ZeRO, arXiv 1910.02054, 7.2.2), and 6 FLOP instead of 4 hide them. So it is twice the
    bound of an all-reduce in the switch, as the book says, and that of one by a ring.
    """
    return flops / bytes_per_s


def tokens_for_experts(flops: float, bytes_per_s: float, experts: int, active: int) -> float:
    """The same for data parallelism of a model with experts, of which a token sees few."""
    return tokens_for_data_parallel(flops, bytes_per_s) * experts / active


def tensor_ways(flops: float, bytes_per_s: float, ranks: int, feed_forward: int) -> float:
    """The most ways of tensor parallelism whose all-reduces are no longer than the products.

    For T tokens of width D a feed-forward of width F takes 4 T D F / (Y C), and its all-reduce
    2 * 2 T D (n - 1) / (n W) on a ring.
    """
    return feed_forward * bytes_per_s * ranks / ((ranks - 1) * flops)


def bubble(stages: int, micro_batches: int, interleave: int = 1) -> float:
    """Time that a stage waits, over the time that it works (Megatron-LM, arXiv 2104.04473, 2.2)."""
    return (stages - 1) / (micro_batches * interleave)


def gather_seconds(size: float, ranks: int, bytes_per_s: float) -> float:
    """An all-gather or reduce-scatter of an array of `size` bytes, by a ring without latency."""
    return size * (ranks - 1) / (ranks * bytes_per_s)


def exchange_seconds(
    tokens: int, hidden: int, copies: int, bytes_per_s: float, bytes_each: float
) -> float:
    """Tokens sent to so many experts each and back: `bytes_each` for both ways of one width."""
    return bytes_each * tokens * copies * hidden / bytes_per_s
