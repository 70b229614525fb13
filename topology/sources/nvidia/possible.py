"""Answers of NVML that no GPU can give: a broken driver's nonsense is taken for a refusal."""

from __future__ import annotations

import re
from typing import Any

from ...model.part import Raw
from ..files.library_answers import is_whole
from ..files.limits import (
    BYTES,
    CODE,
    COUNT,
    DEGREES,
    FLAG,
    HIGHEST_MEGAHERTZ,
    LANES,
    MEGAHERTZ,
    MEMORY,
    THRESHOLD,
    UNKNOWN,
    doubtful,
    possible,
    wrong,
)
from .answers import FIELDS, NO_TEXT, RECOVERY_FIELDS

IMPOSSIBLE = {"error": "NVMLError_Impossible: an answer that no GPU can give"}
"""Stands for nonsense. The name is that of an error of the library, so it counts as a failure."""
_ZERO = {"error": "the driver says 0"}
"""Stands for a 0 where there is always more: that is how a driver says nothing."""
_MILLIWATTS = (0, 10**8)
_LIMIT = (5_000, 2 * 10**7)
"""Milliwatts that a board may take: the smallest takes 10 W, a whole superchip less than 3 kW."""
_GENERATION = (0, 15)
_MEMORY = {"total": MEMORY, "free": BYTES, "used": BYTES}
_BAR1 = {"bar1Total": (2**24, 2**42), "bar1Free": BYTES, "bar1Used": BYTES}
_ANSWERS: dict[str, Any] = {
    "nvmlDeviceGetMemoryInfo": _MEMORY,
    "nvmlDeviceGetMemoryInfo_v2": _MEMORY,
    "nvmlDeviceGetBAR1MemoryInfo": _BAR1,
    "nvmlDeviceGetMemoryBusWidth": (0, 10**6),
    "nvmlDeviceGetNumGpuCores": (0, 10**7),
    "nvmlDeviceGetMaxPcieLinkGeneration": _GENERATION,
    "nvmlDeviceGetGpuMaxPcieLinkGeneration": _GENERATION,
    "nvmlDeviceGetCurrPcieLinkGeneration": _GENERATION,
    "nvmlDeviceGetMaxPcieLinkWidth": LANES,
    "nvmlDeviceGetCurrPcieLinkWidth": LANES,
    "nvmlDeviceGetPowerManagementDefaultLimit": _LIMIT,
    "nvmlDeviceGetPowerManagementLimitConstraints": {0: _MILLIWATTS, 1: _MILLIWATTS},
    "nvmlDeviceGetEnforcedPowerLimit": _LIMIT,
    "nvmlDeviceGetPowerUsage": _MILLIWATTS,
    "nvmlDeviceGetVirtualizationMode": CODE,
    "nvmlDeviceGetEccMode": {0: FLAG, 1: FLAG},
    "nvmlDeviceGetMigMode": {0: FLAG, 1: FLAG},
    "nvmlDeviceGetPersistenceMode": FLAG,
    "nvmlDeviceGetComputeMode": CODE,
    "nvmlDeviceGetUtilizationRates": {"gpu": (0, 100), "memory": (0, 100)},
    "nvmlDeviceGetPerformanceState": (0, 32),
    "nvmlDeviceGetRemappedRows": {0: COUNT, 1: COUNT, 2: FLAG, 3: FLAG},
    "nvmlDeviceGetRetiredPagesPendingStatus": FLAG,
    "nvmlDeviceGetUnrepairableMemoryFlag_v1": FLAG,
    "nvmlDeviceGetCurrentClocksEventReasons": (0, 2**32),
    "fabric": {"state": CODE, "status": CODE, "healthMask": (0, 2**32), "healthSummary": CODE},
    "temp": DEGREES,
    **{f"maxclock{kind}": HIGHEST_MEGAHERTZ for kind in range(4)},
    "maxclock2": (100, MEGAHERTZ[1]),  # the memory's: 14001 with GDDR7
    **{f"clock{kind}": MEGAHERTZ for kind in range(4)},
    **{f"threshold{kind}": THRESHOLD for kind in range(4)},
    **{f"ecc{error}{counter}": COUNT for error in "01" for counter in "01"},
}
"""Key of a device's raw answer: the least and the most that it can be, whole or by its parts."""
_LINK = {"state": FLAG, "version": CODE, "remote_type": CODE, "cap0": FLAG}
_PAIR = {"ancestor": CODE, "p2p": {str(what): CODE for what in range(5)}}
_FIELDS = {
    "NVML_FI_DEV_NVLINK_GET_STATE": FLAG,
    "NVML_FI_DEV_NVLINK_GET_SPEED": (0, 10**7),
    "NVML_FI_DEV_NVLINK_GET_VERSION": CODE,
    "NVML_FI_DEV_NVLINK_LINK_COUNT": CODE,
    "NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY": COUNT,
    "NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY": COUNT,
    "NVML_FI_DEV_NVLINK_ERROR_DL_CRC": COUNT,
    "NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS": COUNT,
    "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION": CODE,
    "NVML_FI_DEV_POWER_INSTANT": _MILLIWATTS,
    "NVML_FI_DEV_MEMORY_TEMP": DEGREES,
}
_UUID = "nvmlDeviceGetUUID"
_FORM = re.compile(r"(GPU|MIG)-[\w-]+$")
_NEVER_ZERO = (
    "nvmlDeviceGetPowerManagementDefaultLimit", "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetMaxPcieLinkGeneration", "nvmlDeviceGetGpuMaxPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkGeneration", "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetCurrPcieLinkWidth", "maxclock0", "maxclock1", "maxclock2", "temp",
)  # fmt: skip
_SIZES = (
    ("nvmlDeviceGetMemoryInfo", "total"),
    ("nvmlDeviceGetMemoryInfo_v2", "total"),
    ("nvmlDeviceGetBAR1MemoryInfo", "bar1Total"),
)
_MIB, _MORE = 2**20, 1.02
_PAGES = ("retired0", "retired1")


def plausible(device: dict[str, Raw], *, links: bool = True) -> dict[str, Raw]:
    """A device's raw answer with refusals in place of what no GPU can answer.

    `links`: also in what it says of each of its links, which are many.
    """
    changed = doubtful(
        device,
        _ANSWERS.get,
        never_zero=_NEVER_ZERO,
        lists=_PAGES,
        impossible=IMPOSSIBLE,
        zero=_ZERO,
    )
    for key, part in _SIZES:
        if (sizes := device.get(key)) and isinstance(sizes, dict):
            if sizes.get(part) == 0:
                changed[key] = _ZERO
            elif not _adds_up(sizes):
                changed[key] = IMPOSSIBLE
    uuid = device.get(_UUID)
    if isinstance(uuid, str) and uuid.strip() not in NO_TEXT and not _FORM.match(uuid):
        changed[_UUID] = IMPOSSIBLE
    for key in (FIELDS, RECOVERY_FIELDS):
        _take(changed, key, device.get(key), _fields(device.get(key)))
    if links:
        _take(changed, "links", device.get("links"), plausible_links(device.get("links")))
    _take(changed, "pairs", device.get("pairs"), _records(device.get("pairs"), _PAIR))
    return device | changed if changed else device


def _adds_up(sizes: dict[str, Raw]) -> bool:
    """Whether the parts of a memory are no more than it; a window of PCI is a power of two."""
    numbers = {key: size for key, size in sizes.items() if is_whole(size) and size not in UNKNOWN}
    if (window := numbers.get("bar1Total")) is not None:
        return window % _MIB == 0
    parts = sum(numbers.get(part, 0) for part in ("free", "used"))
    return parts <= _MORE * numbers.get("total", parts)


def _take(changed: dict[str, Raw], key: str, before: Raw, after: Raw) -> None:
    if after is not before and after != before:
        changed[key] = after


def plausible_links(listed: Raw) -> Raw:
    """The same of the links of a device alone."""
    return _records(listed, _LINK)


def _records(listed: Raw, limits: dict[str, Any]) -> Raw:
    return [_record(item, limits) for item in listed] if isinstance(listed, list) else listed


def _record(item: Raw, limits: dict[str, Any]) -> Raw:
    """A link or a pair with refusals in place of nonsense."""
    if not isinstance(item, dict):
        return item
    changed: dict[str, Raw] = dict.fromkeys(wrong(item, limits.get), IMPOSSIBLE)
    if "p2p" in changed:
        changed["p2p"] = dict.fromkeys(item["p2p"], IMPOSSIBLE)
    _take(changed, FIELDS, item.get(FIELDS), _fields(item.get(FIELDS)))
    return item | changed if changed else item


def _fields(table: Raw) -> Raw:
    if not isinstance(table, dict):
        return table
    odd = [
        name
        for name, answer in table.items()
        if isinstance(answer, dict)
        and (limits := _FIELDS.get(name)) is not None
        and not possible(answer.get("value", answer.get("ull")), limits)
    ]
    return table | dict.fromkeys(odd, IMPOSSIBLE) if odd else table
