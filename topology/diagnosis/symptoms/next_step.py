"""What to fetch next, where a log does not name the cause of a failure."""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec

from ...logs.report.report import WARN, LogNote, LogReport
from ...model.finding import Finding
from ...model.severity import BROKEN
from ...toml import tomllib
from .explain import ECHOES

DEBUG = "the same run with NCCL_DEBUG=INFO, the output of all ranks in one file"
_OF_ROW = {
    "watchdog-timeout": "the flight recorder's dumps of all ranks (TORCH_FR_BUFFER_SIZE=2000, in "
    "older PyTorch TORCH_NCCL_TRACE_BUFFER_SIZE, and TORCH_NCCL_DUMP_ON_TIMEOUT=1), and py-spy "
    "dump of the rank that prints no such line",
    "peer-gone": "the output of the other ranks and hosts: the earliest error of all is the cause",
    "proxy-echo": "the output of the other ranks and hosts: the earliest warning is the cause",
    "cuda-other": "the lines above it, the same run with CUDA_LAUNCH_BLOCKING=1 and NCCL_DEBUG="
    "INFO, and dmesg | grep -i nvrm",
    "store-gone": "the output of rank 0 and of the launcher on its host",
    "engine-failed": "the whole output from the start, above all the first trace of any worker",
    "task-gone": "the output of the task that is named",
    "nvshmem-failed": "the same run with NVSHMEM_DEBUG=INFO: its first error names the cause",
    "invalid-usage-unsaid": f"{DEBUG}: its first WARN line names the cause",
    "remote-error-unsaid": f"{DEBUG}: Bootstrap lines name each host's interface, and the earliest "
    "failure of all is the cause",
    "system-error-unsaid": f"{DEBUG}: its first WARN line names the cause",
    "reported-by-framework": f"{DEBUG}: its first WARN line names the cause",
}


MOST_SUBJECTS = 2


class Topic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of subjects.toml."""

    name: str
    any: tuple[str, ...]
    fetch: str


@cache
def subjects() -> tuple[Topic, ...]:
    """What lines in unknown words may be about."""
    text = Path(__file__).with_name("subjects.toml").read_bytes().decode()
    return tuple(msgspec.convert(entry, Topic) for entry in tomllib.loads(text)["subject"])


def spoken_of(left: Sequence[LogNote]) -> tuple[Topic, ...]:
    """The subjects of these lines, in the order of the table."""
    found = (
        subject
        for subject in subjects()
        if any(re.search(pattern, note.text) for pattern in subject.any for note in left)
    )
    return tuple(found)[:MOST_SUBJECTS]


def next_step(log: LogReport, found: Sequence[Finding], left: Sequence[LogNote]) -> str:
    """One sentence on what would show more; empty where a cause is named or nothing is wrong."""
    broken = [finding.id for finding in found if finding.severity == BROKEN]
    if any(ident not in ECHOES for ident in broken):
        return ""
    if broken:
        return _OF_ROW[broken[0]]
    if any(note.level is WARN for note in left):
        return f"{DEBUG}, from its start to the failure"
    if left and (about := spoken_of(left)):
        names = " and of ".join(subject.name for subject in about)
        wanted = "; ".join(subject.fetch for subject in about)
        return f"the quoted lines speak of {names}. Fetch {wanted}"
    if not log.library_lines and not found:
        return DEBUG
    return ""
