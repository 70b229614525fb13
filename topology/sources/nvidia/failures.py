"""Which of NVML's refusals mean that the driver failed, not that a product lacks something."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeGuard

import msgspec

from ...model.part import Raw
from ...model.snapshot import Problem
from ..files.answers import under
from ..files.failures import CUT, ERROR, LOST, RESET, Unanswered, problems
from ..files.library_answers import dicts
from .answers import FIELDS, OUR_LIMIT, RECOVERY_FIELDS, reason
from .questions import EACH_TIME, IDENTITY, OTHERS, SETTINGS, SLOWLY, SYSTEM
from .words import RETURNS, word

_ANSWERS = (
    "NotSupported", "NoPermission", "FunctionNotFound", "ArgumentVersionMismatch", "Deprecated",
    "VgpuEccNotSupported", "LibraryMismatch",
)  # fmt: skip
"""Endings of the binding's errors for what a product, a driver or a user does not have."""
_FIELD_ANSWERS = (0, 2, 3, 4, 13, 22, 25, 26)
"""The same as codes of one field value. 2: this driver does not know the number of the field."""
_KINDS = {"GpuIsLost": LOST, "ResetRequired": RESET, OUR_LIMIT: CUT}
_CODES = {15: LOST, 16: RESET}
_END_OF_LINKS = "InvalidArgument"
"""How the driver answers for a link beyond the last one."""
_FAILED = "NVMLError"
"""How the name of an error begins that is the library's and not the binding's."""
_CALLS = {
    "cpu_affinity": "nvmlDeviceGetCpuAffinity",
    "mem_affinity": "nvmlDeviceGetMemoryAffinity",
    "fabric": "nvmlDeviceGetGpuFabricInfoV",
    "temp": "nvmlDeviceGetTemperature",
    "nvlink_counters": "nvmlDeviceGetFieldValues",
    "pcie_counters": "nvmlDeviceGetFieldValues",
    **{f"maxclock{kind}": "nvmlDeviceGetMaxClockInfo" for kind in range(4)},
    **{f"clock{kind}": "nvmlDeviceGetClockInfo" for kind in range(4)},
    **{f"threshold{kind}": "nvmlDeviceGetTemperatureThreshold" for kind in range(4)},
    **{f"ecc{error}{kind}": "nvmlDeviceGetTotalEccErrors" for error in "01" for kind in "01"},
    **{f"retired{cause}": "nvmlDeviceGetRetiredPages" for cause in range(2)},
}
"""Keys of a device's raw answer that are no names of functions."""
_LINK_CALLS = {
    "version": "nvmlDeviceGetNvLinkVersion",
    "remote_pci": "nvmlDeviceGetNvLinkRemotePciInfo",
    "remote_type": "nvmlDeviceGetNvLinkRemoteDeviceType",
    "cap0": "nvmlDeviceGetNvLinkCapability",
}
_ASKED = frozenset((*IDENTITY, *SETTINGS, *EACH_TIME, *SLOWLY, *OTHERS))
"""Functions that the readers ask; a recording of somebody else may hold others."""


def failed(
    source: str,
    system: Raw,
    devices: Iterable[tuple[str | None, dict[str, Raw], Iterable[Unanswered]]],
) -> tuple[Problem, ...]:
    """What NVML failed to answer: of the system, and of each device.

    A device is its address, its answers, and what `of_links` gives for its links.
    """
    found = list(_of_system(system))
    for address, device, links in devices:
        found += _of_device(address or "", device, links)
    return problems(source, found)


def _of_system(system: Raw) -> Iterator[Unanswered]:
    for name in SYSTEM if isinstance(system, dict) else ():
        yield from _failure(name, system.get(name))


def of_links(links: Raw) -> Iterator[Unanswered]:
    """What NVML failed to answer about the links of one device, without its address."""
    for link in dicts(links):
        yield from _of_link(link)


def _of_device(
    address: str, device: dict[str, Raw], links: Iterable[Unanswered]
) -> Iterator[Unanswered]:
    if address and "lost" in device:
        yield Unanswered(LOST, reason(str(device["lost"])), "the driver gave up this GPU", address)
    refused = [
        key for key, answer in device.items() if type(answer) is dict and _is_refusal(answer)
    ]
    for key in refused:
        if key in _ASKED or key in _CALLS:
            yield from _failure(_CALLS.get(key, key), device[key], address)
    for key in (FIELDS, RECOVERY_FIELDS):
        yield from _of_fields(device.get(key), address)
    # NVML gives the end of the registration as a code of its own: a lost GPU is no fabric fault.
    registration = device.get("fabric")
    code = under(registration, "status")
    if isinstance(code, int) and code in _CODES:
        yield Unanswered(_CODES[code], word(RETURNS, code), _CALLS["fabric"], address)
    for failure in links:
        yield msgspec.structs.replace(failure, device=address)
    for pair in dicts(device.get("pairs")):
        yield from _of_pair(pair, address)
    for part in dicts(device.get("mig")):
        for key in _ASKED.intersection(part):
            yield from _failure(key, part[key], address)


def _of_pair(pair: dict[str, Raw], address: str) -> Iterator[Unanswered]:
    yield from _failure("nvmlDeviceGetTopologyCommonAncestor", pair.get("ancestor"), address)
    granted = pair.get("p2p")
    for answer in granted.values() if isinstance(granted, dict) else ():
        yield from _failure("nvmlDeviceGetP2PStatus", answer, address)


def _of_link(link: dict[str, Raw]) -> Iterator[Unanswered]:
    if "error" in link:
        if _END_OF_LINKS not in str(link["error"]):
            yield from _failure("nvmlDeviceGetNvLinkState", link)
        return
    if link.get("state") == 0:
        return  # of a link that is down the driver knows little, and a rule reports it
    for key, call in _LINK_CALLS.items():
        if _is_refusal(answer := link.get(key)):
            yield from _failure(call, answer)
    yield from _of_fields(link.get(FIELDS))


def _of_fields(table: Raw, address: str = "") -> Iterator[Unanswered]:
    for name, answer in table.items() if isinstance(table, dict) else ():
        if _is_refusal(answer):
            call = "nvmlDeviceGetFieldValues" if "error" in answer else name
            yield from _failure(call, answer, address)


def _is_refusal(answer: Raw) -> TypeGuard[dict[str, Raw]]:
    return isinstance(answer, dict) and ("error" in answer or "ret" in answer)


def _failure(question: str, answer: Raw, address: str = "") -> Iterator[Unanswered]:
    if not _is_refusal(answer):
        return
    code = answer.get("ret")
    if isinstance(code, int) and code not in _FIELD_ANSWERS:
        yield Unanswered(_CODES.get(code, ERROR), word(RETURNS, code), question, address)
    text = str(answer.get("error", ""))
    name = text.partition(":")[0]
    if name == OUR_LIMIT or (name.startswith(_FAILED) and not name.endswith(_ANSWERS)):
        kind = _KINDS.get(name.removeprefix(f"{_FAILED}_"), ERROR)
        yield Unanswered(kind, reason(text), question, address)
