"""The kernel's log, where this user may read it; kernel_lines.py has what its lines say.

The raw answer: {"lines": [text], "uptime": seconds}, only those lines that may be of a fault, as
/dev/kmsg gives them. Where this user may not read it nothing else is missing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

from ...model.part import PartialNode, Raw
from ...model.source import Source, SourceAbsent

DEVICE = "/dev/kmsg"
MOST_LINES = 4000
CLOSED = "this user may not read the kernel's log; sudo dmesg > dmesg.txt, and --from dmesg.txt"


def parse(raw: Raw) -> PartialNode:
    """The faults of a live log; what knows them is imported where there are lines."""
    if not raw["lines"]:
        return PartialNode(kernel_events=())
    from .kernel_lines import read_lines

    return read_lines(raw["lines"], raw["uptime"])


def _reader(path: str = DEVICE) -> Callable[[], Raw]:
    """Reads what the log has gained since the last call."""
    kept: list[str] = []
    log = -1

    def read() -> Raw:
        nonlocal log
        if log < 0:
            try:
                log = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                raise SourceAbsent(CLOSED) from error
        from ...hardware.faults.catalogue import signs

        kept.extend(line for line in _records(log) if any(sign in line for sign in signs()))
        del kept[:-MOST_LINES]
        return {"lines": list(kept), "uptime": time.clock_gettime(time.CLOCK_BOOTTIME)}

    return read


def _records(log: int) -> Iterator[str]:
    while True:
        try:
            record = os.read(log, 8192)
        except BrokenPipeError:
            continue  # some were overwritten before they were read
        except OSError:
            return
        if not record:
            return
        yield record.decode("utf-8", "replace").split("\n", 1)[0]


SOURCE = Source(
    id="kernel_log", interval_seconds=10.0, deadline_seconds=5.0, reader=_reader, parse=parse
)
