"""What is read of a GPU while it works; the answers of library and files are scripted."""

# ruff: noqa: N802 - NVML has its own way with names

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from gputop.probes.devices.sensors import Sensors, Watch

GPU = "0000:06:00.0"


class ScriptedNvml:
    """NVML's functions as ctypes shows them; what is not given is missing, as in an old one."""

    def __init__(self, **answers: int) -> None:
        self.answers = answers
        self.asked = threading.Event()

    def nvmlDeviceGetHandleByPciBusId_v2(self, address: bytes, handle: Any) -> int:
        handle._obj.value = 7
        return 0 if address == GPU.encode() else 6

    def nvmlDeviceGetClockInfo(self, handle: Any, which: int, value: Any) -> int:
        assert handle.value == 7
        value._obj.value = {1: 1755, 2: 3201}[which]
        return 0

    def nvmlDeviceGetTemperature(self, handle: Any, which: int, value: Any) -> int:
        value._obj.value = 61
        return 0

    def __getattr__(self, name: str) -> Any:
        if name not in self.answers:
            raise AttributeError(name)

        def answer(handle: Any, value: Any) -> int:
            value._obj.value = self.answers[name]
            self.asked.set()
            return 0

        return answer


FULL = {
    "nvmlDeviceGetPowerUsage": 688_400,
    "nvmlDeviceGetCurrPcieLinkGeneration": 5,
    "nvmlDeviceGetCurrPcieLinkWidth": 16,
    "nvmlDeviceGetCurrentClocksThrottleReasons": 0x4 | 0x40,
}


class NewNvml(ScriptedNvml):
    """One that knows the power of this moment."""

    def nvmlDeviceGetFieldValues(self, handle: Any, count: int, fields: Any) -> int:
        field = fields._obj[0]
        assert len(fields._obj) > count  # the library goes on behind them
        field.code, field.value = (0, 701_000) if field.field == 186 else (3, 0)
        return 0


def test_what_nvml_answers(tmp_path: Path) -> None:
    sample = Sensors([GPU], nvml=ScriptedNvml(**FULL), sysfs=tmp_path).read(GPU)
    assert sample == {
        "sm_clock_mhz": 1755,
        "memory_clock_mhz": 3201,
        "power_w": 688.4,
        "temperature_c": 61,
        "pcie_generation": 5,
        "pcie_width": 16,
        "reasons": {"sw-power-cap", "hw-thermal"},
    }


def test_the_power_of_the_moment_goes_before_the_mean_of_a_second(tmp_path: Path) -> None:
    assert Sensors([GPU], nvml=NewNvml(**FULL), sysfs=tmp_path).read(GPU)["power_w"] == 701.0


def test_the_newer_name_of_the_reasons_is_asked_first(tmp_path: Path) -> None:
    nvml = ScriptedNvml(**FULL, nvmlDeviceGetCurrentClocksEventReasons=0x1)
    assert Sensors([GPU], nvml=nvml, sysfs=tmp_path).read(GPU)["reasons"] == {"idle"}


def test_what_is_not_answered_is_missing_and_not_zero(tmp_path: Path) -> None:
    sample = Sensors([GPU], nvml=ScriptedNvml(), sysfs=tmp_path).read(GPU)
    assert sample.keys() == {"sm_clock_mhz", "memory_clock_mhz", "temperature_c"}


def test_no_library_no_device_no_address(tmp_path: Path) -> None:
    sensors = Sensors([GPU, None], nvml=object(), sysfs=tmp_path)
    for address in (GPU, None, "0000:99:00.0"):
        assert sensors.read(address) == {}
        with sensors.watching(address) as watch:
            pass
        assert watch.summary() == {}


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text + "\n")


def amd_card(root: Path) -> None:
    """A root port of the CPU, the card's own switch (two bridges), the GPU."""
    port = root / "pci0000:00" / "0000:00:01.1"
    slot = port / "0000:01:00.0"
    inner = slot / "0000:02:00.0"
    gpu = inner / "0000:03:00.0"
    write(port, vendor="0x1022", **{"class": "0x060400"}, current_link_speed="16.0 GT/s PCIe",
          current_link_width="8")  # fmt: skip
    write(slot, vendor="0x1002", **{"class": "0x060400"}, current_link_speed="16.0 GT/s PCIe",
          current_link_width="8")  # fmt: skip
    write(inner, vendor="0x1002", **{"class": "0x060400"}, current_link_speed="32.0 GT/s PCIe",
          current_link_width="16")  # fmt: skip
    write(gpu, vendor="0x1002", **{"class": "0x038000"}, current_link_speed="32.0 GT/s PCIe",
          current_link_width="16")  # fmt: skip
    write(gpu / "hwmon" / "hwmon4", freq1_input="2100000000", freq2_input="1300000000",
          power1_input="722000000", temp1_input="0", temp2_input="58000")  # fmt: skip
    (root / "devices").mkdir()
    (root / "devices" / "0000:03:00.0").symlink_to(gpu)


def test_amd_by_sysfs_and_the_link_of_the_slot(tmp_path: Path) -> None:
    amd_card(tmp_path)
    sensors = Sensors(["0000:03:00.0"], nvml=object(), sysfs=tmp_path / "devices")
    assert sensors.read("0000:03:00.0") == {
        "sm_clock_mhz": 2100,
        "memory_clock_mhz": 1300,
        "power_w": 722,
        "temperature_c": 58,
        "pcie_generation": 4,
        "pcie_width": 8,
    }


@pytest.mark.parametrize(("speed", "width"), [("Unknown", "16"), ("32.0 GT/s PCIe", "63")])
def test_an_unknown_link_is_no_link(tmp_path: Path, speed: str, width: str) -> None:
    write(tmp_path / GPU, current_link_speed=speed, current_link_width=width)
    assert Sensors([GPU], nvml=object(), sysfs=tmp_path).read(GPU) == {}


def test_it_reads_while_the_block_runs_and_not_after(tmp_path: Path) -> None:
    nvml = ScriptedNvml(**FULL)
    before = threading.active_count()
    with Sensors([GPU], nvml=nvml, sysfs=tmp_path).watching(GPU, 0.001) as watch:
        for _ in range(5):
            nvml.asked.clear()
            assert nvml.asked.wait(60)
    assert threading.active_count() == before
    summary = watch.summary()
    assert (summary["sm_clock_mhz"], summary["power_w"]) == (1755, 688.4)
    assert summary["throttle"] == ["sw-power-cap", "hw-thermal"]
    assert (summary["pcie_generation"], summary["pcie_width"]) == (5, 16)


def test_the_watch_ends_when_the_work_raises(tmp_path: Path) -> None:
    before = threading.active_count()
    sensors = Sensors([GPU], nvml=ScriptedNvml(**FULL), sysfs=tmp_path)
    with pytest.raises(ZeroDivisionError), sensors.watching(GPU):
        raise ZeroDivisionError
    assert threading.active_count() == before


def watch_of(*samples: dict[str, Any]) -> dict[str, Any]:
    watch = Watch()
    for place, sample in enumerate(samples):
        watch.add(sample, place, place + 0.5)
    return watch.summary()


def test_medians_and_the_range_of_the_clock() -> None:
    asleep = {"sm_clock_mhz": 345, "pcie_generation": 1}
    awake = [{"sm_clock_mhz": clock, "pcie_generation": 5} for clock in (1980, 1755, 1740)]
    summary = watch_of(asleep, *awake)
    assert summary["sm_clock_mhz"] == 1755
    assert (summary["sm_clock_mhz_min"], summary["sm_clock_mhz_max"]) == (1740, 1980)
    assert summary["pcie_generation"] == 5
    assert "power_w" not in summary
    assert "throttle" not in summary


def test_which_reasons_count() -> None:
    quiet: list[dict[str, Any]] = [{"reasons": set()} for _ in range(29)]
    once = watch_of(*quiet, {"reasons": {"sw-power-cap", "hw-slowdown", "idle"}})
    assert once["throttle"] == ["hw-slowdown"]
    often = [{"reasons": {"sw-power-cap", "idle"}} for _ in range(10)]
    assert watch_of(*quiet, *often)["throttle"] == ["sw-power-cap"]
    assert watch_of(*({"reasons": {"idle"}} for _ in range(4)))["throttle"] == ["idle"]
    assert watch_of(*quiet)["throttle"] == []


def test_a_summary_is_cut_out_by_time() -> None:
    watch = Watch()
    for place, clock in enumerate((1980, 1900, 1800, 1700, 1600, 1500)):
        watch.add({"sm_clock_mhz": clock}, place, place + 0.5)
    # 1900 began before; the first inside says what was before; 1600 ended after.
    cut = watch.summary(1.2, 4.2)
    assert (cut["sm_clock_mhz_max"], cut["sm_clock_mhz_min"]) == (1800, 1700)
    cut = watch.summary(1, 4.5)
    assert (cut["sm_clock_mhz_max"], cut["sm_clock_mhz_min"]) == (1800, 1600)
    assert watch.summary(7, 9) == watch.summary(2.1, 2.4) == {}
    assert watch.summary()["sm_clock_mhz_min"] == 1500


def test_readings_carry_the_moments_when_they_were_taken(tmp_path: Path) -> None:
    nvml, started = ScriptedNvml(**FULL), time.monotonic()
    with Sensors([GPU], nvml=nvml, sysfs=tmp_path).watching(GPU, 0.001) as watch:
        assert nvml.asked.wait(60)
        while not watch.summary(started):  # while it runs, too
            assert time.monotonic() < started + 60
    ended = time.monotonic()
    assert watch.summary(started, ended) == watch.summary()
    assert watch.summary(until=started) == watch.summary(since=ended) == {}
