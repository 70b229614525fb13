"""Where snapshots come from: this machine, a file or a demo look the same to whoever waits."""

from __future__ import annotations

from typing import Protocol

from ..model.snapshot import NodeSnapshot

LATER_SECONDS = 0.3
"""Sources that the first picture does not need begin so much later."""


class Feed(Protocol):
    """Where the app gets its snapshots from."""

    def snapshot(self) -> NodeSnapshot:
        """The newest state; never blocks."""

    def wait(self, timeout: float) -> bool:
        """Block until something new is there (True) or `timeout` seconds went by (False)."""

    def close(self) -> None:
        """Ask the threads to end; never blocks, never waits for one that hangs."""
