"""The seconds that a reader may take, all in one place; its bytes and items stand where it counts.

They are seconds of CPU of the thread that reads: a slow disk and a busy machine count for nothing.
A sound input takes a small part of them; beyond them what is left is named and not read.
"""

from __future__ import annotations

import time

SECONDS = {
    "node": 60.0,  # the files of one node, or one of them
    "fleet": 1800.0,  # 0.3 ms a small file, a million files at most
    "plan": 600.0,
    "log": 1800.0,  # 16 GiB at some 50 MB/s take 330 s
    "jobs": 120.0,
    "recording": 120.0,  # a day of 8 GPUs takes a tenth of a second to open, ten to export
}
"""Reader -> seconds."""


class Budget:
    """What is left of a reader's seconds, counted from here."""

    def __init__(self, reader: str) -> None:
        self._most = SECONDS[reader]
        self._end = time.thread_time() + self._most
        self.why = f"reading takes more than {self._most:g} s of CPU, which is gputop's limit"

    @property
    def over(self) -> bool:
        """Whether nothing is left."""
        return time.thread_time() > self._end
