"""The cells of NVML: every function that is asked, with every error, every lie, and blocking."""

from __future__ import annotations

from functools import cache

from tests.support.faults.cells import BLOCKS, Cell, Table
from tests.support.faults.facts import Answer, answer
from tests.support.faults.machine import read
from tests.support.faults.nvml_functions import GETTERS, LISTS, OPENING

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
LENGTH = ("nvmlDeviceGetRetiredPages", *LISTS)
"""Functions that are told a length by this error, and are asked again."""
LENGTH_IS_TOLD = "insufficient size"
SPARE = ("nvmlDeviceGetPowerUsage", "nvmlDeviceGetGpuFabricInfo", "nvmlDeviceGetTemperature")
"""Functions that are asked only where a newer one is missing."""


def harmless(cell: Cell) -> bool:
    """Whether the node may be called healthy all the same."""
    if cell.function in SPARE or (cell.function in LENGTH and cell.way == LENGTH_IS_TOLD):
        return True
    if cell.way == BLOCKS:
        return False
    return cell.way in ANSWERS and cell.function not in (*MINIMUM, *OPENING)


def of_gpu(function: str) -> bool:
    """Whether a function is about a single GPU."""
    return function.startswith("nvmlDevice") and "Count" not in function


@cache
def answered(cell: Cell) -> Answer:
    """What a check says of a machine that does not block."""
    return answer(read(NVML.profile, [NVML.fault(cell)]))


@cache
def sound() -> Answer:
    """What it says of the machine without a fault."""
    return answer(read(NVML.profile))


NVML = Table(
    profile="gb200-4",
    codes=CODES,
    opening=OPENING,
    getters=GETTERS,
    of_gpu=of_gpu,
    harmless=harmless,
    sound=sound,
    diagnose=answered,
)
