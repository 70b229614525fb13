"""Where snapshots come from: this machine, a file or a demo all look the same to the caller."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ..model.readings import GpuReading
from ..model.snapshot import NodeSnapshot

LATER_SECONDS = 0.3
"""How many seconds later those sources start that the first picture does not need."""


class Feed(Protocol):
    """Where the app gets its snapshots from."""

    def snapshot(self) -> NodeSnapshot:
        """The newest state; never blocks."""

    def wait(self, timeout: float) -> bool:
        """Block until there is a new snapshot (True) or `timeout` seconds have passed (False)."""

    def close(self) -> None:
        """Ask the threads to end; never blocks, never waits for one that hangs."""


Past = tuple[tuple[float, tuple[GpuReading, ...]], ...]
"""Readings and the seconds since the epoch at which they were taken, the oldest first."""


@runtime_checkable
class RememberingFeed(Protocol):
    """A feed that knows what was before it was opened."""

    def earlier(self) -> Past:
        """What the minutes before it were like."""


class OpeningFeed(Feed, Protocol):
    """A feed that knows when a first picture can be drawn."""

    def opened(self) -> bool:
        """Whether all has been asked that a first picture needs."""
