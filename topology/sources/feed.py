"""Where snapshots come from: this machine, a file or a demo all look the same to the caller."""

from __future__ import annotations

from typing import Protocol

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


class OpeningFeed(Feed, Protocol):
    """A feed that knows when a first picture can be drawn."""

    def opened(self) -> bool:
        """Whether all has been asked that a first picture needs."""
