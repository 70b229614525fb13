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
