"""Closed words of probes: the state of a run, and the kind of devices."""

from enum import Enum


class ClosedWord(str, Enum):
    """A string with few values; JSON, comparisons and texts hold its value."""

    __str__ = str.__str__

    def __format__(self, format_spec: str) -> str:
        """Format the value; Python 3.12 would give the name of the member."""
        return str.__format__(self, format_spec)


class DeviceKind(ClosedWord):
    """What probes measure."""

    GPU = "gpu"
    CPU = "cpu"
    """In the self-test, whose figures say nothing about any GPU."""


class Status(ClosedWord):
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

    @property
    def over(self) -> bool:
        """Whether the probe has ended, in whatever way."""
        return self not in (Status.WAITING, Status.RUNNING)
