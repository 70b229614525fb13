"""What a job was doing when a collective's time was over: the last lines before the first timeout.

Training and serving frameworks say when they load, save or prepare; the others wait meanwhile.
"""

from __future__ import annotations

import re

from .prefix import MARK

TIMEOUT = b"Watchdog caught collective"
MOST_LINES = 40
"""How far back is looked."""
MOST_OTHERS = 8
"""How many lines of other things may stand between."""
_WORK = re.compile(
    rb"(?i)\b(?:saving|loading|writing|uploading|downloading|converting|merging|consolidating)\b"
    rb".{0,80}\b(?:checkpoint|model|weights?|shards?|state|dataset|tensors?|safetensors|file)"
    rb"|\bcheckpoint shards\b|\btokeniz(?:ing|er on)\b|\bpreprocessing\b"
    rb"|\bgenerating \w{1,20} split\b|\bmap(?: \(num_proc=\d+\))?: +\d"
    rb"|\b(?:building|indexing|packing)\b.{0,40}\b(?:dataset|index|samples?)\b"
    rb"|\b(?:compiling|capturing|autotuning|evaluating|validating)\b"
)
_DONE = re.compile(rb"(?i)\b100 ?%|\b(?:finished|done|saved|loaded|successfully)\b")
_TRAINS = re.compile(rb"(?i)\bloss\b|\bgrad_?norm\b|\biteration +\d|\bstep[ :=]+\d|\btokens?/s\b")
"""Training goes on: what stands before it has ended."""


class Before:
    """The last lines that were read."""

    def __init__(self) -> None:
        self._tail: list[bytes] = []

    def passed(self, lines: list[bytes]) -> None:
        """Keep the last of these lines."""
        before = self._tail if len(lines) < MOST_LINES else []
        self._tail = [*before, *lines[-MOST_LINES:]][-MOST_LINES:]

    def busy(self, lines: list[bytes], number: int) -> list[tuple[int, bytes]]:
        """Work that had not ended before line `number`; `lines` were not passed yet."""
        others = 0
        last = [*self._tail, *lines[-MOST_LINES:]][-MOST_LINES:]
        for distance, line in enumerate(reversed(last), 1):
            if not line.strip() or MARK in line or b"ProcessGroupNCCL" in line:
                continue
            if _TRAINS.search(line) or others > MOST_OTHERS:
                return []
            if _WORK.search(line):
                return [] if _DONE.search(line) else [(number - distance, line[:1600])]
            others += 1
        return []
