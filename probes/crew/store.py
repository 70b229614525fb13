"""What the ranks of a run tell each other: texts by topic, in a file of the run's private folder.

Every rank appends whole lines to the one file and reads those of all. Nobody listens on a port, and
an answer takes less than a millisecond.
"""

import json
import os
import time

_SHORTEST_SECONDS, _LONGEST_SECONDS = 0.0001, 0.002
_READ_BYTES = 1 << 22


class Store:
    """Topics and texts; a topic is set once."""

    def __init__(self, path: str) -> None:
        self.path = path
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)
        self._at = 0
        self._known: dict[str, str] = {}

    def set(self, topic: str, text: str) -> None:
        """Tell all ranks; one write, which the kernel appends as a whole."""
        os.write(self._file, json.dumps([topic, text]).encode() + b"\n")

    def get(self, topic: str) -> str:
        """Wait until some rank has told it; the deadline is that of the crew."""
        pause = _SHORTEST_SECONDS
        while topic not in self._known:
            if not self._read():
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_SECONDS)
        return self._known[topic]

    def _read(self) -> bool:
        """Take what is new; whether there was a whole line."""
        text = os.pread(self._file, _READ_BYTES, self._at)
        whole = text[: text.rfind(b"\n") + 1]
        self._at += len(whole)
        self._known.update(json.loads(line) for line in whole.splitlines())
        return bool(whole)
