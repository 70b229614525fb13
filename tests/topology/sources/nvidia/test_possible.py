"""Nonsense of a broken driver is a failure of the driver, never a value and never an alarm."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.topology.sources.nvidia import parse_machine, parse_readings
from gputop.topology.sources.nvidia.devices import NvmlDevices
from gputop.topology.sources.nvidia.library import open_library
from gputop.topology.sources.nvidia.possible import plausible
from tests.support.faults.machine import answers, diagnosed
from tests.support.faults.plan import Fault
from tests.support.nvml_fake import Binding

HUGE = int.from_bytes(b"\x7f" * 8, "little")


def device(**changes: Any) -> dict[str, Any]:
    first: dict[str, Any] = answers("h200-2")["nvml"]["devices"][0]
    return first | changes


def test_what_a_gpu_can_answer_stays_as_it_is() -> None:
    for profile in ("h100-8", "a100-8", "v100-8", "l40s-2", "laptop"):
        for given in answers(profile)["nvml"]["devices"]:
            assert plausible(given) is given


@pytest.mark.parametrize(
    ("key", "answer", "field"),
    [
        ("nvmlDeviceGetMemoryInfo", {"total": HUGE, "free": 0, "used": 0}, "memory_bytes"),
        ("nvmlDeviceGetMemoryInfo", {"total": 0, "free": 0, "used": 0}, "memory_bytes"),
        ("nvmlDeviceGetUUID", "\x7f" * 80, "uuid"),
        ("nvmlDeviceGetEnforcedPowerLimit", 0, "power_limit_watts"),
        ("nvmlDeviceGetPowerManagementDefaultLimit", HUGE, "power_limit_default_watts"),
        ("maxclock1", 2**31, "clock_sm_max_mhz"),
        ("nvmlDeviceGetEccMode", [77, 1], "ecc_enabled"),
        # In another unit: watts and microwatts, MiB and kilobytes, kHz and GHz.
        ("nvmlDeviceGetEnforcedPowerLimit", 700, "power_limit_watts"),
        ("nvmlDeviceGetEnforcedPowerLimit", 700_000_000, "power_limit_watts"),
        ("nvmlDeviceGetMemoryInfo", {"total": 81_559, "free": 4, "used": 4}, "memory_bytes"),
        ("nvmlDeviceGetMemoryInfo", {"total": 2**43, "free": 4, "used": 4}, "memory_bytes"),
        ("nvmlDeviceGetMemoryInfo", {"total": 2**36, "free": 2**36, "used": 2**36}, "memory_bytes"),
        ("nvmlDeviceGetBAR1MemoryInfo", {"bar1Total": 131_072}, "bar1_bytes"),
        ("nvmlDeviceGetBAR1MemoryInfo", {"bar1Total": 2**28 + 4096}, "bar1_bytes"),
        ("nvmlDeviceGetBAR1MemoryInfo", {"bar1Total": 0}, "bar1_bytes"),
        ("maxclock1", 1_980_000, "clock_sm_max_mhz"),
        ("maxclock2", 2, "clock_memory_max_mhz"),
        ("nvmlDeviceGetMaxPcieLinkGeneration", 0, "pcie_gen_max"),
        ("nvmlDeviceGetMaxPcieLinkGeneration", 16, "pcie_gen_max"),
        ("nvmlDeviceGetMaxPcieLinkWidth", 65, "pcie_width_max"),
        ("nvmlDeviceGetMemoryBusWidth", 2_000_000, "memory_bus_bits"),
        ("fabric", {"state": 3, "status": 0, "healthMask": 2**33}, "fabric"),
        ("nvmlDeviceGetMaxPcieLinkWidth", 0, "pcie_width_max"),
        ("nvmlDeviceGetUUID", "M", "uuid"),
        ("nvmlDeviceGetUUID", "Zq9 Zq9 Zq9", "uuid"),
    ],
)
def test_an_impossible_answer_of_a_gpu_is_a_gap(key: str, answer: Any, field: str) -> None:
    (gpu,) = parse_machine.parse({"devices": [device(**{key: answer})]}).gpus
    assert getattr(gpu, field) is None
    assert gpu.why(field) in ("an answer that no GPU can give", "the driver says 0")


@pytest.mark.parametrize(
    ("key", "answer", "field", "value"),
    [
        ("nvmlDeviceGetMemoryInfo", {"total": 2**28, "free": 2**27, "used": 2**27},
         "memory_bytes", 2**28),
        ("nvmlDeviceGetMemoryInfo", {"total": 2**36, "free": 2**36, "used": 2**30},
         "memory_bytes", 2**36),
        ("nvmlDeviceGetMemoryInfo", {"total": 2**36}, "memory_bytes", 2**36),
        ("nvmlDeviceGetBAR1MemoryInfo", {"bar1Total": 2**24}, "bar1_bytes", 2**24),
        ("nvmlDeviceGetEnforcedPowerLimit", 5_000, "power_limit_watts", 5.0),
        ("nvmlDeviceGetEnforcedPowerLimit", 2_300_000, "power_limit_watts", 2300.0),
        ("maxclock1", 100, "clock_sm_max_mhz", 100),
        ("nvmlDeviceGetUUID", "MIG-0f3c", "uuid", "MIG-0f3c"),
    ],
)  # fmt: skip
def test_what_some_board_answers_is_believed(
    key: str, answer: Any, field: str, value: object
) -> None:
    (gpu,) = parse_machine.parse({"devices": [device(**{key: answer})]}).gpus
    assert getattr(gpu, field) == value


def test_the_number_by_which_a_gpu_was_opened_is_its_number() -> None:
    """Pairs go by it: another one that the driver answers would mix them up."""
    two = [device(index=0, nvmlDeviceGetIndex=7), device(index=1, nvmlDeviceGetIndex=0)]
    two[1]["nvmlDeviceGetPciInfo"] = two[1]["nvmlDeviceGetPciInfo_v3"] = {"busId": "0000:99:00.0"}
    for place, given in enumerate(two):
        given["pairs"] = [{"peer": 1 - place, "ancestor": 30, "p2p": {"0": 0}}]
    found = parse_machine.parse({"devices": two})
    assert [gpu.index for gpu in found.gpus] == [0, 1]
    assert {(pair.src, pair.dst) for pair in found.pairs} == {
        (found.gpus[0].address, "0000:99:00.0"), ("0000:99:00.0", found.gpus[0].address),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("key", "answer", "field"),
    [
        ("nvmlDeviceGetCurrPcieLinkGeneration", 0, "pcie_gen"),
        ("nvmlDeviceGetCurrPcieLinkWidth", 0, "pcie_width"),
        ("temp", HUGE, "temperature_c"),
        ("nvmlDeviceGetUtilizationRates", {"gpu": 101, "memory": 0}, "utilization_percent"),
        ("nvmlDeviceGetCurrentClocksEventReasons", HUGE, "throttle_reasons"),
        ("nvmlDeviceGetCurrentClocksEventReasons", 2**33, "throttle_reasons"),
        ("fields", {"NVML_FI_DEV_POWER_INSTANT": {"value": HUGE}}, "power_watts"),
    ],
)
def test_an_impossible_reading_is_a_gap(key: str, answer: Any, field: str) -> None:
    (reading,) = parse_readings.parse({"devices": [device(**{key: answer})]}).gpu_readings
    assert getattr(reading, field) is None


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize(
    ("function", "fills"),
    [
        ("nvmlDeviceGetTotalEccErrors", "80"),
        ("nvmlDeviceGetUUID", "7f"),
        ("nvmlDeviceGetP2PStatus", "7f"),
        ("nvmlDeviceGetGpuFabricInfoV", "7f"),
        ("nvmlDeviceGetMemoryInfo", "00"),
        ("nvmlDeviceGetRetiredPages", "00"),
    ],
)
def test_nonsense_is_neither_an_all_clear_nor_an_alarm(
    function: str, fills: str, bare: bool
) -> None:
    fault = Fault(function=function, fills=fills, gpus=(1,))
    assert diagnosed("h200-2", [fault], bare=bare).verdict == "cannot tell"


def test_a_driver_that_counts_billions_of_gpus_is_not_believed() -> None:
    devices = NvmlDevices(lambda: open_library(lambda: Binding(gpus=2**32 - 1)))
    with pytest.raises(RuntimeError, match="which no node has"):
        devices.current()


@pytest.mark.parametrize(("degrees", "believed"), [
    (0, False), (126, False), (255, False), (-300, False), (-61, False), (1, True), (95, True),
    (125, True),
])  # fmt: skip
def test_a_temperature_is_one_that_silicon_stands(degrees: int, believed: bool) -> None:
    now = device(temp=degrees)
    (reading,) = parse_readings.parse({"devices": [now]}).gpu_readings
    assert reading.temperature_c == (degrees if believed else None)
    assert (reading.why("temperature_c") is None) == believed
