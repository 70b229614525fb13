"""Machines that a stand-in can be: raw answers of their NVIDIA driver and of their kernel.

Most are demos, cut to some GPUs; the rest differ from a demo in what this module says.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from gputop.topology.recorded.demos import demo
from gputop.topology.recorded.demos.nvml import NOT_SUPPORTED
from tests.support.places import RECORDINGS

Raw = dict[str, Any]
_LAPTOP_LACKS = (
    "nvmlDeviceGetSerial", "nvmlDeviceGetBoardPartNumber", "nvmlDeviceGetModuleId",
    "nvmlDeviceGetEccMode", "nvmlDeviceGetMigMode", "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetRetiredPagesPendingStatus", "nvmlDeviceGetUnrepairableMemoryFlag_v1",
    "ecc00", "ecc01", "ecc10", "ecc11",
    "nvmlDeviceGetPowerManagementLimitConstraints", "threshold2", "fabric",
    "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementDefaultLimit",
)  # fmt: skip


def _demo(name: str, gpus: int, tick: int = 0) -> Raw:
    """The answers of a demo with its first GPUs: by source, those of NVML as one."""
    answers = copy.deepcopy(demo.raw(name, tick))
    moving = {device["index"]: device for device in answers.pop("nvml_readings")["devices"]}
    nvml = answers["nvml"]
    devices = [
        {key: value for key, value in moving[device["nvmlDeviceGetIndex"]].items()
         if key not in ("links", "fields", "nvmlDeviceGetComputeRunningProcesses")}
        | device
        | {"fields": moving[device["nvmlDeviceGetIndex"]]["fields"] | device["fields"],
           "nvmlDeviceGetComputeRunningProcesses": []}
        for device in nvml["devices"][:gpus]
    ]  # fmt: skip
    for device in devices:
        device["nvmlDeviceGetUtilizationRates"] = {"gpu": 0, "memory": 0}
        device["nvmlDeviceGetMemoryInfo"] = next(
            given["nvmlDeviceGetMemoryInfo"]
            for given in nvml["devices"]
            if given["nvmlDeviceGetIndex"] == device["nvmlDeviceGetIndex"]
        )
        device["pairs"] = [pair for pair in device["pairs"] if pair["peer"] < gpus]
    nvml["devices"] = devices
    answers.pop("processes", None)
    _drop(answers, {_address(device) for device in demo.raw(name, 0)["nvml"]["devices"][gpus:]})
    return answers


def _drop(answers: Raw, addresses: set[str]) -> None:
    """Take these GPUs out of the tree; a machine with some of a board is a guest."""
    if addresses:
        files = answers["host"]["files"]
        files["proc/cpuinfo"] = files["proc/cpuinfo"].replace("fpu lm", "fpu lm hypervisor")
    devices = answers["pci"]["devices"]
    answers["pci"]["devices"] = {
        address: device for address, device in devices.items() if address not in addresses
    }


def _amd(gpus: int, tick: int = 0) -> Raw:
    """A demo of MI300X with its first GPUs, idle; what it leaves out is from a recording."""
    answers = copy.deepcopy(demo.raw("mi300x-8", tick))
    whole = json.loads((RECORDINGS / "mi300x-amdsmi-7/amdsmi.json").read_text())
    moving = answers.pop("amdsmi_readings")["devices"]
    bdf = "amdsmi_get_gpu_device_bdf"
    dropped = {str(device[bdf]) for device in answers["amdsmi"]["devices"][gpus:]}
    devices = []
    for place in range(gpus):
        device = whole["devices"][place]
        for more in (answers["amdsmi"]["devices"][place], moving[place]):
            for key, answer in more.items():
                both = isinstance(answer, dict) and isinstance(device.get(key), dict)
                device[key] = device[key] | answer if both else answer
        for key in ("residencies", "xgmi_kb"):
            device.pop(key, None)
        for part in ("pcie_static", "pcie_metric"):
            told = whole["devices"][place]["amdsmi_get_pcie_info"].get(part, {})
            asked = answers["amdsmi"]["devices"][place]["amdsmi_get_pcie_info"].get(part, {})
            device["amdsmi_get_pcie_info"][part] = asked | told
        device["pairs"] = [pair for pair in device["pairs"] if pair["peer"] < gpus]
        # Two functions name it; the second is asked where the first has no name.
        name = device["amdsmi_get_gpu_asic_info"]["market_name"]
        device["amdsmi_get_gpu_board_info"]["product_name"] = name
        device["amdsmi_get_gpu_process_list"] = []
        device["amdsmi_get_gpu_activity"] = {"gfx_activity": 0, "umc_activity": 0}
        device["amdsmi_get_gpu_memory_usage(VRAM)"] = 300 << 20
        violations = device["amdsmi_get_violation_status"]
        violations |= {key: False for key in violations if key.startswith("active_")}
        devices.append(device)
    answers["amdsmi"] = {"system": whole["system"], "devices": devices}
    answers.pop("processes", None)
    _drop(answers, dropped)
    return answers


def _address(device: Raw) -> str:
    return str(device["nvmlDeviceGetPciInfo"]["busIdLegacy"]).lower()


def _named(name: str, answers: Raw, number: int = 0, memory_mib: int = 0) -> Raw:
    """The same GPUs of another model: its name, its memory, and the number that its vendor gave."""
    for device in answers["nvml"]["devices"]:
        device["nvmlDeviceGetName"] = name
        if memory_mib:
            total, used = memory_mib << 20, 1 << 30
            sizes = {"total": total, "free": total - used, "used": used}
            device["nvmlDeviceGetMemoryInfo"] = sizes
        if number:
            device["nvmlDeviceGetPciInfo"]["pciDeviceId"] = number << 16 | 0x10DE
            answers["pci"]["devices"][_address(device)]["device"] = f"0x{number:04x}"
    return answers


def _one_gone() -> Raw:
    """Eight GPUs of which the driver lists seven."""
    answers = _demo("hgx-h100-8", 8)
    answers["nvml"]["devices"] = answers["nvml"]["devices"][:7]
    for device in answers["nvml"]["devices"]:
        device["pairs"] = [pair for pair in device["pairs"] if pair["peer"] < 7]
    return answers


def _guest(answers: Raw) -> Raw:
    """The same in a virtual machine that hides its PCI tree."""
    for device in answers["nvml"]["devices"]:
        device["nvmlDeviceGetVirtualizationMode"] = 1
        for pair in device["pairs"]:
            pair["ancestor"] = NOT_SUPPORTED
    files = answers["host"]["files"]
    files["proc/cpuinfo"] = files["proc/cpuinfo"].replace("fpu lm", "fpu lm hypervisor")
    return answers


def _without_links(answers: Raw) -> Raw:
    """Every NVLink down, and P2P refused on every pair."""
    for device in answers["nvml"]["devices"]:
        for link in device["links"]:
            if "state" in link:
                link |= {"state": 0, "remote_pci": NOT_SUPPORTED, "remote_type": NOT_SUPPORTED}
                link["fields"] = {"NVML_FI_DEV_NVLINK_GET_STATE": {"value": 0}}
        for pair in device["pairs"]:
            pair["p2p"] = dict.fromkeys(pair["p2p"], 5)
        device["fabric"] = NOT_SUPPORTED
    return answers


def _laptop() -> Raw:
    answers = _named("NVIDIA GeForce RTX 4060 Laptop GPU", _demo("pcie-l40s-8", 1))
    for device in answers["nvml"]["devices"]:
        device |= dict.fromkeys(_LAPTOP_LACKS, NOT_SUPPORTED)
        device["nvmlDeviceGetMemoryInfo"] = {"total": 8 << 30, "free": 7 << 30, "used": 1 << 30}
        device["links"] = [{"link": 0, **NOT_SUPPORTED}]
        device["fields"]["NVML_FI_DEV_MEMORY_TEMP"] = {"ret": 3}
    return answers


def _many(gpus: int) -> Raw:
    """So many PCIe cards as no demo has: only the driver's side."""
    answers = _demo("pcie-l40s-8", 8)
    cards, made = answers["nvml"]["devices"], []
    for number in range(gpus):
        card = copy.deepcopy(cards[number % 8])
        bus = f"{number // 8:04x}:{16 * (number % 8) + 1:02x}:00.0"
        pci = card["nvmlDeviceGetPciInfo"] | {"busIdLegacy": bus.upper(), "busId": f"0000{bus}"}
        card |= {
            "nvmlDeviceGetIndex": number,
            "nvmlDeviceGetMinorNumber": number,
            "nvmlDeviceGetUUID": f"GPU-fa000000-0000-4000-8000-{number:012d}",
            "nvmlDeviceGetSerial": f"FAKE{number:09d}",
            "nvmlDeviceGetPciInfo": pci,
            "nvmlDeviceGetPciInfo_v3": pci,
            "pairs": [
                {"peer": peer, "ancestor": 30, "p2p": dict.fromkeys("01234", 0)}
                for peer in range(gpus)
                if peer != number
            ],
        }
        made.append(card)
    answers["nvml"]["devices"] = made
    answers.pop("pci")
    return answers


EARLIER = " at an earlier time"
"""Ends the name of a profile whose figures are those of another moment."""
PROFILES: dict[str, Callable[[], Raw]] = {
    "h100-8": lambda: _demo("hgx-h100-8", 8),
    "h100-8-one-gone": _one_gone,
    "h100-1": lambda: _demo("hgx-h100-8", 1),
    "gb200-4": lambda: _demo("gb200-nvl72-tray", 4),
    f"gb200-4{EARLIER}": lambda: _demo("gb200-nvl72-tray", 4, 7),
    "h200-2": lambda: _named("NVIDIA H200", _demo("hgx-h100-8", 2), 0x2335, 143771),
    "a100-8": lambda: _demo("hgx-a100-8", 8),
    "v100-8": lambda: _demo("dgx-1v", 8),
    "l40s-2": lambda: _demo("pcie-l40s-8", 2),
    "l40s-8": lambda: _demo("pcie-l40s-8", 8),
    "b200-8-vm": lambda: _named("NVIDIA B200", _guest(_demo("hgx-h100-8", 8)), 0x2901, 183359),
    "b200-8-vm-dark": lambda: _named(
        "NVIDIA B200", _guest(_without_links(_demo("hgx-h100-8", 8))), 0x2901, 183359
    ),
    "laptop": _laptop,
    "mi300x-2": lambda: _amd(2),
    f"mi300x-2{EARLIER}": lambda: _amd(2, 7),
    "mi300x-8": lambda: _amd(8),
    "cards-128": lambda: _many(128),
}
