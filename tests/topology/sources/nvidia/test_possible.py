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
    ],
)
def test_an_impossible_answer_of_a_gpu_is_a_gap(key: str, answer: Any, field: str) -> None:
    (gpu,) = parse_machine.parse({"devices": [device(**{key: answer})]}).gpus
    assert getattr(gpu, field) is None
    assert gpu.why(field) in ("an answer that no GPU can give", "the driver says 0")


@pytest.mark.parametrize(
    ("key", "answer", "field"),
    [
        ("temp", HUGE, "temperature_c"),
        ("nvmlDeviceGetUtilizationRates", {"gpu": 101, "memory": 0}, "utilization_percent"),
        ("nvmlDeviceGetCurrentClocksEventReasons", HUGE, "throttle_reasons"),
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
