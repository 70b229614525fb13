"""Every function of NVML that is asked, each with every error, on one GPU and on all of them.

`python -m tests.support.faults.matrix [PROFILE]` prints the whole table of verdicts.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache

import msgspec

from gputop.topology.diagnosis.engine import HEALTHY
from tests.support.faults.machine import diagnosed
from tests.support.faults.nvml import GETTERS, OPENING
from tests.support.faults.plan import Fault

PROFILE = "h200-2"
CODES = {
    "uninitialized": 1, "invalid argument": 2, "not supported": 3, "no permission": 4,
    "not found": 6, "insufficient size": 7, "insufficient power": 8, "driver not loaded": 9,
    "timeout": 10, "irq issue": 11, "library not found": 12, "function not found": 13,
    "corrupted inforom": 14, "gpu is lost": 15, "reset required": 16, "blocked by the system": 17,
    "version mismatch": 18, "in use": 19, "no memory": 20, "no data": 21,
    "insufficient resources": 23, "not ready": 27, "gpu not found": 28, "invalid state": 29,
    "unknown": 999,
}  # fmt: skip
"""NVML's errors, nvml.h nvmlReturn_t."""
ANSWERS = ("not supported", "no permission", "function not found")
"""Errors that answer a question: the product, the user or the driver does not have it."""
MINIMUM = (
    "nvmlDeviceGetUUID", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetNvLinkState",
)  # fmt: skip
"""Functions that give the least that has to be known before a node is called healthy."""
LENGTH = ("nvmlDeviceGetRetiredPages", *(name for name in GETTERS if name.endswith("Processes_v3")))
"""Functions that are told a length by this error, and are asked again."""
LENGTH_IS_TOLD = "insufficient size"
SPARE = ("nvmlDeviceGetPowerUsage", "nvmlDeviceGetGpuFabricInfo", "nvmlDeviceGetTemperature")
"""Functions that are asked only where a newer one is missing."""
GPU = 1
"""The index of the one GPU that is faulty."""


class Cell(msgspec.Struct, frozen=True):
    """One function with one error."""

    function: str
    error: str
    one: bool
    """Whether only one GPU has it."""
    bare: bool = False
    """Whether /sys and /proc are empty."""

    @property
    def harmless(self) -> bool:
        """Whether the node may be called healthy all the same."""
        if self.function in SPARE or (self.function in LENGTH and self.error == LENGTH_IS_TOLD):
            return True
        return self.error in ANSWERS and self.function not in (*MINIMUM, *OPENING)


def cells() -> Iterator[Cell]:
    """Every cell of the table."""
    for function in (*OPENING, *GETTERS):
        of_gpu = function.startswith("nvmlDevice") and "Count" not in function
        for error in CODES:
            for one in (True, False) if of_gpu else (False,):
                for bare in (False, True):
                    yield Cell(function, error, one, bare)


@cache
def verdict(cell: Cell, profile: str = PROFILE) -> str:
    """What a check says."""
    gpus = (GPU,) if cell.one else None
    fault = Fault(function=cell.function, code=CODES[cell.error], gpus=gpus)
    return diagnosed(profile, [fault], bare=cell.bare).verdict


def main(profile: str) -> int:
    """Print the table: a line for each function, with its errors by verdict."""
    wrong = 0
    table: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    totals: Counter[str] = Counter()
    for cell in cells():
        said = verdict(cell, profile)
        totals[said] += 1
        where = f"{'one' if cell.one else 'all'}{', bare' if cell.bare else ''}"
        if said == HEALTHY and not cell.harmless:
            wrong += 1
            where += " !"
        table[cell.function][said].append(f"{cell.error} ({where})")
    for function, verdicts in table.items():
        print(function)  # noqa: T201 - a script
        for said, errors in verdicts.items():
            grouped: dict[str, list[str]] = defaultdict(list)
            for error in errors:
                name, _, where = error.partition(" (")
                grouped[name].append(where.rstrip(")"))
            everywhere = max(len(places) for places in grouped.values())
            texts = [
                name if len(places) == everywhere else f"{name} ({'; '.join(places)})"
                for name, places in grouped.items()
            ]
            print(f"    {said}: {', '.join(texts)}")  # noqa: T201
    print(f"{profile}: {dict(totals)}; {wrong} that must not be healthy")  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else PROFILE))
