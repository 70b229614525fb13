"""Nonsense of a broken driver is a failure of the driver, never a value and never an alarm."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.topology.sources.amd import parse_machine, parse_readings
from gputop.topology.sources.amd.handles import AmdsmiDevices
from gputop.topology.sources.amd.possible import plausible
from tests.support.amdsmi.fake import Binding, Handle, recording, start

HUGE = int.from_bytes(b"\x7f" * 8, "little")
WHY = ("an answer that no GPU can give", "the driver says 0")
ERRORS = ("correctable_count", "uncorrectable_count", "deferred_count")


def device(**changes: Any) -> dict[str, Any]:
    first: dict[str, Any] = recording("7")["devices"][0]
    return first | changes


def test_what_a_gpu_can_answer_stays_as_it_is() -> None:
    for major in ("6", "7"):
        for given in recording(major)["devices"]:
            assert plausible(given) is given


@pytest.mark.parametrize(
    ("key", "answer", "field"),
    [
        ("amdsmi_get_gpu_memory_total(VIS_VRAM)", HUGE, "bar1_bytes"),
        ("amdsmi_get_gpu_memory_total(VIS_VRAM)", 0, "bar1_bytes"),
        ("amdsmi_get_power_cap_info", {"power_cap": HUGE}, "power_limit_watts"),
        ("amdsmi_get_clock_info(GFX)", {"max_clk": 0}, "clock_graphics_max_mhz"),
        ("amdsmi_get_gpu_kfd_info", {"node_id": 2**31}, "kfd_node"),
    ],
)
def test_an_impossible_answer_of_a_gpu_is_a_gap(key: str, answer: Any, field: str) -> None:
    (gpu,) = parse_machine.parse({"devices": [device(**{key: answer})]}).gpus
    assert getattr(gpu, field) is None
    assert gpu.why(field) in WHY


@pytest.mark.parametrize(
    ("key", "answer", "field"),
    [
        ("amdsmi_get_gpu_device_uuid", "M", "uuid"),
        ("amdsmi_get_gpu_device_uuid", "\x7f" * 38, "uuid"),
        ("amdsmi_get_gpu_memory_total(VRAM)", 206_141_652_992 // 1000, "memory_bytes"),
        ("amdsmi_get_gpu_memory_total(VRAM)", 330_712_481_869, "memory_bytes"),
        ("amdsmi_get_clock_info(MEM)", {"max_clk": 77}, "clock_memory_max_mhz"),
        ("amdsmi_get_clock_info(MEM)", {"max_clk": 1_300_000_000}, "clock_memory_max_mhz"),
        ("amdsmi_get_power_cap_info", {"power_cap": 1_000_000}, "power_limit_watts"),
        ("amdsmi_get_power_cap_info", {"default_power_cap": 77}, "power_limit_default_watts"),
    ],
)
def test_an_answer_in_another_unit_is_a_gap(key: str, answer: Any, field: str) -> None:
    raw = {"system": recording("7")["system"], "devices": [device(**{key: answer})]}
    (gpu,) = parse_machine.parse(raw).gpus
    assert getattr(gpu, field) in (None, 196_592 * 2**20)  # the other word for the memory
    assert gpu.why(field)
    assert "not asked" not in str(gpu.why(field))


@pytest.mark.parametrize("error", ["ValueError", "UnicodeDecodeError", "KeyError"])
def test_a_binding_that_does_not_understand_an_answer_has_none(error: str) -> None:
    failing = {"error": f"{error}: 4294967295 is not a valid AmdSmiVirtualizationMode"}
    for key in ("amdsmi_get_gpu_virtualization_mode", "amdsmi_get_gpu_device_uuid"):
        part = parse_machine.parse({"devices": [device(**{key: failing})]})
        assert [problem.kind for problem in part.problems] == ["error"]
    part = parse_machine.parse({"devices": [device(amdsmi_get_fw_info=failing)]})
    assert part.problems == ()  # no verdict rests on the names of firmware


def test_zero_degrees_of_the_first_sensor_are_told_and_not_that_another_is_missing() -> None:
    keys = ("amdsmi_get_temp_metric(HOTSPOT,CURRENT)", "amdsmi_get_gpu_metrics_info")
    given = device(**{keys[0]: 0, keys[1]: {"temperature_hotspot": 0}})
    (reading,) = parse_readings.parse({"devices": [given]}).gpu_readings
    assert (reading.temperature_c, reading.why("temperature_c")) == (None, "the driver says 0")


def test_errors_beyond_counting_are_no_errors_and_a_failure() -> None:
    nonsense = dict.fromkeys(ERRORS, HUGE)
    given = device(amdsmi_get_gpu_total_ecc_count=nonsense, ecc={"UMC": nonsense})
    part = parse_readings.parse({"devices": [given]})
    (reading,) = part.gpu_readings
    assert reading.ecc is not None
    assert reading.ecc.uncorrected_volatile is None
    assert reading.ecc_blocks == ()
    assert [problem.kind for problem in part.problems] == ["error"]


def test_a_gpu_at_the_root_of_the_first_domain_has_no_address() -> None:
    part = parse_machine.parse({"devices": [device(amdsmi_get_gpu_device_bdf="0000:00:00.0")]})
    assert part.gpus == ()
    assert "does not tell the PCI address" in part.problems[0].text


def test_a_library_that_lists_thousands_of_gpus_is_not_believed() -> None:
    binding = Binding("7")
    binding.handles = [Handle(0)] * 5000
    with pytest.raises(RuntimeError, match="which no node has"):
        AmdsmiDevices(start(binding)).current()
