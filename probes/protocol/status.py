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
    SIMULATED = "simulated"
    """Nothing: figures of a demo."""


class ProbeLevel(ClosedWord):
    """How much a probe measures."""

    QUICK = "quick"
    """The useful minimum."""
    NORMAL = "normal"
    """Enough for a reliable answer."""
    FULL = "full"
    """Everything."""

    @classmethod
    def _missing_(cls, value: object) -> "ProbeLevel":
        """Keep the word of another version in what it saved; no probe runs at it."""
        member = str.__new__(cls, value)
        member._name_ = member._value_ = str(value)
        return member


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
