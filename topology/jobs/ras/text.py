"""RAS answers as text, which NCCL 2.24 and later print (src/ras/client_support.cc).

A text names one by one only the ranks that differ from the others: `agreed` counts the rest.
"""

from __future__ import annotations

import re
from typing import Any

from .answer import (
    LIMIT_COMMUNICATORS,
    LIMIT_RANKS,
    MissingRank,
    RasAnswer,
    RasCommunicator,
    RasError,
    RasRank,
)

VERSION = re.compile(r"NCCL version (\S{1,40})")
TIME = re.compile(r"^Communicators\.\.\. \((\d{1,6}\.\d{1,6})s\)")
GROUP = re.compile(
    r"^ *(\d{1,6}) +(\d{1,6}) +(\d{1,7}) +[\d-]{1,15} +(\d{1,8}) +(\d{1,8}) +([A-Z]+) +([A-Z,]+)$"
)
"""Number, communicators, nodes, ranks of each, ranks together, status, errors."""
TITLE = re.compile(r"^#(\d{1,6})-(\d{1,6}) \(([0-9a-f]{1,16})\) (INCOMPLETE|ERROR|MISMATCH)$")
COUNTS = re.compile(r"^  Communicator ranks have different (\S{1,40}) operation counts$")
OLD_COUNTS = "  Communicator ranks have different collective operation counts"
MANY = re.compile(r"^  (\d{1,8}) ranks have launched up to operation (\d{1,18})$")
NONE = re.compile(r"^  (\d{1,8}) ranks have not launched any operations$")
STATUS = re.compile(r"^  (\d{1,8}) ranks have status ([A-Z]+)$")
REPORTED = re.compile(r"^  (\d{1,8}) ranks reported (.{1,60})$")
RANK = re.compile(
    r"^  Rank (\d{1,8})"
    r"(?: has launched up to operation (\d{1,18})|( has not launched any operations)"
    r"| has status ([A-Z]+)| reported (.{1,60}?))? -- "
    r"(?:GPU (\d{1,4})(?: \(NVML (\d{1,4})\))? managed by process (\d{1,10}) on node (\S{1,60})|\[)"
)
PROCESS = re.compile(r"^  Process (\d{1,10}) on node (\S{1,60}) managing GPUs? (\d{1,4})")
TIMEOUTS = re.compile(r"^  Encountered (\d{1,8}) communication timeout")


def parse(data: bytes) -> RasAnswer:
    """Read an answer as text; raises RasError where it is none."""
    lines = data.decode("utf-8", "replace").splitlines()
    reader = _Reader()
    for line in lines:
        reader.take(line)
    if reader.version is None:
        raise RasError("its text does not begin as that of NCCL")
    return reader.answer()


class _Reader:
    """What the lines so far say."""

    def __init__(self) -> None:
        self.version: str | None = None
        self.seconds: float | None = None
        self.timeouts: int | None = None
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
            self.version = found[1].partition("+")[0]
        elif found := TIME.match(line):
            self.seconds = float(found[1])
        elif found := GROUP.match(line):
            self.groups.append((int(found[2]), int(found[4]), found[6], found[7]))
        elif found := TITLE.match(line):
            self._title(found)
        elif found := TIMEOUTS.match(line):
            self.timeouts = int(found[1])
        elif line in ("INCOMPLETE", "DEAD"):
            self.here, self.section = None, line
        elif self.here is None:
            self._process(line)
        else:
            self._inside(line, self.here)

    def _title(self, found: re.Match[str]) -> None:
        key = int(found[1]), int(found[2])
        if key not in self.found and len(self.found) >= LIMIT_COMMUNICATORS:
            self.here = None
            return
        self.here = self.found.setdefault(key, {"ranks": {}, "missing": [], "agreed": {}})
        self.here["name"] = f"0x{found[3].lstrip('0') or '0'}"
        self.section, self.said = found[4], None

    def _process(self, line: str) -> None:
        found = PROCESS.match(line)
        if found and self.section in ("INCOMPLETE", "DEAD") and len(self.silent) < LIMIT_RANKS:
            self.silent.append(
                MissingRank(
                    rank=-1,
                    pid=int(found[1]),
                    host=found[2],
                    cuda_device=int(found[3]),
                    unresponsive=True,
                    dead=self.section == "DEAD",
                )
            )

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
        if self.said and self.said[0] == "launched":
            here["agreed"][self._function(), int(self.said[1])] = self.said[2]

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
        if self.section == "INCOMPLETE":
            if len(here["missing"]) < LIMIT_RANKS:
                here["missing"].append(MissingRank(rank=rank, unresponsive=True, **place))
            return
        if rank not in here["ranks"] and len(here["ranks"]) >= LIMIT_RANKS:
            return
        own = here["ranks"].setdefault(rank, {"place": place, "counts": {}, "errors": []})
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
        for number, (count, size, state, marks) in enumerate(self.groups):
            for at in range(min(count, LIMIT_COMMUNICATORS - len(communicators))):
                told = self.found.get((number, at), {"ranks": {}, "missing": [], "agreed": {}})
                communicators.append(_communicator(told, size, state, marks))
        return RasAnswer(
            form="text",
            version=self.version,
            communicators=tuple(communicators),
            seconds=self.seconds,
            timeouts=self.timeouts,
            silent=tuple(self.silent),
        )


def _communicator(told: dict[str, Any], size: int, state: str, marks: str) -> RasCommunicator:
    return RasCommunicator(
        name=told.get("name"),
        size=size,
        state=state,
        marks=tuple(mark for mark in marks.split(",") if mark != "OK"),
        ranks=tuple(
            RasRank(
                rank=rank,
                **own["place"],
                state=None if own.get("state") == "NOCOMM" else own.get("state"),
                errors=tuple(own["errors"]),
                counts=tuple(own["counts"].items()),
            )
            for rank, own in sorted(told["ranks"].items())
            if own.get("state") != "NOCOMM"
        ),
        missing=(
            *told["missing"],
            *(
                MissingRank(rank=rank, unresponsive=False, **own["place"])
                for rank, own in sorted(told["ranks"].items())
                if own.get("state") == "NOCOMM"
            ),
        ),
        agreed=tuple(
            (function, count, launched)
            for (function, launched), count in told["agreed"].items()
            if count > 0
        ),
    )


def _int(text: str | None) -> int | None:
    return int(text) if text else None
