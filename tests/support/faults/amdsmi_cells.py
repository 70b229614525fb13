"""The cells of amdsmi: every function that is asked, with every status, every lie, and blocking."""

from __future__ import annotations

from functools import cache

from tests.support.faults.amdsmi import GETTERS, OPENING, PROCESSORS, SOCKETS
from tests.support.faults.cells import BLOCKS, Cell, Table
from tests.support.faults.facts import Answer, answer
from tests.support.faults.machine import read

CODES = {
    "inval": 1, "not supported": 2, "not yet implemented": 3, "fail load module": 4,
    "fail load symbol": 5, "drm error": 6, "api failed": 7, "timeout": 8, "retry": 9,
    "no perm": 10, "interrupt": 11, "io": 12, "address fault": 13, "file error": 14,
    "out of resources": 15, "internal exception": 16, "input out of bounds": 17, "init error": 18,
    "refcount overflow": 19, "directory not found": 20, "busy": 30, "not found": 31,
    "not init": 32, "no slot": 33, "driver not loaded": 34, "more data": 39, "no data": 40,
    "insufficient size": 41, "unexpected size": 42, "unexpected data": 43, "non amd cpu": 44,
    "no energy drv": 45, "no msr drv": 46, "no hsmp drv": 47, "no hsmp sup": 48,
    "no hsmp msg sup": 49, "hsmp timeout": 50, "no drv": 51, "file not found": 52,
    "arg ptr null": 53, "amdgpu restart err": 54, "setting unavailable": 55,
    "corrupted eeprom": 56, "map error": 0xFFFFFFFE, "unknown error": 0xFFFFFFFF,
}  # fmt: skip
"""The statuses of amdsmi, amdsmi.h amdsmi_status_t."""
ANSWERS = ("not supported", "not yet implemented", "no perm", "no data")
"""Statuses that answer a question: the product, the user or the driver does not have it."""
MINIMUM = ()
"""Functions that give the least that has to be known before a node is called healthy."""


def harmless(cell: Cell) -> bool:
    """Whether the node may be called healthy all the same."""
    if cell.way == BLOCKS or cell.function in OPENING:
        return False
    return cell.way in ANSWERS and cell.function not in MINIMUM


def of_gpu(function: str) -> bool:
    """Whether a function is about a single GPU."""
    return function not in ("amdsmi_init", SOCKETS, PROCESSORS, "amdsmi_get_lib_version")


@cache
def answered(cell: Cell) -> Answer:
    """What a check says of a machine that does not block."""
    return answer(read(AMDSMI.profile, [AMDSMI.fault(cell)]))


@cache
def sound() -> Answer:
    """What it says of the machine without a fault."""
    return answer(read(AMDSMI.profile))


AMDSMI = Table(
    profile="mi300x-2",
    codes=CODES,
    opening=OPENING,
    getters=GETTERS,
    of_gpu=of_gpu,
    harmless=harmless,
    sound=sound,
    diagnose=answered,
)
