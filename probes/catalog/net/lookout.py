"""Watches the other nodes while this one sits in a call of the library, which may never return.

A node that gives up says so, one that ends takes its texts back, and one that is killed gives no
sign of life any more. Each ends this run long before its deadline would.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Optional

from .meeting import Met
from .notices import Notices

PAUSE_SECONDS = 0.5
BEAT_SECONDS = 3.0
"""How often a node gives a sign of life."""
SILENCE_SECONDS = 30.0
"""So long without one, and a node counts as dead; an NFS client may be seconds late."""


class Lookout:
    """Looks at the notices of the others, and gives signs of life."""

    def __init__(
        self, notices: Notices, met: Met, node: int, hosts: Sequence[str],
        tell: Callable[[str], None],
    ) -> None:  # fmt: skip
        """`tell`: gets one sentence when another node is lost."""
        self._notices = notices
        self._run = met.run
        self._hosts = tuple(hosts)
        self._others = tuple(other for other in range(len(hosts)) if other != node)
        self._tell = tell
        self._stopped = threading.Event()
        self._beats = 0
        self._heard: dict[int, tuple[Optional[str], float]] = {}
        self._left = 0

    def start(self) -> None:
        """Look in a thread of its own, until `stop`."""
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    def stop(self) -> None:
        """Look no more: the others may leave."""
        self._stopped.set()

    def _watch(self) -> None:
        beat_at = 0.0
        while not self._stopped.is_set():
            now = time.monotonic()
            if now >= beat_at:
                self._beats, beat_at = self._beats + 1, now + BEAT_SECONDS
                self._notices.put(f"{self._run}/beat", str(self._beats))
            lost = self.lost(now)
            if lost and not self._stopped.is_set():
                self._tell(lost)
                return
            self._stopped.wait(PAUSE_SECONDS)

    def lost(self, now: float) -> str:
        """Which node is lost, and why; "" while all are there. `now`: seconds of any clock."""
        for other in self._others:
            host = self._hosts[other]
            why = self._notices.read(other, f"{self._run}/failed")
            if why is not None:
                return f"{host}: {why}"
            beat = self._notices.read(other, f"{self._run}/beat")
            before, since = self._heard.get(other, (None, now))
            if beat != before or other not in self._heard:
                self._heard[other] = beat, now
            elif now - since > SILENCE_SECONDS:
                return f"{host} gave no sign of life for {SILENCE_SECONDS:.0f} s."
        gone = [other for other in self._others if self._notices.has_left(other)]
        self._left = self._left + 1 if gone else 0
        if gone and self._left * PAUSE_SECONDS > 2.0:  # a file system may be late
            return f"{self._hosts[gone[0]]} left before the end."
        return ""
