"""RAS answers as text, which NCCL 2.24 and later and RCCL print (src/ras/client_support.cc).

A text names one by one only the ranks that differ from the others: `agreed` counts the rest. Each
line is read without the blanks around it: what people paste is often indented anew. A form that
changed: 2.24 and 2.25 list missing ranks by number alone and count all collectives together.
"""

import re
from typing import Any

import msgspec

from .answer import (
    LIMIT_COMMUNICATORS,
    LIMIT_RANKS,
    AnswerForm,
    MissingRank,
    RasAnswer,
    RasCommunicator,
    RasError,
    RasJob,
    RasRank,
    all_of,
)

VERSION = re.compile(r"(NCCL|RCCL) version (\S{1,40})(?= compiled with |$)")
TIME = re.compile(r"^Communicators\.\.\. \((\d{1,6}\.\d{1,6})s\)")
GROUP = re.compile(
    r"^(\d{1,6}) +(\d{1,6}) +(\d{1,7}) +[\d-]{1,15} +(\d{1,8}) +(\d{1,8}) +([A-Z]+) +([A-Z,]+)$"
)
"""Number, communicators, nodes, ranks of each, ranks together, status, errors."""
NOTHING = "No communicator data collected!"
EVEN = re.compile(r"^(\d{1,7}) +(\d{1,6}) +(\d{1,4}) +(\d{1,8}) +(\d{1,8})$")
"""Of the job: nodes, processes of each, GPUs of each process, processes, GPUs."""
UNEVEN = re.compile(r"^(\d{1,7}) +(\d{1,8}) +(\d{1,8})$")
"""Of a job whose nodes differ: nodes, processes, GPUs; below a heading of three totals."""
TOTALS = re.compile(r"^\(total\) +\(total\) +\(total\)$")
INCOMPLETE, DEAD = "INCOMPLETE", "DEAD"
TITLE = re.compile(r"^#(\d{1,6})-(\d{1,6}) \(([0-9a-f]{1,16})\) (INCOMPLETE|ERROR|MISMATCH)$")
COUNTS = re.compile(r"^Communicator ranks have different (\S{1,40}) operation counts$")
OLD_COUNTS = "Communicator ranks have different collective operation counts"
MANY = re.compile(r"^(\d{1,8}) ranks have launched up to operation (\d{1,18})$")
NONE = re.compile(r"^(\d{1,8}) ranks have not launched any operations$")
STATUS = re.compile(r"^(\d{1,8}) ranks have status ([A-Z]+)$")
REPORTED = re.compile(r"^(\d{1,8}) ranks reported (.{1,60})$")
RANK = re.compile(
    r"^Rank (\d{1,8})"
    r"(?: has launched up to operation (\d{1,18})|( has not launched any operations)"
    r"| has status ([A-Z]+)| reported (.{1,60}?))? -- "
    r"(?:GPU (\d{1,4})(?: \(NVML (\d{1,4})\))? managed by process (\d{1,10}) on node (\S{1,60})|\[)"
)
LONE = re.compile(r"^Rank (\d{1,8}) has status ([A-Z]+)$")
LISTED = re.compile(r"^The (missing|unknown) ranks?: ([\d,]{1,1100})$")
LIST_ROOM = 1000
"""From so many characters on NCCL may have cut a list of ranks off, within its last number."""
PROCESS = re.compile(
    r"^Process (\d{1,10}) on node (\S{1,60}) managing GPUs? (\d{1,4})[\d,]{0,200}"
    r"(?: \(NVML (\d{1,4})[\d,]{0,200}\))?"
)
TIMEOUTS = re.compile(r"^Encountered (\d{1,8}) communication timeout")
LEFT = ("NOCOMM", "UNKNOWN")
"""States of a rank that answered and is in the communicator no more; the older word last."""


def parse(data: bytes, *, whole: bool = True) -> RasAnswer:
    """Read an answer as text; raises RasError where it is none.

    `whole`: as the service sends it, which begins with the version; else a part that somebody kept.
    """
    reader = _Reader()
    for line in data.decode("utf-8", "replace").splitlines():
        reader.take(line.strip())
    if reader.version is None and (whole or not (reader.groups or reader.found or reader.silent)):
        raise RasError("its text does not begin as that of NCCL")
    return reader.answer()


class _Reader:
    """What the lines so far say."""

    def __init__(self) -> None:
        self.version: str | None = None
        self.library = "NCCL"
        self.seconds: float | None = None
        self.timeouts: int | None = None
        self.job: RasJob | None = None
        self.totals = False
        """Whether the next numbers are the totals of a job whose nodes differ."""
        self.groups: list[tuple[int, int, str, str]] = []
        self.found: dict[tuple[int, int], dict[str, Any]] = {}
        self.silent: list[MissingRank] = []
        self.here: dict[str, Any] | None = None
        self.section = ""
        """Of a communicator: what its lines are about; else INCOMPLETE or DEAD of processes."""
        self.said: tuple[str, str, int] | None = None
        """What the ranks in the next lines have in common: kind, value, how many they are."""

    def take(self, line: str) -> None:
        if found := VERSION.match(line):
            self.library, self.version = found[1], found[2].partition("+")[0]
        elif found := TIME.match(line):
            self.seconds = float(found[1])
        elif found := GROUP.match(line):
            self.groups.append((int(found[2]), int(found[4]), found[6], found[7]))
        elif found := TITLE.match(line):
            self._title(found)
        elif found := TIMEOUTS.match(line):
            self.timeouts = int(found[1])
        elif line in (INCOMPLETE, DEAD):
            self.here, self.section = None, line
        elif self.here is not None:
            self._inside(line, self.here)
        elif not self.groups and self.section == "":
            self._summary(line)
        else:
            self._process(line)

    def _summary(self, line: str) -> None:
        if found := EVEN.match(line):
            nodes, each, _, processes, gpus = (int(number) for number in found.groups())
            self.job = RasJob(nodes=nodes, processes=processes, gpus=gpus, processes_per_node=each)
        elif self.totals and (found := UNEVEN.match(line)):
            nodes, processes, gpus = (int(number) for number in found.groups())
            self.job = RasJob(nodes=nodes, processes=processes, gpus=gpus)
        self.totals = TOTALS.match(line) is not None

    def _title(self, found: re.Match[str]) -> None:
        key = int(found[1]), int(found[2])
        self.here = self.found.setdefault(key, {"ranks": {}, "missing": [], "agreed": {}})
        all_of(self.found, LIMIT_COMMUNICATORS, "communicators")
        self.here["name"] = f"0x{found[3].lstrip('0') or '0'}"
        self.section, self.said = found[4], None

    def _process(self, line: str) -> None:
        found = PROCESS.match(line)
        if found and self.section in (INCOMPLETE, DEAD):
            self.silent.append(
                MissingRank(
                    rank=-1,
                    pid=int(found[1]),
                    host=found[2],
                    cuda_device=int(found[3]),
                    nvml_device=int(found[4] or found[3]),
                    unresponsive=True,
                    dead=self.section == DEAD,
                )
            )
            all_of(self.silent, LIMIT_RANKS, "silent processes")

    def _inside(self, line: str, here: dict[str, Any]) -> None:
        if found := COUNTS.match(line):
            self.section, self.said = f"counts {found[1]}", None
        elif line == OLD_COUNTS:
            self.section, self.said = "counts collective", None
        elif found := MANY.match(line):
            self.said = ("launched", found[2], int(found[1]))
        elif found := NONE.match(line):
            self.said = ("launched", "0", int(found[1]))
        elif found := STATUS.match(line):
            self.said = ("status", found[2], int(found[1]))
        elif found := REPORTED.match(line):
            self.said = ("reported", found[2], int(found[1]))
        elif found := RANK.match(line):
            self._rank(found, here)
            return
        elif found := LISTED.match(line):
            self._listed(found, here)
        elif found := LONE.match(line):
            _missing(here, (int(found[1]),), unresponsive=False)
        if self.said and self.said[0] == "launched":
            here["agreed"][self._function(), int(self.said[1])] = self.said[2]

    def _listed(self, found: re.Match[str], here: dict[str, Any]) -> None:
        numbers = [int(word) for word in found[2].split(",") if 0 < len(word) <= 8]
        whole = numbers if len(found[2]) < LIST_ROOM else numbers[:-1]
        _missing(here, whole, unresponsive=found[1] == "missing")

    def _function(self) -> str:
        return self.section.partition(" ")[2] or "collective"

    def _rank(self, found: re.Match[str], here: dict[str, Any]) -> None:
        rank = int(found[1])
        place: dict[str, Any] = {
            "cuda_device": _int(found[6]),
            "nvml_device": _int(found[7] or found[6]),
            "pid": _int(found[8]),
            "host": found[9],
        }
        if self.section == INCOMPLETE:
            _missing(here, (rank,), unresponsive=True, **place)
            return
        own = here["ranks"].setdefault(rank, {"place": place, "counts": {}, "errors": []})
        all_of(here["ranks"], LIMIT_RANKS, "ranks of a communicator")
        launched = found[2] or ("0" if found[3] else None)
        kind, value, _ = self.said or ("", "", 0)
        if launched is None and not found[4] and not found[5] and kind == "launched":
            launched = value
            key = self._function(), int(value)
            here["agreed"][key] = here["agreed"].get(key, 1) - 1
        if launched is not None:
            own["counts"][self._function()] = int(launched)
        if found[4] or kind == "status":
            own["state"] = found[4] or value
        if found[5] or kind == "reported":
            own["errors"].append((found[5] or value).lower())

    def answer(self) -> RasAnswer:
        communicators: list[RasCommunicator] = []
        every = range(sum(group[0] for group in self.groups))
        all_of(every, LIMIT_COMMUNICATORS, "communicators")
        for number, (count, size, state, marks) in enumerate(self.groups):
            plain = _communicator({"ranks": {}, "missing": [], "agreed": {}}, size, state, marks)
            for at in range(count):
                told = self.found.get((number, at))
                own = plain if told is None else _communicator(told, size, state, marks)
                communicators.append(own)
        return RasAnswer(
            form=AnswerForm.TEXT,
            version=self.version,
            library=self.library,
            # NCCL 2.27 lists communicators without a rank while some are taken down (its issue
            # 1762), with numbers that are no ranks.
            communicators=tuple(
                _joined(each, self.silent, self.job) for each in communicators if each.size
            ),
            seconds=self.seconds,
            timeouts=self.timeouts,
            silent=tuple(self.silent),
            job=self.job,
        )


def _missing(here: dict[str, Any], ranks: Any, *, unresponsive: bool, **place: Any) -> None:
    for rank in ranks:
        here["missing"].append(MissingRank(rank=rank, unresponsive=unresponsive, **place))
    all_of(here["missing"], LIMIT_RANKS, "missing ranks")


def _communicator(told: dict[str, Any], size: int, state: str, marks: str) -> RasCommunicator:
    left = [rank for rank, own in sorted(told["ranks"].items()) if own.get("state") in LEFT]
    return RasCommunicator(
        name=told.get("name"),
        size=size,
        state=None if state in LEFT else state,
        marks=tuple(mark for mark in marks.split(",") if mark != "OK"),
        ranks=tuple(
            RasRank(
                rank=rank,
                **own["place"],
                state=own.get("state"),
                errors=tuple(own["errors"]),
                counts=tuple(own["counts"].items()),
            )
            for rank, own in sorted(told["ranks"].items())
            if rank not in left and rank < size
        ),
        missing=(
            *(lost for lost in told["missing"] if lost.rank < size),
            *(
                MissingRank(rank=rank, unresponsive=False, **told["ranks"][rank]["place"])
                for rank in left
                if rank < size
            ),
        ),
        agreed=tuple(
            (function, count, launched)
            for (function, launched), count in told["agreed"].items()
            if count > 0
        ),
    )


def _joined(
    comm: RasCommunicator, silent: list[MissingRank], job: RasJob | None
) -> RasCommunicator:
    """Give the one missing rank the one silent process, where the communicator is the whole job.

    NCCL 2.24 and 2.25 name ranks and processes apart.
    """
    if len(comm.missing) != 1 or len(silent) != 1 or job is None:
        return comm
    lost, process = comm.missing[0], silent[0]
    whole = comm.size == job.processes == job.gpus
    if not whole or lost.pid is not None or not lost.unresponsive:
        return comm
    return msgspec.structs.replace(
        comm, missing=(msgspec.structs.replace(process, rank=lost.rank),)
    )


def _int(text: str | None) -> int | None:
    return int(text) if text else None
