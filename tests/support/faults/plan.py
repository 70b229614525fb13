"""What goes wrong: which functions of a library, on which GPUs, and how."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

VARIABLE = "GPUTOP_FAULTS"
"""Environment variable with a Plan as JSON, for a program that runs as a process of its own."""
OTHER, STALE = "other GPU", "stale"
_blocked = threading.Event()


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which functions misbehave. Without a way, they answer as they should."""

    function: str = "*"
    """Name of the C function; a pattern such as "nvmlDeviceGet*"."""
    but: tuple[str, ...] = ()
    """Functions that match the pattern and work all the same."""
    gpus: tuple[int, ...] | None = None
    """Indices; None for all, and for functions that are about no GPU."""
    code: int = 0
    """What it returns instead of success."""
    blocks: bool = False
    """Whether it does not return before `release` is called."""
    fills: str = ""
    """Bytes in hexadecimal that it writes over and over into everything it has to write."""
    factor: float = 1.0
    """What it multiplies the numbers of its answer with."""
    stands_in: str = ""
    """OTHER: it answers for the next GPU; STALE: it answers what was true at an earlier time."""
    after: int = 0
    """How many times it answers as it should before it begins."""
    answer: Any = None
    """What it answers instead of the truth, as the profile writes answers."""

    def hits(self, function: str, gpu: int | None, calls: int = 1) -> bool:
        """Whether a call is concerned; `calls`: how many of this function there were with it."""
        return (
            calls > self.after
            and fnmatchcase(function, self.function)
            and not any(fnmatchcase(function, name) for name in self.but)
            and (self.gpus is None or gpu is None or gpu in self.gpus)
        )


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A machine and its faults."""

    profile: str
    """Name of a profile."""
    faults: tuple[Fault, ...] = ()

    def to_json(self) -> str:
        """The plan as the value of VARIABLE."""
        return msgspec.json.encode(self).decode()


def read_plan(text: str) -> Plan:
    """Read what `to_json` wrote."""
    return msgspec.convert(json.loads(text), Plan)


def scaled(answer: Any, factor: float) -> Any:
    """An answer with its numbers in another unit."""
    if isinstance(answer, dict):
        keep = "error" in answer or "ret" in answer
        return answer if keep else {key: scaled(value, factor) for key, value in answer.items()}
    if isinstance(answer, list):
        return [scaled(value, factor) for value in answer]
    usual = isinstance(answer, int) and not isinstance(answer, bool) and factor != 1.0
    return int(answer * factor) if usual else answer


def fault_of(
    faults: Sequence[Fault], function: str, gpu: int | None, calls: int = 1
) -> Fault | None:
    """The first fault of a call; one that blocks does so here."""
    found = next((fault for fault in faults if fault.hits(function, gpu, calls)), None)
    if found is not None and found.blocks:
        _blocked.wait()
    return found


def release() -> None:
    """Let all calls go on that are blocked, so that their threads can end."""
    global _blocked
    before, _blocked = _blocked, threading.Event()
    before.set()
