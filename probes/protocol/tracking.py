"""Tells how far a probe is, and the figure of the current step before it is settled."""

from collections.abc import Callable

from .messages import Message, Progress
from .timing import Sampled

_FAST_GBS = 100.0
"""From here on decimals tell nothing yet."""


class Track:
    """The steps of one probe, one after the other."""

    def __init__(self, emit: Callable[[Message], None]) -> None:
        self._emit = emit
        self._step = Progress(0, 1, "")

    def step(self, done: int, total: int, what: str) -> None:
        """Begin a step."""
        self._step = Progress(done, total, what)
        self._emit(self._step)

    def so_far(self, gbs: float) -> None:
        """Tell the GB/s of a step that is not over: somebody waits for the first figure."""
        step = self._step
        shown = f"{gbs:.0f}" if gbs >= _FAST_GBS else f"{gbs:.1f}"
        self._emit(Progress(step.done, step.total, f"{step.what}: {shown} GB/s so far"))

    def so_far_of(self, samples: "tuple[float, ...]") -> None:
        """The same from the samples that were taken."""
        self.so_far(Sampled(samples).median)
