"""Settings of one GPU from the files of amdgpu in sysfs."""

from __future__ import annotations

import msgspec

from ...model.machine import Gpu
from ...model.record import Gap
from ..files.answers import FileAnswers


def settings(gpu: Gpu, fields: FileAnswers, *, whole: bool) -> Gpu:
    """Fill in what sysfs says about the device; `whole`: it is not one of several parts."""
    sensors = FileAnswers(fields.raw.get("hwmon"), fields.absent)
    unique = fields.text("unique_id", "uuid")
    found = msgspec.structs.replace(
        gpu,
        uuid=f"GPU-{unique.lower()}" if unique and whole else None,
        name=fields.text("product_name", "name"),
        serial=fields.text("serial_number", "serial"),
        vbios=fields.text("vbios_version", "vbios"),
        board_part_number=fields.text("product_number", "board_part_number"),
        pci_id=f"1002:{device[2:]}" if (device := fields.text("device")) else None,
        memory_bytes=fields.count("mem_info_vram_total", "memory_bytes") if whole else None,
        bar1_bytes=fields.count("mem_info_vis_vram_total", "bar1_bytes"),
        compute_partition=_word(fields, "current_compute_partition", "compute_partition"),
        memory_partition=_word(fields, "current_memory_partition", "memory_partition"),
        power_limit_watts=_watts(sensors, fields, "power1_cap", "power_limit_watts"),
        power_limit_default_watts=_watts(
            sensors, fields, "power1_cap_default", "power_limit_default_watts"
        ),
        power_limit_min_watts=_watts(sensors, fields, "power1_cap_min", "power_limit_min_watts"),
        power_limit_max_watts=_watts(sensors, fields, "power1_cap_max", "power_limit_max_watts"),
        temperature_slowdown_c=_limit(
            sensors, fields, "junction", "crit", "temperature_slowdown_c"
        ),
        temperature_shutdown_c=_limit(
            sensors, fields, "junction", "emergency", "temperature_shutdown_c"
        ),
        temperature_memory_max_c=_limit(sensors, fields, "mem", "crit", "temperature_memory_max_c"),
    )
    return msgspec.structs.replace(found, gaps=gaps(fields))


def gaps(fields: FileAnswers, *apart: str) -> tuple[Gap, ...]:
    """The gaps of a device; where it is asleep, all of them but those `apart` say so."""
    asleep = fields.text("asleep")
    return tuple(
        Gap(gap.field, asleep) if asleep is not None and gap.field not in apart else gap
        for gap in fields.gaps
    )


def _word(fields: FileAnswers, key: str, field: str) -> str | None:
    word = fields.text(key, field)
    if word is not None and not (word.isalnum() and word.isascii() and len(word) < 9):
        fields.gap(field, f"the kernel says {word[:40]!r}")
        return None
    return word


def _watts(sensors: FileAnswers, fields: FileAnswers, key: str, field: str) -> float | None:
    micro = sensors.number(key)
    if micro is None or not 0 <= micro < 100_000_000_000:
        fields.gap(field, fields.absent)
        return None
    return micro / 1e6


def _limit(
    sensors: FileAnswers, fields: FileAnswers, label: str, what: str, field: str
) -> int | None:
    for n in (1, 2, 3):
        if sensors.text(f"temp{n}_label") == label:
            milli = sensors.number(f"temp{n}_{what}")
            if milli is not None and 0 < milli < 500_000:
                return milli // 1000
    fields.gap(field, fields.absent)
    return None
