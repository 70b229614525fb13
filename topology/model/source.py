"""What a source is: a reader that asks the machine, and a pure function that understands it."""

from collections.abc import Callable

import msgspec

from .errors import GputopError
from .part import PartialNode, Raw
from .snapshot import ProblemKind


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One origin of facts. `SOURCE` in each module that `sources.NAMES` lists is one of these."""

    id: str
    """Short name, as problems and ages show it: "nvml"."""
    interval_seconds: float
    """Seconds between two questions of a live session."""
    deadline_seconds: float
    """After this long without an answer the source counts as not answering."""
    reader: Callable[[], Callable[[], Raw]]
    """Makes a fresh reader; the reader asks the machine once per call. It may keep handles and
    rate state between calls, and may have `thorough` (set for a single reading that is to hold
    everything), `again_seconds` (when to ask next, instead of the interval) and `so_far()` (what
    is known while the first question is still open, or None; called from another thread). Called in
    the source's own thread, never in two threads at once. Raises SourceAbsent when there is nothing
    to ask; any other exception is a failed reading."""
    opening: bool = False
    """Whether the first picture needs this source; the others begin a moment later."""
    parse: Callable[[Raw], PartialNode]
    """Turns an answer into a part; a pure function. It never raises on an answer that a real
    machine could give; a field that it does not understand becomes a gap."""


class SourceAbsent(GputopError):  # noqa: N818 - a normal outcome, not an error
    """There is nothing to ask; the text says what is missing, `kind` is as in Problem.kind."""

    def __init__(self, text: str, kind: str = ProblemKind.ABSENT) -> None:
        super().__init__(text)
        self.kind = ProblemKind(kind)
