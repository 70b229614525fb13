"""libnvidia-ml.so.1 as a Python object: `ctypes.CDLL` hands it to the real binding.

A function takes what the binding passes (handles, numbers, structures by reference), writes the
profile's answer into it and returns an NVML code. The answers are raw answers of the source `nvml`,
so that every demo and recording is a machine that can be asked.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from tests.support.faults.lies import MANY, fill, fill_all
from tests.support.faults.nvml_functions import (
    EXPORTED,
    LINK_ANSWERS,
    LISTED,
    NUMBERED,
    RENAMED,
)
from tests.support.faults.plan import OTHER, STALE, Fault, fault_of, scaled

FILE = "libnvidia-ml.so.1"
SUCCESS, INVALID_ARGUMENT, NOT_SUPPORTED = 0, 2, 3
INSUFFICIENT_SIZE, UNKNOWN = 7, 999
UNSIGNED_LONG_LONG = 3
"""NVML_VALUE_TYPE_UNSIGNED_LONG_LONG."""
FIRST_HANDLE = 0x1000
CODES = {
    "Uninitialized": 1,
    "InvalidArgument": INVALID_ARGUMENT,
    "NotSupported": NOT_SUPPORTED,
    "NoPermission": 4,
    "NotFound": 6,
    "FunctionNotFound": 13,
    "GpuIsLost": 15,
}
"""NVML codes of the refusals that demos and recordings hold, by the names of the binding."""


class Function:
    """A function of the library; the binding sets its types and calls it."""

    def __init__(self, name: str, call: Callable[[str, Sequence[Any]], int]) -> None:
        self.name, self._call = name, call
        self.restype: Any = None
        self.argtypes: Any = None

    def __call__(self, *arguments: Any) -> Any:
        if self.name == "nvmlErrorString":
            return b"an error of the library"
        return self._call(self.name, arguments)


class NvmlStandIn:
    """The library. `fields`: numbers of the field values by name, as the binding has them."""

    def __init__(
        self,
        raw: dict[str, Any],
        fields: dict[str, int],
        faults: Sequence[Fault] = (),
        earlier: dict[str, Any] | None = None,
    ) -> None:
        self._raw, self._earlier = raw, earlier or raw
        self._devices = raw["devices"]
        self._fields = {number: name for name, number in fields.items()}
        self.faults = tuple(faults)
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Function:
        if name not in EXPORTED:
            raise AttributeError(name)
        return Function(name, self._call)

    def _call(self, name: str, arguments: Sequence[Any]) -> int:
        self.calls.append(name)
        handled = bool(arguments) and isinstance(arguments[0], ctypes._Pointer)
        gpu = _index(arguments[0]) if handled else None
        if name == "nvmlDeviceGetHandleByIndex_v2":
            gpu = arguments[0].value
        fault = fault_of(self.faults, name, gpu, self.calls.count(name))
        if fault is not None and fault.code:
            return fault.code
        if fault is not None and fault.fills:
            return _nonsense(name, arguments, fault.fills)
        lie = fault.answer if fault is not None else None
        if name == "nvmlDeviceGetHandleByIndex_v2":
            if gpu is None or gpu >= len(self._devices):
                return INVALID_ARGUMENT
            _write_pointer(arguments[1]._obj, FIRST_HANDLE + gpu)
            return SUCCESS
        if fault is not None and lie is None:
            lie = self._distorted(name, gpu, arguments, fault)
        if gpu is None:
            return self._of_system(name, arguments, lie)
        if not 0 <= gpu < len(self._devices):
            return INVALID_ARGUMENT
        device = self._devices[gpu]
        if name == "nvmlDeviceGetFieldValues":
            return self._field_values(device, arguments, lie)
        if name in LISTED:
            return _listed(self._answer(name, device, arguments, lie), arguments)
        if name == "nvmlDeviceGetMemoryInfo_v2":
            return NOT_SUPPORTED if lie is None else _filled([arguments[1]], lie)
        return _filled(arguments, self._answer(name, device, arguments, lie))

    def _distorted(self, name: str, gpu: int | None, arguments: Sequence[Any], fault: Fault) -> Any:
        """The true answer in another unit, of another time or of another GPU; None without one."""
        raw = self._earlier if fault.stands_in == STALE else self._raw
        if gpu is None:
            return scaled(
                len(raw["devices"]) if "Count" in name else raw["system"].get(name), fault.factor
            )
        place = (gpu + 1) % len(self._devices) if fault.stands_in == OTHER else gpu
        device = raw["devices"][place]
        if name == "nvmlDeviceGetFieldValues":
            return device, fault.factor
        return scaled(self._answer(name, device, arguments, None), fault.factor)

    def _of_system(self, name: str, arguments: Sequence[Any], lie: Any) -> int:
        if name in ("nvmlInitWithFlags", "nvmlShutdown"):
            return SUCCESS
        if name == "nvmlDeviceGetCount_v2":
            return _filled(arguments, len(self._devices) if lie is None else lie)
        return _filled(arguments, self._raw["system"].get(name) if lie is None else lie)

    def _answer(self, name: str, device: dict[str, Any], arguments: Sequence[Any], lie: Any) -> Any:
        if lie is not None:
            return lie
        numbers = [number for item in arguments[1:] if (number := _number(item)) is not None]
        if name in LINK_ANSWERS:
            return self._link(device, numbers[0]).get(LINK_ANSWERS[name])
        if name in NUMBERED:
            return device.get(NUMBERED[name].format(*numbers))
        if name in ("nvmlDeviceGetP2PStatus", "nvmlDeviceGetTopologyCommonAncestor"):
            peer = _index(arguments[1])
            pair = next((pair for pair in device["pairs"] if pair["peer"] == peer), None)
            if pair is None:
                return {"error": "NVMLError_InvalidArgument"}
            return pair["p2p"][str(numbers[0])] if "P2P" in name else pair["ancestor"]
        key = RENAMED.get(name, name.removesuffix("_v3"))
        return device.get(name, device.get(key))

    @staticmethod
    def _link(device: dict[str, Any], number: int) -> dict[str, Any]:
        found: dict[str, Any] | None = next(
            (link for link in device["links"] if link["link"] == number), None
        )
        if found is None or "error" in found:
            refusal = found or {"error": "NVMLError_InvalidArgument"}
            return dict.fromkeys(LINK_ANSWERS.values(), refusal)
        return found

    def _field_values(self, device: dict[str, Any], arguments: Sequence[Any], lie: Any) -> int:
        values = arguments[2]._obj
        factor = 1.0
        if isinstance(lie, tuple):
            (device, factor), lie = lie, None
        for value in values:
            name = self._fields.get(value.fieldId, "")
            answer = lie if lie is not None else self._field(device, name, value.scopeId)
            answer = scaled(answer, factor)
            value.valueType = UNSIGNED_LONG_LONG
            if isinstance(answer, dict) and "value" in answer:
                value.nvmlReturn, value.value.ullVal = SUCCESS, answer["value"]
            else:
                value.nvmlReturn = answer["ret"] if isinstance(answer, dict) else NOT_SUPPORTED
        return SUCCESS

    def _field(self, device: dict[str, Any], name: str, scope: int) -> Any:
        if "NVLINK_THROUGHPUT" in name or "NVLINK_ERROR" in name:
            return {"value": 0} if len(device["links"]) > 1 else None
        if "PCIE_COUNT" in name:
            return {"value": 0}
        tables = [device.get(key) or {} for key in ("fields", "recovery_fields")]
        if "NVLINK" in name and name != "NVML_FI_DEV_NVLINK_LINK_COUNT":
            tables = [self._link(device, scope).get("fields") or {}]
        return next((table[name] for table in tables if isinstance(table, dict) and name in table),
                    None)  # fmt: skip


def _index(handle: Any) -> int:
    return int(ctypes.cast(handle, ctypes.c_void_p).value or 0) - FIRST_HANDLE


def _write_pointer(target: Any, value: int) -> None:
    ctypes.c_void_p.from_address(ctypes.addressof(target)).value = value


def _number(argument: Any) -> int | None:
    if isinstance(argument, int):
        return argument
    if isinstance(argument, ctypes._SimpleCData) and isinstance(argument.value, int):
        return argument.value
    return None


def _refusal(answer: Any) -> int | None:
    if answer is None:
        return NOT_SUPPORTED
    if isinstance(answer, dict) and "error" in answer:
        word = str(answer["error"]).partition(":")[0].removeprefix("NVMLError_")
        return CODES.get(word, UNKNOWN)
    return None


def _filled(arguments: Sequence[Any], answer: Any) -> int:
    """Write an answer into what was passed by reference; NVML's code."""
    code = _refusal(answer)
    if code is not None:
        return code
    targets = [item._obj if hasattr(item, "_obj") else item for item in arguments]
    targets = [
        target for target, item in zip(targets, arguments, strict=True)
        if hasattr(item, "_obj") or isinstance(item, ctypes.Array)
    ]  # fmt: skip
    first = targets[0]
    if isinstance(first, ctypes.Structure):
        _fill_structure(first, answer)
    elif isinstance(first, ctypes.Array):
        if isinstance(answer, str):
            first.value = answer.encode()[: len(first) - 1]
        else:
            for place, item in enumerate(answer[: len(first)]):
                first[place] = item
    else:
        values = answer if isinstance(answer, list) else [answer]
        for target, value in zip(targets, values, strict=False):
            target.value = value
    return SUCCESS


def _fill_structure(structure: ctypes.Structure, answer: Any) -> None:
    names = [field[0] for field in structure._fields_]
    if not isinstance(answer, dict):  # a structure of one answer, such as a temperature
        answer = {names[-1]: answer}
    for name, value in answer.items():
        if name not in names:
            continue
        target = getattr(structure, name)
        if isinstance(target, ctypes.Array):
            for place, item in enumerate(value[: len(target)]):
                target[place] = item
        else:
            setattr(structure, name, value.encode() if isinstance(value, str) else value)


def _nonsense(name: str, arguments: Sequence[Any], pattern: str) -> int:
    """Succeed, with nonsense in everything that is written."""
    if name == "nvmlDeviceGetFieldValues":
        for value in arguments[2]._obj:
            value.nvmlReturn, value.valueType = SUCCESS, UNSIGNED_LONG_LONG
            fill(value.value, pattern)
    elif name in LISTED and arguments[-1] is None:
        next(item._obj for item in arguments if hasattr(item, "_obj")).value = MANY
        return INSUFFICIENT_SIZE
    elif name in LISTED:
        fill(arguments[-1], pattern)
    else:
        fill_all(arguments, pattern)
    return SUCCESS


def _listed(answer: Any, arguments: Sequence[Any]) -> int:
    """Write a list as NVML does: the first call learns how long it is."""
    code = _refusal(answer)
    if code is not None:
        return code
    counters = [item._obj for item in arguments if hasattr(item, "_obj")]
    count, array = counters[0], arguments[-1]
    if array is None:
        count.value = len(answer)
        return INSUFFICIENT_SIZE if answer else SUCCESS
    for place, item in enumerate(answer):
        if isinstance(item, dict):
            _fill_structure(array[place], item)
        else:
            array[place] = item
    count.value = len(answer)
    return SUCCESS
