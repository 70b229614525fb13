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
    answer: Any = None
    """What it answers instead of the truth, as the profile writes answers."""

    def hits(self, function: str, gpu: int | None) -> bool:
        """Whether a call is concerned."""
        return (
            fnmatchcase(function, self.function)
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


def fault_of(faults: Sequence[Fault], function: str, gpu: int | None) -> Fault | None:
    """The first fault of a call; one that blocks does so here."""
    found = next((fault for fault in faults if fault.hits(function, gpu)), None)
    if found is not None and found.blocks:
        _blocked.wait()
    return found


def release() -> None:
    """Let all calls go on that are blocked, so that their threads can end."""
    global _blocked
    before, _blocked = _blocked, threading.Event()
    before.set()
