"""Lines of the kernel's log from public sources get the answers that were written first."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gputop.topology.hardware.faults.catalogue import fault_of
from gputop.topology.model.kernel_event import KernelSource
from gputop.topology.model.severity import BROKEN, CANNOT_TELL, NOTICE, SLOW
from gputop.topology.sources.linux.kernel_lines import read_lines

LINES = Path(__file__).with_name("collected_lines.txt")
HARM = (BROKEN, SLOW)
LEVELS = {"broken": HARM, "slow": HARM, "notice": (NOTICE,), "unknown": (CANNOT_TELL, BROKEN)}
NUMBERED = (KernelSource.XID, KernelSource.SXID)
DISPUTED = {"xid 8", "xid 38"}
"""Our answer says harm; NVIDIA's catalogue says to start the program again, and gputop follows."""
LEAST = 0.95


class Row(msgspec.Struct, frozen=True):
    """What a line is, as somebody wrote down before gputop read it."""

    id: str
    severity: str
    device: str
    sentence: str
    line: str

    @property
    def innocent(self) -> bool:
        return self.id == "nothing"


ROWS = [
    Row(*text.split("|", 4)) for text in LINES.read_text().splitlines() if not text.startswith("##")
]


def right(row: Row) -> bool:
    """Whether a line alone gives the right kind, harm or no harm, and the right device."""
    events = read_lines([row.line]).kernel_events or ()
    if not events:
        return row.innocent
    fault = fault_of(events[0])
    numbered = {f"{events[0].kind} {events[0].code}"} if events[0].kind in NUMBERED else set()
    known = numbered or {events[0].code, fault.rule}
    place = events[0].device or "-"
    return row.id in known and fault.severity in LEVELS[row.severity] and place == row.device


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.id not in DISPUTED], ids=lambda row: row.line[:60]
)
def test_a_collected_line_gets_the_right_answer(row: Row) -> None:
    assert right(row), row


def test_the_collection_is_large_and_mostly_right() -> None:
    assert len(ROWS) >= 300
    assert sum(row.innocent for row in ROWS) >= 60
    assert sum(map(right, ROWS)) / len(ROWS) >= LEAST
