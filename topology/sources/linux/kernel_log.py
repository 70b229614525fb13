"""The kernel's log, where this user may read it; kernel_lines.py has what its lines say.

The raw answer: {"lines": [text], "uptime": seconds}, only those lines that may be of a fault, as
/dev/kmsg gives them, else as the journal does, which members of adm and systemd-journal may read
where the kernel keeps its log to root. Where neither is readable nothing else is missing.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator

from ...model.part import PartialNode, Raw
from ...model.source import Source, SourceAbsent

DEVICE = "/dev/kmsg"
MOST_LINES = 4000
JOURNAL = ("journalctl", "-k", "-b", "-q", "--no-pager", "-o", "short-monotonic", "-n", "20000")
JOURNAL_SECONDS, JOURNAL_EVERY = 4.0, 60.0
"""How long it may take, and how often a live session asks it: it reads its files anew."""
_HOST = re.compile(r"^(\[ *[\d.]+\]) [\w.-]{1,64} kernel: ")
CLOSED = "this user may not read the kernel's log; sudo dmesg > dmesg.txt, and --from dmesg.txt"


def parse(raw: Raw) -> PartialNode:
    """The faults of a live log; what knows them is imported where there are lines."""
    if not raw["lines"]:
        return PartialNode(kernel_events=())
    from .kernel_lines import read_lines

    return read_lines(raw["lines"], raw["uptime"])


class KernelLogReader:
    """Reads what the log has gained since the last call."""

    def __init__(self, path: str = DEVICE, journal: tuple[str, ...] = JOURNAL) -> None:
        self._path, self._journal = path, journal
        self._kept: list[str] = []
        self._log = -1
        self.again_seconds: float | None = None
        """Set where the journal is asked."""

    def __call__(self) -> Raw:
        """Ask once. Raises SourceAbsent."""
        if self._log < 0:
            try:
                self._log = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                return self._of_journal(error)
        self._keep(_records(self._log))
        return self._raw()

    def _of_journal(self, denied: OSError) -> Raw:
        """The same from the journal of this start of the host."""
        lines = _journal(self._journal)
        if not lines:
            raise SourceAbsent(CLOSED) from denied
        self._kept, self.again_seconds = [], JOURNAL_EVERY
        self._keep(iter(lines))
        return self._raw()

    def _keep(self, lines: Iterator[str]) -> None:
        from ...hardware.faults.catalogue import signs

        self._kept += (line for line in lines if any(sign in line for sign in signs()))
        del self._kept[:-MOST_LINES]

    def _raw(self) -> Raw:
        return {"lines": list(self._kept), "uptime": time.clock_gettime(time.CLOCK_BOOTTIME)}


def _journal(command: tuple[str, ...]) -> list[str]:
    """What the journal has of the kernel, as dmesg prints it; [] where it is not readable."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=JOURNAL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    lines = done.stdout.decode("utf-8", "replace").splitlines() if done.returncode == 0 else []
    return [_HOST.sub(r"\1 ", line) for line in lines if _HOST.match(line)]


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
    id="kernel_log",
    interval_seconds=10.0,
    deadline_seconds=5.0,
    reader=KernelLogReader,
    parse=parse,
)
