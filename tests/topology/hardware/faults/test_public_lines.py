"""Lines in the forms that people posted: at least 95 % get the answer that was written first."""

from __future__ import annotations

from pathlib import Path

from gputop.topology.hardware.faults.catalogue import fault_of
from gputop.topology.model.kernel_event import KernelSource
from gputop.topology.sources.linux.kernel_lines import read_lines

LINES = Path(__file__).with_name("public_lines.txt")
HARM = {"broken": "harm", "slow": "harm", "notice": "notice"}
LEAST = 0.95


def said_of(line: str) -> str:
    """What a line alone is taken for, in the words of the table."""
    events = read_lines([line]).kernel_events or ()
    if not events:
        return "none"
    fault = fault_of(events[0])
    level = HARM.get(fault.severity, "unknown")
    if events[0].kind in (KernelSource.XID, KernelSource.SXID):
        return f"{events[0].kind} {events[0].code} {level}"
    return f"{fault.rule} {level}"


def rows() -> list[tuple[str, str]]:
    texts = (row for row in LINES.read_text().splitlines() if not row.startswith("#"))
    return [(answer, line) for answer, _, line in (row.partition("|") for row in texts)]


def test_posted_lines_get_the_right_answer() -> None:
    wrong = [(answer, said, line) for answer, line in rows() if (said := said_of(line)) != answer]
    assert len(rows()) == 300
    assert 1 - len(wrong) / len(rows()) >= LEAST, wrong


def test_no_innocent_line_is_a_fault() -> None:
    innocent = [line for answer, line in rows() if answer == "none"]
    assert len(innocent) > 100
    assert [line for line in innocent if said_of(line) != "none"] == []


def test_each_kind_of_line_has_several() -> None:
    told = [answer for answer, _ in rows()]
    for kind, least in (("xid", 80), ("sxid", 10), ("pcie", 20), ("nic", 15), ("amdgpu", 8)):
        assert sum(answer.startswith(kind) for answer in told) >= least, kind
