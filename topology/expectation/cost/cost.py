"""One pair of figures: "healthy 473 → here 355 GB/s (predicted)".

GB/s of payload, one way; of an all-reduce busbw.
"""

from __future__ import annotations

import msgspec

from ...model.severity import FigureBasis
from ...model.units import figure as three
from ..links import SAME

PREDICTED = FigureBasis.PREDICTED
_HERE = (FigureBasis.MEASURED, FigureBasis.SIMULATED)
_REFUTING = 1.2
"""A figure here at this multiple of the healthy one shows that this is not what is healthy."""
_KINDS = ("all-reduce", "host copy", "copy")


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of communication: on a healthy node of this kind, and here."""

    what: str
    """"all-reduce 1 GiB", "copy GPU0 to GPU3", "host copy GPU3"."""
    healthy: float | None
    here: float | None
    least: float | None = None
    """What is left here at worst, where that depends on something that nobody knows."""
    basis: FigureBasis
    """Measured and simulated are the figure here alone; typical is scaled to what is up."""
    sources: tuple[str, ...] = ()
    because: str = ""
    """Why the loss is larger or smaller than the links say; "" where the model cannot say."""
    missing: tuple[str, ...] = ()
    """What is not as it should be, as clauses."""
    low: float | None = None
    """The least that the figure here may be, where it is a range; `here` is one point of it."""
    high: float | None = None
    notes: tuple[str, ...] = ()
    """What to know about the figure, as sentences: what it stands on, known remedies."""

    @property
    def lost(self) -> bool:
        """Whether less is left than a healthy node has."""
        return (
            self.healthy is not None and self.here is not None and self.here < SAME * self.healthy
        )

    @property
    def span(self) -> tuple[float, float] | None:
        """Both ends of the figure here, where it is told as a range.

        Where something is lost it is one only if no figure of it reaches the healthy one.
        """
        if self.low is None or self.high is None:
            return None
        apart = self.healthy is not None and self.healthy > 0 and self.high < self.healthy
        return (self.low, self.high) if apart or not self.lost else None

    @property
    def brief(self) -> str:
        """What it is of and both figures: "all-reduce 473→355"; "" where nothing is lost."""
        kind = next((kind for kind in _KINDS if self.what.startswith(kind)), "")
        return f"{kind} {three(self.healthy)}→{three(self.here)}".strip() if self.lost else ""

    @property
    def pair(self) -> str:
        """Both figures: "healthy 473 → here 355 GB/s (predicted)"; one where nothing is lost."""
        if self.healthy is None and self.here is None:
            return ""
        if (span := self.span) is not None and not self.lost:
            return f"{three(span[0])} to {three(span[1])} GB/s ({self.basis})"
        if self.here is None:
            return f"healthy {three(self.healthy)} → here not known"
        refuted = self.healthy is not None and self.here > _REFUTING * self.healthy
        if self.healthy is None or refuted or not (self.lost or self.basis in _HERE):
            return f"{three(self.here)} GB/s ({self.basis})"
        return f"healthy {three(self.healthy)} → here {self._left} GB/s ({self.basis})"

    @property
    def _left(self) -> str:
        """What is left here."""
        if (span := self.span) is not None:
            return f"{three(span[0])} to {three(span[1])}"
        return f"{'' if self.least is None else f'{three(self.least)} to '}{three(self.here)}"

    @property
    def text(self) -> str:
        """The pair with what it is of: "all-reduce 1 GiB: healthy 473 → here 355 GB/s (...)"."""
        return f"{self.what}: {self.pair}" if self.pair else ""
