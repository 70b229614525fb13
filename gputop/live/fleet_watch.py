"""The thread that watches the folder of a fleet: files that came are read, and judged with all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from gputop.topology.fleet.fleet import Fleet
from gputop.topology.fleet.merging.growing import Growing
from gputop.topology.fleet.planning.fabric import SwitchFabric

LEAST_PAUSE, MOST_PAUSE = 1.0, 60.0
"""Seconds between two looks at the folder."""
IDLE_COSTS = 150
"""Of a folder in which nothing happens: waits so many times what looking took, for 0.7 % of a core,
and as much peace for the server of a shared file system."""
BUSY_COSTS = 2
"""The same while files arrive: reading and judging take a third of a core at most."""


@dataclass(frozen=True, slots=True)
class FleetState:
    """What is known of a folder."""

    fleet: Fleet | None
    """None before all files were read once."""
    read: int = 0
    """Files read so far, of `total`, before there is a fleet."""
    total: int = 0
    trouble: str = ""
    """Why the folder cannot be read; the fleet is as it was before."""
    looked_at: float = 0.0
    """When the folder was last read, seconds since the epoch."""


class FleetWatch:
    """Watches a folder for whoever listens, from a daemon thread."""

    def __init__(
        self, folder: str, expected: Collection[str] = (), fabric: SwitchFabric | None = None
    ) -> None:
        """`expected`: hosts that were asked for; `fabric`: leaf switches where they are known."""
        self.folder = folder
        self.state = FleetState(None)
        self._growing = Growing(folder, expected, fabric)
        self._closed = threading.Event()
        self._post: Callable[[FleetState], object] | None = None

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="fleet", daemon=True).start()

    def listen(self, post: Callable[[FleetState], object] | None) -> None:
        """Give each state to `post`, from the thread; None: to nobody."""
        self._post = post

    def close(self) -> None:
        """Stop to watch, without waiting."""
        self._closed.set()

    def _tell(self, state: FleetState) -> None:
        self.state = state
        post = self._post
        if post is not None:
            post(state)

    def _run(self) -> None:
        while not self._closed.is_set():
            begun = time.thread_time()
            changed = self.look()
            took = time.thread_time() - begun
            pause = took * (BUSY_COSTS if changed else IDLE_COSTS)
            self._closed.wait(min(max(pause, LEAST_PAUSE), MOST_PAUSE))

    def look(self) -> bool:
        """Look at the folder once and tell what has changed; whether something has."""
        before = self.state

        def progress(read: int, total: int) -> None:
            if before.fleet is None:
                self._tell(FleetState(None, read, total))

        try:
            fleet = self._growing.look(progress=progress)
            # Worked out here, once, and not while somebody waits for a key.
            _ = fleet.counts, fleet.groups
        except OSError as error:
            trouble = f"the folder cannot be read: {error.strerror or error}"
            if trouble == before.trouble:
                return False
            self._tell(FleetState(before.fleet, trouble=trouble, looked_at=before.looked_at))
            return True
        same = fleet is before.fleet and not before.trouble
        state = FleetState(fleet, looked_at=time.time())
        if same:
            self.state = state
        else:
            self._tell(state)
        return not same
