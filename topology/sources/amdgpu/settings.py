"""Settings of one GPU from the files of amdgpu in sysfs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...model.machine import Gpu
from ...model.part import Raw
from ..files.answers import FileAnswers
from ..files.fields import Fields, by, file_count, file_text, made


class DeviceAnswers(FileAnswers):
    """The files of one GPU; where it sleeps, that is why a value is missing."""

    def __init__(self, raw: Raw, absent: str, *, whole: bool = True) -> None:
        super().__init__(raw, absent)
        self.whole = whole
        """Whether it is not one of several parts."""
        self.sensors = FileAnswers(self.raw.get("hwmon"), absent)
        self._asleep = self.text("asleep")

    def gap(self, field: str, why: str) -> None:
        """Note why `field` is None; KFD lists processes of a GPU that sleeps too."""
        super().gap(field, why if field == "processes" else self._asleep or why)

    def sensor(self, field: str, keys: Iterable[str], least: int, most: int) -> int | None:
        """The first of these sensors whose value is from `least` to below `most`."""
        for key in keys:
            value = self.sensors.number(key)
            if value is not None and least <= value < most:
                return value
        self.gap(field, self.absent)
        return None

    def labelled(self, kind: str, what: str, labels: Iterable[str]) -> Iterator[str]:
        """The sensors of a kind that the driver labels so: "temp2_input"."""
        return (
            f"{kind}{number}_{what}"
            for label in labels
            for number in (1, 2, 3)
            if self.sensors.text(f"{kind}{number}_label") == label
        )


def settings(address: str, fields: DeviceAnswers) -> Gpu:
    """What sysfs says about the device."""
    return GPU.read(fields, address=address, vendor="amd")


def watts(fields: DeviceAnswers, field: str, *keys: str) -> float | None:
    """A power, of which the driver gives microwatts."""
    micro = fields.sensor(field, keys, 0, 100_000_000_000)
    return None if micro is None else micro / 1e6


def _limit(fields: DeviceAnswers, field: str, label: str, what: str) -> int | None:
    milli = fields.sensor(field, fields.labelled("temp", what, (label,)), 1, 500_000)
    return None if milli is None else milli // 1000


def _uuid(fields: DeviceAnswers) -> str | None:
    unique = fields.text("unique_id", "uuid")
    return f"GPU-{unique.lower()}" if unique and fields.whole else None


def _pci_id(fields: DeviceAnswers) -> str | None:
    device = fields.text("device")
    return f"1002:{device[2:]}" if device else None


def _memory(fields: DeviceAnswers) -> int | None:
    return fields.count("mem_info_vram_total", "memory_bytes") if fields.whole else None


def _word(fields: DeviceAnswers, field: str, key: str) -> str | None:
    word = fields.text(key, field)
    if word is not None and not (word.isalnum() and word.isascii() and len(word) < 9):
        fields.gap(field, f"the kernel says {word[:40]!r}")
        return None
    return word


GPU = Fields(
    Gpu,
    uuid=made(_uuid),
    name=file_text("product_name"),
    serial=file_text("serial_number"),
    vbios=file_text("vbios_version"),
    board_part_number=file_text("product_number"),
    pci_id=made(_pci_id),
    memory_bytes=made(_memory),
    bar1_bytes=file_count("mem_info_vis_vram_total"),
    compute_partition=by(_word, "current_compute_partition"),
    memory_partition=by(_word, "current_memory_partition"),
    power_limit_watts=by(watts, "power1_cap"),
    power_limit_default_watts=by(watts, "power1_cap_default"),
    power_limit_min_watts=by(watts, "power1_cap_min"),
    power_limit_max_watts=by(watts, "power1_cap_max"),
    temperature_slowdown_c=by(_limit, "junction", "crit"),
    temperature_shutdown_c=by(_limit, "junction", "emergency"),
    temperature_memory_max_c=by(_limit, "mem", "crit"),
)
