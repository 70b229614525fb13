"""Lines of nccl-tests and rccl-tests: devices, options, rows of the table, sums."""

from __future__ import annotations

import re

import msgspec

PREFIX = (
    r"[ \t]*(?:\[\d{1,6},\d{1,6}\](?:<\w{3,10}>)?:?[ \t]*|\[?[\w.-]{1,63}\]?: |"
    r"[\w.-]{1,63} {1,40}\| )?"
)
"""What mpirun --tag-output, srun -l, Kubernetes and docker compose print before each line."""
DEVICE = re.compile(
    rf"{PREFIX}#\s+Rank\s+(\d{{1,6}})(?:\s+Group\s+\d{{1,6}})?\s+Pid\s+(\d{{1,9}})\s+on\s+(\S{{1,64}})"
    r"\s+device\s+(\d{1,4})\s+\[([0-9a-fA-Fx:.]{4,16})\]\s+(\S.{0,100}?)\s*\Z"
)
OPTIONS = re.compile(rf"{PREFIX}#\s+nThread\s+(\d{{1,4}})\s+nGpus\s+(\d{{1,4}})\s+minBytes\b")
NAME = re.compile(
    r"(?:\b|/)(all_reduce|all_gather|reduce_scatter|alltoall|alltoallv|sendrecv|broadcast|reduce|"
    r"gather|scatter|hypercube)_perf\b"
)
HEAD = re.compile(rf"{PREFIX}#\s+size\s+count\s+type\b")
ROW = re.compile(
    rf"{PREFIX}(\d{{1,15}})\s+(\d{{1,15}})\s+([a-z]\w{{2,12}})\s+(sum|prod|max|min|avg|none|mulsum|all)"
    r"(?:\s+(-?\d{1,6}))?\s+([\d.]{1,14})\s+([\d.]{1,14})\s+([\d.]{1,14})\s+(\d{1,12}|N/A|[\d.e+-]{3,12})"
    r"(?:\s+([\d.]{1,14})\s+([\d.]{1,14})\s+([\d.]{1,14})\s+(\d{1,12}|N/A|[\d.e+-]{3,12}))?\s*\Z"
)
BOUNDS = re.compile(rf"{PREFIX}#\s+Out of bounds values\s*:\s*(\d{{1,12}})\s+(OK|FAILED)")
FAILURE = re.compile(r"Test (?:NCCL|CUDA|RCCL|HIP) failure")
SIGN = re.compile(
    r"(?m)^(?:[^\n#]{0,80})#[ \t]+(?:nThread[ \t]+\d|Rank[ \t]+\d{1,6}[ \t]|"
    r"Using devices|size[ \t]+count|"
    r"Out of bounds values|Avg bus bandwidth|[nr]ccl-tests|Collective test)|"
    rf"^{PREFIX}\d{{1,15}}[ \t]+\d{{1,15}}[ \t]+[a-z]\w{{2,12}}[ \t]+"
    r"(?:sum|prod|max|min|avg|none|mulsum|all)[ \t]"
    r"+-?[\d.]|^[^\n]{0,400}?\b(?:all_reduce|all_gather|reduce_scatter|alltoall|sendrecv|broadcast|"
    r"reduce)_perf[ \t]+-"
)


class TestDevice(msgspec.Struct, frozen=True):
    """A rank and the GPU that it uses."""

    rank: int
    pid: int
    host: str
    number: int
    bus: str
    name: str


class TestRow(msgspec.Struct, frozen=True):
    """One size of the table."""

    size: int
    type: str
    op: str
    root: int | None
    micros: float
    algbw: float
    busbw: float
    wrong: int
    """Wrong values, out of place and in place; 0 where they were not compared."""
    in_place: float | None = None


class TestRun(msgspec.Struct):
    """One run of one test."""

    name: str = ""
    devices: list[TestDevice] = []
    rows: list[TestRow] = []
    gpus_per_thread: int | None = None
    threads: int | None = None
    copies: int = 1
    """How many times the same rank 0 announced itself: programs that do not know of each other."""
    wrong: int = 0
    """Wrong values by its own count."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts in the order of the ranks."""
        return tuple(dict.fromkeys(device.host for device in self.devices))


def row_of(line: str) -> TestRow | None:
    """A row of the table; None for any other line."""
    found = ROW.match(line)
    if found is None:
        return None
    size, _, kind, op, root, micros, algbw, busbw, wrong, _, _, own, own_wrong = found.groups()
    numbers = [_number(word) for word in (micros, algbw, busbw)]
    if any(number is None for number in numbers):
        return None
    return TestRow(
        size=int(size),
        type=kind,
        op=op,
        root=None if root is None else int(root),
        micros=numbers[0] or 0.0,
        algbw=numbers[1] or 0.0,
        busbw=numbers[2] or 0.0,
        wrong=_count(wrong) + _count(own_wrong),
        in_place=None if own is None else _number(own),
    )


def device_of(line: str) -> TestDevice | None:
    """A line of the list of devices."""
    found = DEVICE.match(line)
    if found is None:
        return None
    rank, pid, host, number, bus, name = found.groups()
    return TestDevice(int(rank), int(pid), host, int(number), bus, name)


def _number(word: str) -> float | None:
    return float(word) if re.fullmatch(r"\d{1,12}(?:\.\d{1,6})?", word) else None


def _count(word: str | None) -> int:
    """Wrong values; the older column is a difference, and only as high as 1 it is wrong."""
    if word is None or word == "N/A":
        return 0
    if word.isdecimal():
        return int(word)
    try:
        return int(float(word) > 0.1)
    except ValueError:
        return 0
