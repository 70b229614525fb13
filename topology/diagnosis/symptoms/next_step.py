"""What to fetch next, where a log does not name the cause of a failure."""

from __future__ import annotations

from collections.abc import Sequence

from ...logs.report.report import LogNote, LogReport
from ..finding import BROKEN, Finding
from .explain import ECHOES

DEBUG = "the same run with NCCL_DEBUG=INFO, the output of all ranks in one file"
_OF_ROW = {
    "watchdog-timeout": "the flight recorder's dumps of all ranks (TORCH_NCCL_TRACE_BUFFER_SIZE="
    "2000, TORCH_NCCL_DUMP_ON_TIMEOUT=1), and py-spy dump of the rank that prints no such line",
    "peer-gone": "the output of the other ranks and hosts: the earliest error of all is the cause",
    "proxy-echo": "the output of the other ranks and hosts: the earliest warning is the cause",
    "reported-by-framework": f"{DEBUG}: its first WARN line names the cause",
}


def next_step(log: LogReport, found: Sequence[Finding], left: Sequence[LogNote]) -> str:
    """One sentence on what would show more; empty where a cause is named or nothing is wrong."""
    broken = [finding.id for finding in found if finding.severity == BROKEN]
    if any(ident not in ECHOES for ident in broken):
        return ""
    if broken:
        return _OF_ROW[broken[0]]
    if any(note.level == "WARN" for note in left):
        return f"{DEBUG}, from its start to the failure"
    if not log.library_lines and not found:
        return DEBUG
    return ""
