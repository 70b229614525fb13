"""The state of a probe: before, while and after it runs."""

from enum import Enum


class Status(str, Enum):
    """How far a probe is, or how it ended. A worker says only the ends."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed-out"
    DIED = "died"
    GARBLED = "garbled"
    NO_TORCH = "no-torch"
    REFUSED = "refused"
    FAILED = "failed"
    SKIPPED = "skipped"
    """Unnamed, and impossible on this node."""

    __str__ = str.__str__

    def __format__(self, format_spec: str) -> str:
        """Format the value; Python 3.12 would give the name of the member."""
        return str.__format__(self, format_spec)

    @property
    def over(self) -> bool:
        """Whether the probe has ended, in whatever way."""
        return self not in (Status.WAITING, Status.RUNNING)
