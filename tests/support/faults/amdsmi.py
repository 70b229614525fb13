"""A machine behind libamd_smi.so: writes raw answers into the structures of the real binding.

The answers are what the binding made of them: raw answers of the source `amdsmi`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from tests.support.faults.amdsmi_library import UNKNOWN_ERROR
from tests.support.faults.lies import MANY, fill
from tests.support.faults.plan import OTHER, STALE, Fault, fault_of, scaled

SUCCESS, NOT_SUPPORTED, NOT_FOUND = 0, 2, 31
SOCKET, FIRST_HANDLE = 0x900, 0x1000
SOCKETS, PROCESSORS = "amdsmi_get_socket_handles", "amdsmi_get_processor_handles"
PAGES, PROCESSES = "amdsmi_get_gpu_bad_page_info", "amdsmi_get_gpu_process_list"
OPENING = ("amdsmi_init", SOCKETS, PROCESSORS, "amdsmi_get_gpu_device_bdf")
"""Functions that find the GPUs: what fails here leaves no GPU to ask."""
PAIRS = (
    "amdsmi_topo_get_link_type", "amdsmi_topo_get_link_weight",
    "amdsmi_get_minmax_bandwidth_between_processors", "amdsmi_is_P2P_accessible",
    "amdsmi_topo_get_p2p_status",
)  # fmt: skip
GETTERS = (
    "amdsmi_get_lib_version", "amdsmi_get_gpu_asic_info", "amdsmi_get_gpu_device_uuid",
    "amdsmi_get_gpu_vram_info", "amdsmi_get_power_cap_info", "amdsmi_get_gpu_compute_partition",
    "amdsmi_get_gpu_kfd_info", "amdsmi_get_gpu_board_info", "amdsmi_get_gpu_vbios_info",
    "amdsmi_get_fw_info", "amdsmi_get_gpu_driver_info", "amdsmi_get_gpu_enumeration_info",
    "amdsmi_get_gpu_cache_info", "amdsmi_get_gpu_virtualization_mode",
    "amdsmi_get_gpu_topo_numa_affinity", "amdsmi_get_xgmi_info", "amdsmi_get_gpu_memory_total",
    "amdsmi_get_clock_info", "amdsmi_get_temp_metric", "amdsmi_get_gpu_memory_partition",
    "amdsmi_get_gpu_ecc_enabled", "amdsmi_get_pcie_info", "amdsmi_get_gpu_xgmi_link_status",
    "amdsmi_get_link_metrics", "amdsmi_get_gpu_metrics_info", *PAIRS, "amdsmi_get_gpu_activity",
    "amdsmi_get_power_info", "amdsmi_get_gpu_memory_usage", PROCESSES,
    "amdsmi_get_gpu_pci_replay_counter", "amdsmi_get_gpu_total_ecc_count", PAGES,
    "amdsmi_get_gpu_ecc_count", "amdsmi_get_violation_status",
)  # fmt: skip
MEMBERS = {
    "amdsmi_get_gpu_memory_total": ("AmdSmiMemoryType",),
    "amdsmi_get_gpu_memory_usage": ("AmdSmiMemoryType",),
    "amdsmi_get_clock_info": ("AmdSmiClkType",),
    "amdsmi_get_temp_metric": ("AmdSmiTemperatureType", "AmdSmiTemperatureMetric"),
    "amdsmi_get_gpu_ecc_count": ("AmdSmiGpuBlock",),
}
"""Functions that are asked with members of enumerations, and of which."""
RENAMED = {
    "num_of_compute_units": "num_compute_units", "fw_info_list": "fw_list", "fw_id": "fw_name",
}  # fmt: skip
"""Fields that the binding gives out under another name."""
WORDS = {
    "U": "AMDSMI_XGMI_LINK_UP", "D": "AMDSMI_XGMI_LINK_DOWN", "X": "AMDSMI_XGMI_LINK_DISABLE",
    "BAREMETAL": "AMDSMI_VIRTUALIZATION_MODE_BAREMETAL",
}  # fmt: skip
IN_16_BITS = ("amdsmi_get_gpu_activity", "amdsmi_get_power_info")
UNKNOWN_16 = 0xFFFF
"""How these two functions say "unknown"; the others fill the field with ones."""
TEXT = 32
"""Room for a text; the binding gives at least so much."""
CACHES = "AMDSMI_CACHE_PROPERTY_"


class AmdsmiMachine:
    """Answers for a raw answer of the source `amdsmi`, where nothing is at fault."""

    def __init__(
        self,
        raw: dict[str, Any],
        faults: Sequence[Fault] = (),
        earlier: dict[str, Any] | None = None,
    ) -> None:
        self._system, self._devices = raw["system"], raw["devices"]
        self._earlier = (earlier or raw)["devices"]
        self.faults = tuple(faults)
        self._kept: list[Any] = []
        self.calls: list[str] = []

    def call(self, binding: Any, name: str, arguments: Sequence[int | None], types: Any) -> int:
        """Write an answer where the pointers point."""
        handle = (arguments[0] or 0) if arguments else 0
        gpu = handle - FIRST_HANDLE if 0 <= handle - FIRST_HANDLE < len(self._devices) else None
        self.calls.append(name)
        fault = fault_of(self.faults, name, gpu, self.calls.count(name))
        if fault is not None and (fault.code or fault.blocks):
            return fault.code or UNKNOWN_ERROR
        targets: list[Any] = [
            ctypes.cast(value, kind).contents if value else None
            for value, kind in zip(arguments, types, strict=True)
            if issubclass(kind, ctypes._Pointer)
        ]
        if fault is not None and fault.fills:
            return self._nonsense(name, arguments, types, targets, fault.fills)
        if name in ("amdsmi_init", "amdsmi_shut_down"):
            return SUCCESS
        if name == SOCKETS:
            return _handles(arguments[1], targets[0], [SOCKET])
        if name == PROCESSORS:
            if handle != SOCKET:
                return NOT_FOUND
            told = len(self._devices) if fault is None or fault.answer is None else fault.answer
            places = range(FIRST_HANDLE, FIRST_HANDLE + told)
            return _handles(arguments[2], targets[0], list(places))
        if name == "amdsmi_get_lib_version":
            version = self._system[name]
            self._kept = [ctypes.create_string_buffer(version["build"].encode())]
            write(binding, targets[0], {k: v for k, v in version.items() if k != "build"})
            targets[0].build = ctypes.cast(self._kept[0], type(targets[0].build))
            return SUCCESS
        if gpu is None:
            return NOT_FOUND
        devices, place = self._devices, gpu
        if fault is not None:
            devices = self._earlier if fault.stands_in == STALE else devices
            place = (gpu + 1) % len(devices) if fault.stands_in == OTHER else gpu
        if place != gpu and name in PAIRS:
            # Of two GPUs the pair seen from its other end.
            arguments = [arguments[0], FIRST_HANDLE + gpu, *arguments[2:]]
        answer = self._answer(binding, name, devices[place], arguments)
        if fault is not None:
            answer = scaled(answer, fault.factor)
        if answer is None or (isinstance(answer, dict) and "error" in answer):
            return NOT_SUPPORTED
        return _written(binding, name, arguments, types, targets, answer)

    @staticmethod
    def _answer(
        binding: Any, name: str, device: dict[str, Any], arguments: Sequence[int | None]
    ) -> Any:
        if name in PAIRS:
            peer = (arguments[1] or 0) - FIRST_HANDLE
            return next((pair[name] for pair in device["pairs"] if pair["peer"] == peer), None)
        if name not in MEMBERS:
            return device.get(name)
        keys = [""]
        for kind, number in zip(MEMBERS[name], arguments[1:], strict=False):
            members = getattr(binding, kind).__members__
            same = [name for name, member in members.items() if member == (number or 0)]
            keys = [f"{key},{name}" if key else name for key in keys for name in same]
        if name == "amdsmi_get_gpu_ecc_count":
            return next((device["ecc"][key] for key in keys if key in device["ecc"]), None)
        full = [f"{name}({key})" for key in keys]
        return next((device[key] for key in full if key in device), None)

    def _nonsense(
        self, name: str, arguments: Sequence[int | None], types: Any, targets: Any, pattern: str
    ) -> int:
        """Succeed, with nonsense in everything that is written."""
        counted = {SOCKETS: 0, PROCESSORS: 1, PAGES: 1, PROCESSES: 1}
        if name in counted:
            place = counted[name]
            size = min(targets[0].value, MANY) if arguments[place + 1] else MANY
            if arguments[place + 1]:
                entry = types[place + 1]._type_
                fill((entry * size).from_address(arguments[place + 1]), pattern)
            else:
                targets[0].value = MANY
            return SUCCESS
        for value, kind in zip(arguments, types, strict=True):
            if value and issubclass(kind, ctypes._Pointer):
                target = ctypes.c_char * TEXT if kind._type_ is ctypes.c_char else kind._type_
                fill(target.from_address(value), pattern)
        if name == "amdsmi_get_lib_version":
            targets[0].build = None  # no reader survives a pointer to nowhere
        return SUCCESS


def _handles(array: int | None, count: Any, handles: list[int]) -> int:
    count.value = len(handles)
    if array is not None:
        for place, handle in enumerate(handles):
            address = array + place * ctypes.sizeof(ctypes.c_void_p)
            ctypes.c_void_p.from_address(address).value = handle
    return SUCCESS


def _written(
    binding: Any, name: str, arguments: Sequence[int | None], types: Any, targets: Any, answer: Any
) -> int:
    if name in (PAGES, PROCESSES):
        targets[0].value = len(answer)
        array = arguments[2] or 0
        for place, item in enumerate(answer if array else ()):
            entry = types[2]._type_
            write(binding, entry.from_address(array + place * ctypes.sizeof(entry)), item)
        return SUCCESS
    if isinstance(targets[0], ctypes.Union):
        targets[0].as_uint = bdf(answer)
    elif isinstance(answer, str):
        text = answer.encode() + b"\0"
        buffer = next(
            value
            for value, kind in zip(arguments, types, strict=True)
            if issubclass(kind, ctypes._Pointer) and kind._type_ is ctypes.c_char
        )
        ctypes.memmove(buffer or 0, text, len(text))
    elif isinstance(answer, dict) and name in (PAIRS[0], PAIRS[2]):
        for target, value in zip(targets, answer.values(), strict=True):
            target.value = value
    elif name == PAIRS[4]:
        targets[0].value = answer["type"]
        write(binding, targets[1], answer["cap"])
    elif isinstance(targets[0], ctypes.Structure):
        unknown = {key: UNKNOWN_16 for key in answer if answer[key] == "N/A"}
        write(binding, targets[0], answer | unknown if name in IN_16_BITS else answer)
    else:
        value = answer["mode"] if isinstance(answer, dict) else answer
        targets[0].value = number(binding, value)
    return SUCCESS


def write(binding: Any, structure: Any, answer: dict[str, Any]) -> None:
    """Write what the binding gave out back into the structure that it came from."""
    for field in structure._fields_:
        name = field[0]
        if name.startswith(("PADDING", "reserved")):
            continue
        target = getattr(structure, name)
        value = answer.get(RENAMED.get(name, name))
        if name.startswith(("num_cache", "num_fw", "num_links")) and value is None:
            listed = answer.get("cache") or answer.get("fw_list") or answer.get("links") or ()
            setattr(structure, name, len(listed))
        elif isinstance(target, ctypes.Structure):
            write(binding, target, value or {})
        elif isinstance(target, ctypes.Union):
            target.as_uint = bdf(value or "0000:00:00.0")
        elif isinstance(target, ctypes.Array):
            _write_array(binding, target, value)
        elif isinstance(target, bytes):
            text = value if isinstance(value, str) and value != "N/A" else ""
            setattr(structure, name, text.removeprefix("0x").encode())
        elif not isinstance(target, ctypes._Pointer):
            setattr(structure, name, number(binding, value))


def _write_array(binding: Any, array: Any, values: Any) -> None:
    listed = values if isinstance(values, list) else []
    for place in range(len(array)):
        value = listed[place] if place < len(listed) else None
        if isinstance(array[place], ctypes.Structure):
            write(binding, array[place], value or {})
        elif isinstance(array[place], int):
            array[place] = number(binding, value)


def number(binding: Any, value: Any) -> int:
    """The number that the binding made a word or a list of words of; all ones for "unknown"."""
    wrapper = binding.amdsmi_wrapper
    if isinstance(value, list):
        return sum(getattr(wrapper, CACHES + word) for word in value)
    if isinstance(value, int):
        return int(value)
    text = str(value)
    name = WORDS.get(text, text if text.startswith("AMDSMI_") else "")
    if name:
        return int(getattr(wrapper, name))
    text = text.removeprefix("gfx") if text.startswith("gfx") else text
    try:
        return int(text, 16) if text.startswith("0x") or str(value).startswith("gfx") else int(text)
    except ValueError:
        return -1


def bdf(address: str) -> int:
    """The bits of a PCI address."""
    domain, bus, rest = address.split(":")
    device, function = rest.split(".")
    return int(domain, 16) << 16 | int(bus, 16) << 8 | int(device, 16) << 3 | int(function, 16)
