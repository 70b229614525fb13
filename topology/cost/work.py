"""FLOP of a token, and what share of a GPU's peak a speed is. Rates in FLOP/s."""

from __future__ import annotations

import msgspec

from ..model.severity import Word
from .shape import ModelShape

CAUSAL, WHOLE = 0.5, 1.0
"""Share of the scores that is worked out: FlashAttention leaves out those of later tokens; papers
that print a utilisation count all of them."""


class Recompute(Word):
    """What is worked out again in the backward pass instead of kept."""

    NONE = "none"
    SELECTIVE = "selective"
    """The scores of attention alone."""
    FULL = "full"
    """Each layer from its input."""


class TokenWork(msgspec.Struct, frozen=True, kw_only=True):
    """FLOP of one token."""

    matmul: float
    """Forward, multiplications with parameters: two for each."""
    attention: float
    """Forward, scores and weighted values."""
    recompute: float = 0.0
    """Forward work that is done once more."""

    @property
    def forward(self) -> float:
        """Of a forward pass."""
        return self.matmul + self.attention

    @property
    def model(self) -> float:
        """Forward and backward, which is twice the forward."""
        return 3 * self.forward

    @property
    def hardware(self) -> float:
        """With what is done twice."""
        return self.model + self.recompute


def work_of(
    shape: ModelShape,
    sequence: int,
    density: float = CAUSAL,
    recompute: Recompute = Recompute.NONE,
) -> TokenWork:
    """FLOP of one token in a sequence of so many.

    Scores: query times key and score times value, each two FLOP for each width and earlier token
    (PaLM, arXiv 2204.02311, appendix B, has 12 for both with the backward pass).
    """
    matmul = 2.0 * shape.multiplied
    widths = shape.query_width + shape.value_width
    attention = 2.0 * shape.layers * widths * sequence * density
    again = {
        Recompute.NONE: 0.0,
        Recompute.SELECTIVE: attention,
        Recompute.FULL: matmul - 2.0 * shape.head + attention,
    }
    return TokenWork(matmul=matmul, attention=attention, recompute=again[recompute])


def utilisation(flop_of_token: float, tokens_per_s: float, gpus: int, peak: float) -> float:
    """Share of the peak that so many tokens a second are; `peak` of one GPU, FLOP/s."""
    return flop_of_token * tokens_per_s / (gpus * peak)
