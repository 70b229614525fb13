"""What the harness of training trains: two models, two batches, five layouts, P2P on and off."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

SEQUENCE, VOCABULARY, HEAD = 2048, 32000, 128
MICRO_BATCHES = 4
"""Of a pipeline."""


@dataclass(frozen=True)
class TrainedShape:
    """A Llama-like model: SwiGLU, RMSNorm, rotary positions, as many KV heads as heads."""

    name: str
    hidden: int
    feed_forward: int
    layers: int

    @property
    def heads(self) -> int:
        return self.hidden // HEAD

    @property
    def parameters(self) -> int:
        """Embedding and head are two matrices."""
        each = 4 * self.hidden**2 + 3 * self.hidden * self.feed_forward + 2 * self.hidden
        return self.layers * each + 2 * VOCABULARY * self.hidden + self.hidden


SHAPES = (
    TrainedShape("0.5B", 1536, 4096, 16),
    TrainedShape("1.6B", 2048, 5632, 28),
)
BATCHES = (4, 8)
"""Sequences of a step over all GPUs, so that layouts compare."""
LAYOUTS = ("single", "ddp", "fsdp", "tp", "pp")


@dataclass(frozen=True)
class TrainingRun:
    """One run: a model under a layout."""

    layout: str
    p2p: bool
    shape: str
    batch: int

    @property
    def key(self) -> str:
        return f"{self.layout} {self.shape} {self.batch} {'p2p' if self.p2p else 'no-p2p'}"

    @property
    def ranks(self) -> int:
        return 1 if self.layout == "single" else 2

    def document(self) -> dict[str, Any]:
        return asdict(self)


def starts() -> list[list[TrainingRun]]:
    """The runs by start of processes: each start is a layout with P2P on, or off."""
    return [
        [TrainingRun(layout, p2p, shape.name, batch) for shape in SHAPES for batch in BATCHES]
        for p2p in (True, False)
        for layout in LAYOUTS
        if p2p or layout != "single"
    ]


def shape_of(name: str) -> TrainedShape:
    return next(shape for shape in SHAPES if shape.name == name)
