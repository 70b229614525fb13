"""Our calls against the real nvidia-ml-py, with a driver of our own behind it."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gputop.topology.sources.nvidia import nvml, nvml_readings
from gputop.topology.sources.nvidia.library import SPARE_FIELDS, open_library
from gputop.topology.sources.nvidia.parse_machine import parse
from gputop.topology.sources.nvidia.parse_readings import parse as parse_moving

pynvml = pytest.importorskip("pynvml")

INVALID_ARGUMENT, INSUFFICIENT_SIZE, VERSION_MISMATCH = 2, 7, 25
FABRIC_V2 = 0x02000024


def answer(name: str, *a: Any) -> int:
    """What a driver of the 550 series with two GPUs and two links writes into our structures."""
    if name == "nvmlDeviceGetCount_v2":
        a[0]._obj.value = 2
    elif name == "nvmlDeviceGetHandleByIndex_v2":
        a[1]._obj.contents = pynvml.struct_c_nvmlDevice_t()
    elif name == "nvmlDeviceGetPciInfo_v3":
        a[1]._obj.busId = b"00000000:C1:00.0"
        a[1]._obj.pciDeviceId = 0x233510DE
    elif name == "nvmlDeviceGetName":
        a[1].value = b"NVIDIA H200"
    elif name == "nvmlDeviceGetNvLinkState":
        a[2]._obj.value = 1
        return INVALID_ARGUMENT if a[1] >= 2 else 0
    elif name == "nvmlDeviceGetNvLinkRemotePciInfo_v2":
        a[2]._obj.busId = b"00000000:05:00.0"
    elif name == "nvmlDeviceGetCpuAffinity":
        a[2]._obj[0] = 0xFF
        a[2]._obj[1] = 1
    elif name == "nvmlDeviceGetGpuFabricInfoV":
        info = a[1]._obj
        if info.version != FABRIC_V2:
            return VERSION_MISMATCH
        info.state, info.healthMask, info.clusterUuid[0] = 3, 0xAA, 0xAB
    elif name == "nvmlDeviceGetComputeRunningProcesses_v3":
        count = a[1]._obj.value
        a[1]._obj.value = 1
        if count < 1:
            return INSUFFICIENT_SIZE
        a[2][0].pid, a[2][0].usedGpuMemory = 77, 2**20
    elif name == "nvmlDeviceGetFieldValues":
        for value in a[2]._obj:
            value.valueType, value.value.ullVal = 3, value.fieldId * 1000 + value.scopeId % 2**16
    return 0


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def pointer(name: str) -> Callable[..., int]:
        return lambda *arguments: answer(name, *arguments)

    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer", pointer)
    monkeypatch.setattr(pynvml, "_LoadNvmlLibrary", lambda: None)


def test_what_stays() -> None:
    reader = nvml.NvmlReader()
    reader.thorough = True
    raw = json.loads(json.dumps(reader()))
    errors = {
        name: value["error"]
        for name, value in raw["devices"][0].items()
        if isinstance(value, dict) and "error" in value
    }
    assert errors == {}  # every call has the arguments that the binding wants
    gpu = parse(raw).gpus[0]
    assert (gpu.address, gpu.name, gpu.pci_id) == ("0000:c1:00.0", "NVIDIA H200", "10de:2335")
    assert gpu.cpu_affinity == "0-7,64"
    assert [link.raw_gbs for link in gpu.nvlinks] == [164.0, 164.001]  # asked link by link
    assert [link.remote_link for link in gpu.nvlinks] == [146_000, 146_001]
    assert [link.remote_address for link in gpu.nvlinks] == ["0000:05:00.0", "0000:05:00.0"]
    assert gpu.fabric is not None
    assert (gpu.fabric.state, gpu.fabric.health_mask) == ("completed", 0xAA)
    assert str(gpu.fabric.cluster_uuid).startswith("ab000000-")


def test_what_moves() -> None:
    # On a busy machine a sleep of milliseconds can last too long for a measure of PCIe.
    now = [100.0]
    reader = nvml_readings.NvmlReadingsReader(
        clock=lambda: now[0], sleep=lambda seconds: now.append(now.pop() + seconds)
    )
    reader.thorough = True
    raw = json.loads(json.dumps(reader()))
    errors = {
        name: value["error"]
        for name, value in raw["devices"][0].items()
        if isinstance(value, dict) and "error" in value
    }
    assert errors == {}
    reading = parse_moving(raw).gpu_readings[0]
    assert reading.power_watts == 186.0
    assert reading.processes is not None
    assert [(p.pid, p.kind, p.memory_bytes) for p in reading.processes] == [(77, "compute", 2**20)]
    assert [link.replay_errors for link in reading.nvlinks] == [161_000, 161_001]
    assert reading.nvlink_tx_bytes_per_second == 0
    assert reading.pcie_rx_bytes_per_second == 0


@pytest.mark.parametrize("links", [1, 2, 18])
def test_the_library_finds_room_behind_the_fields(
    links: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On H200 with driver 580 it goes on to the return code of one entry too many."""
    rooms = list[int]()

    def careless(handle: object, count: ctypes.c_int32, values: Any) -> int:
        room = values._obj
        rooms.append(len(room) - count.value)
        for place in range(min(count.value + 1, len(room))):
            value = room[place]
            value.valueType, value.value.ullVal, value.nvmlReturn = 3, value.scopeId, 0
        return 0

    driver = SimpleNamespace(nvmlDeviceGetFieldValues=careless)
    monkeypatch.undo()  # of the fixture: the binding itself looks the function up
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(pynvml, "nvmlLib", driver)
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    name = "NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY"
    for _ in range(2):  # opened twice, guarded once
        library = open_library(lambda: pynvml)
        answers = library.fields_of_links(None, [name], range(links))
        assert answers == [{name: {"value": link}} for link in range(links)]
    assert rooms == [SPARE_FIELDS, SPARE_FIELDS]
