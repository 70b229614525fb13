"""One <gpu> of `nvidia-smi -q -x` as records. Element names differ between driver generations."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element

from .....model.machine import Fabric, Gpu, MigInstance
from .....model.readings import EccCounts, GpuProcess, GpuReading
from .....model.record import Gap
from .....sources.files.printed import Printed
from .....sources.nvidia import recovery
from .....sources.nvidia.smi_values import CELSIUS, LANES, MAX_ITEMS, MEGAHERTZ, NVIDIA_SMI, PERCENT
from .....sources.nvidia.words import HEALTH_AS_PRINTED
from .....sources.pci.address import pci_address

NOT_PRINTED = "not in nvidia-smi -q -x"
_NOT_PRINTED = ("nvlinks", "memory_affinity", "cpu_affinity", "core_count", "memory_bus_bits")
_MARGIN = "nvidia-smi prints the margin (T.Limit), not the temperature"
_COMPUTE = {
    "default": "default",
    "exclusive_process": "exclusive process",
    "exclusive_thread": "exclusive thread",
    "prohibited": "prohibited",
}
_VIRTUAL = {
    "pass-through": "passthrough",
    "vgpu": "vgpu",
    "host vgpu": "host vgpu",
    "host vsga": "host vsga",
}
_FABRIC = {
    "not supported": "not supported",
    "not started": "not started",
    "in progress": "in progress",
    "completed": "completed",
}
NVIDIA = 0x10DE
_REASONS = (
    ("gpu_idle", "gpu idle"),
    ("applications_clocks_setting", "applications clocks"),
    ("sw_power_cap", "sw power cap"),
    ("hw_slowdown", "hw slowdown"),
    ("sync_boost", "sync boost"),
    ("sw_thermal_slowdown", "sw thermal"),
    ("hw_thermal_slowdown", "hw thermal"),
    ("hw_power_brake_slowdown", "hw power brake"),
    ("display_clocks_setting", "display clock"),
)
_POWER = ("gpu_power_readings", "power_readings")

_KINDS = {"c": "compute", "g": "graphics", "m": "mps"}


def address(element: Element) -> str | None:
    """PCI address from the id of the element."""
    return pci_address(element.get("id")) or pci_address(element.findtext("pci/pci_bus_id"))


def gpu(element: Element, own: str, index: int | None) -> Gpu:
    """The lasting properties of one GPU; `index` is None where the file lacks NVML's numbers."""
    v = Printed(element, NVIDIA_SMI)
    gen, width = "pci/pci_gpu_link_info/pcie_gen", "pci/pci_gpu_link_info/link_widths"
    values: dict[str, Any] = {
        "minor": v.whole("minor", "minor_number"),
        "uuid": v.text("uuid", "uuid"),
        "name": v.text("name", "product_name"),
        "serial": v.text("serial", "serial"),
        "vbios": v.text("vbios", "vbios_version"),
        "board_id": v.hexadecimal("board_id", "board_id"),
        "board_part_number": v.text("board_part_number", "board_part_number"),
        "module_id": v.whole("module_id", "platformInfo/module_id", "gpu_module_id"),
        "architecture": v.text("architecture", "product_architecture"),
        "pci_id": _pci_id(v),
        "memory_bytes": v.size("memory_bytes", "fb_memory_usage/total"),
        "bar1_bytes": v.size("bar1_bytes", "bar1_memory_usage/total"),
        "pcie_gen_max": v.whole("pcie_gen_max", f"{gen}/max_link_gen"),
        "pcie_gen_max_device": v.whole("pcie_gen_max_device", f"{gen}/max_device_link_gen"),
        "pcie_width_max": v.whole("pcie_width_max", f"{width}/max_link_width", units=LANES),
        "power_limit_watts": _watts(
            v, "power_limit_watts", "enforced_power_limit", "current_power_limit", "power_limit"
        ),
        "power_limit_default_watts": _watts(v, "power_limit_default_watts", "default_power_limit"),
        "power_limit_min_watts": _watts(v, "power_limit_min_watts", "min_power_limit"),
        "power_limit_max_watts": _watts(v, "power_limit_max_watts", "max_power_limit"),
        "ecc_enabled": v.flag("ecc_enabled", "ecc_mode/current_ecc"),
        "ecc_pending": v.flag("ecc_pending", "ecc_mode/pending_ecc"),
        "mig_enabled": v.flag("mig_enabled", "mig_mode/current_mig"),
        "mig_pending": v.flag("mig_pending", "mig_mode/pending_mig"),
        "mig_instances": tuple(
            _mig(item) for item in element.findall("mig_devices/mig_device")[:MAX_ITEMS]
        ),
        "persistence": v.flag("persistence", "persistence_mode"),
        "compute_mode": v.word("compute_mode", _COMPUTE, "compute_mode"),
        "virtualization": _virtualization(v),
        "gsp_firmware": v.text("gsp_firmware", "gsp_firmware_version"),
        "c2c_enabled": v.flag("c2c_enabled", "c2c_mode"),
        "fabric": _fabric(v),
    }
    for ours, theirs in (("graphics", "graphics"), ("sm", "sm"), ("memory", "mem"), ("video",) * 2):
        field = f"clock_{ours}_max_mhz"
        # A virtual GPU prints 0 MHz.
        values[field] = v.positive(field, f"max_clocks/{theirs}_clock", units=MEGAHERTZ)
    for ours, theirs in (
        ("temperature_shutdown_c", "gpu_temp_max"),
        ("temperature_slowdown_c", "gpu_temp_slow"),
        ("temperature_gpu_max_c", "gpu_temp_max_gpu"),
        ("temperature_memory_max_c", "gpu_temp_max_mem"),
    ):
        if element.find(f"temperature/{theirs}_tlimit_threshold") is not None:
            v.miss(ours, _MARGIN)
        values[ours] = v.whole(ours, f"temperature/{theirs}_threshold", units=CELSIUS)
    gaps = v.gaps + tuple(Gap(field, NOT_PRINTED) for field in _NOT_PRINTED)
    return Gpu(address=own, vendor="nvidia", index=index, gaps=gaps, **values)


def reading(element: Element, own: str) -> GpuReading:
    """The reading at the moment of the recording."""
    v = Printed(element, NVIDIA_SMI)
    link = "pci/pci_gpu_link_info"
    values: dict[str, Any] = {
        "utilization_percent": v.number(
            "utilization_percent", "utilization/gpu_util", units=PERCENT
        ),
        "memory_utilization_percent": v.number(
            "memory_utilization_percent", "utilization/memory_util", units=PERCENT
        ),
        "memory_used_bytes": v.size("memory_used_bytes", "fb_memory_usage/used"),
        "memory_free_bytes": v.size("memory_free_bytes", "fb_memory_usage/free"),
        "bar1_used_bytes": v.size("bar1_used_bytes", "bar1_memory_usage/used"),
        "power_watts": _watts(
            v, "power_watts", "instant_power_draw", "power_draw", "average_power_draw"
        ),
        "temperature_c": _temperature(v),
        "temperature_memory_c": v.whole(
            "temperature_memory_c", "temperature/memory_temp", units=CELSIUS
        ),
        "throttle_reasons": _throttle(v),
        "performance_state": _performance_state(v),
        "pcie_gen": v.whole("pcie_gen", f"{link}/pcie_gen/current_link_gen"),
        "pcie_width": v.whole("pcie_width", f"{link}/link_widths/current_link_width", units=LANES),
        "pcie_replays": v.whole("pcie_replays", "pci/replay_counter"),
        "ecc": ecc_counts(element),
        "processes": processes(v),
        "recovery_action": recovery.printed(v, element),
    }
    for ours, theirs in (("graphics", "graphics"), ("sm", "sm"), ("memory", "mem"), ("video",) * 2):
        field = f"clock_{ours}_mhz"
        values[field] = v.whole(field, f"clocks/{theirs}_clock", units=MEGAHERTZ)
    for way in ("tx", "rx"):
        field = f"pcie_{way}_bytes_per_second"
        values[field] = v.number(field, f"pci/{way}_util", units={"KB/s": 1000.0})
        v.miss(f"nvlink_{way}_bytes_per_second", NOT_PRINTED)
    return GpuReading(address=own, gaps=v.gaps, **values)


def _temperature(v: Printed) -> int | None:
    guest = v.raw.findtext("gpu_virtualization_mode/virtualization_mode", "").strip().lower()
    # A virtual GPU has no sensor, and prints 0.
    read = v.positive if guest == "vgpu" else v.whole
    return read("temperature_c", "temperature/gpu_temp", units=CELSIUS)


def _watts(v: Printed, field: str, *names: str) -> float | None:
    paths = [f"{group}/{name}" for name in names for group in _POWER]
    return v.number(field, *paths, units={"W": 1.0})


def _pci_id(v: Printed) -> str | None:
    """Read "233510DE", device before vendor, as "10de:2335"."""
    number = v.hexadecimal("pci_id", "pci/pci_device_id")
    if number is None:
        return None
    if number & 0xFFFF != NVIDIA or not 0 < number < 0xFFFFFFFF:
        v.miss("pci_id", f"no device of NVIDIA's: {number:08x}")
        return None
    return f"{number & 0xFFFF:04x}:{number >> 16:04x}"


def _virtualization(v: Printed) -> str | None:
    path = "gpu_virtualization_mode/virtualization_mode"
    if v.raw.findtext(path, "").strip().lower() == "none":
        return "none"
    return v.word("virtualization", _VIRTUAL, path)


def _mig(element: Element) -> MigInstance:
    v = Printed(element, NVIDIA_SMI)
    values: dict[str, Any] = {
        "uuid": v.text("uuid", "uuid"),
        "gpu_instance": v.whole("gpu_instance", "gpu_instance_id"),
        "compute_instance": v.whole("compute_instance", "compute_instance_id"),
        "memory_bytes": v.size("memory_bytes", "fb_memory_usage/total"),
    }
    index = v.whole("index", "index")
    return MigInstance(index=index if index is not None else 0, gaps=v.gaps, **values)


def _fabric(v: Printed) -> Fabric | None:
    element = v.raw.find("fabric")
    state = v.word("fabric", _FABRIC, "fabric/state")
    if element is None or state is None:
        return None
    own = Printed(element, NVIDIA_SMI)
    words = [
        HEALTH_AS_PRINTED.get((child.tag, text), (child.tag.replace("_", " ")[:60], text))
        for child in element.findall("health/*")[:32]
        if (text := " ".join((child.text or "").split()).lower()[:60]) not in ("", "n/a")
    ]
    return Fabric(
        state=state,
        status=own.text("status", "status"),
        cluster_uuid=own.text("cluster_uuid", "clusterUuid"),
        clique_id=own.whole("clique_id", "cliqueId"),
        health=tuple(words),
        gaps=(*own.gaps, Gap("health_mask", NOT_PRINTED)),
    )


def _throttle(v: Printed) -> tuple[str, ...] | None:
    for group in ("clocks_event_reason", "clocks_throttle_reason"):
        element = v.raw.find(f"{group}s")
        if element is None:
            continue
        states = {
            name: " ".join((element.findtext(f"{group}_{tag}") or "").split()).lower()
            for tag, name in _REASONS
        }
        if any(states.values()):
            named = {f"{group}_{tag}" for tag, _ in _REASONS}
            others = [
                child.tag.removeprefix(f"{group}_").replace("_", " ")[:60]
                for child in element[:MAX_ITEMS]
                if child.tag not in named and (child.text or "").strip().lower() == "active"
            ]
            return (*(name for name, state in states.items() if state == "active"), *others)
    v.miss("throttle_reasons", "not in this nvidia-smi -q -x")
    return None


def _performance_state(v: Printed) -> int | None:
    text = v.text("performance_state", "performance_state")
    if text is None:
        return None
    digits = text.removeprefix("P")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 2):
        v.miss("performance_state", f"not understood: {text[:40]}")
        return None
    return int(digits)


def processes(v: Printed) -> tuple[GpuProcess, ...] | None:
    """List each process once per kind of context; None where nvidia-smi lists none."""
    listed = v.raw.find("processes")
    if listed is None:
        v.miss("processes", "not in this nvidia-smi -q -x")
        return None
    if (listed.text or "").strip():  # "N/A", or a sentence where the list would be
        v.miss("processes", f"nvidia-smi prints {' '.join((listed.text or '').split())[:80]}")
        return None
    found: dict[tuple[int, str], GpuProcess] = {}
    for item in listed.findall("process_info")[:MAX_ITEMS]:
        own = Printed(item, NVIDIA_SMI)
        pid = own.whole("pid", "pid")
        used = own.size("memory_bytes", "used_memory")
        if pid is None or not 0 <= pid < 2**32:
            continue
        for letter in (own.text("kind", "type") or "").lower().split("+"):
            kind = _KINDS.get(letter)
            if kind is not None:
                gaps = own.gaps if used is None else ()
                found[pid, kind] = GpuProcess(pid=pid, kind=kind, memory_bytes=used, gaps=gaps)
    return tuple(found.values())


# Memory errors of one <gpu> of `nvidia-smi -q -x`, in the layouts of all drivers.
def ecc_counts(element: Element) -> EccCounts:
    """The counts of one <gpu>."""
    v = Printed(element, NVIDIA_SMI)
    values: dict[str, Any] = {}
    for ours, theirs in (("volatile", "volatile"), ("aggregate", "aggregate")):
        root = f"ecc_errors/{theirs}"
        values[f"corrected_{ours}"] = _sum(
            v,
            f"corrected_{ours}",
            (f"{root}/sram_correctable", f"{root}/dram_correctable"),
            f"{root}/single_bit/total",
        )
        parity, secded = f"{root}/sram_uncorrectable_parity", f"{root}/sram_uncorrectable_secded"
        split = element.find(parity) is not None
        sram = (parity, secded) if split else (f"{root}/sram_uncorrectable",)
        values[f"uncorrected_{ours}"] = _sum(
            v,
            f"uncorrected_{ours}",
            (*sram, f"{root}/dram_uncorrectable"),
            f"{root}/double_bit/total",
        )
    rows, pages = "remapped_rows", "retired_pages"
    values |= {
        "rows_remapped_corrected": v.whole("rows_remapped_corrected", f"{rows}/remapped_row_corr"),
        "rows_remapped_uncorrected": v.whole(
            "rows_remapped_uncorrected", f"{rows}/remapped_row_unc"
        ),
        "remap_pending": v.flag("remap_pending", f"{rows}/remapped_row_pending"),
        "remap_failed": v.flag("remap_failed", f"{rows}/remapped_row_failure"),
        "pages_retired_single": v.whole(
            "pages_retired_single", f"{pages}/multiple_single_bit_retirement/retired_count"
        ),
        "pages_retired_double": v.whole(
            "pages_retired_double", f"{pages}/double_bit_retirement/retired_count"
        ),
        "retirement_pending": v.flag("retirement_pending", f"{pages}/pending_retirement"),
        "unrepairable": v.flag("unrepairable", "ecc_errors/unrepairable_memory"),
    }
    return EccCounts(gaps=v.gaps, **values)


def _sum(v: Printed, field: str, paths: tuple[str, ...], total: str) -> int | None:
    """Sum of the places that this driver lists; an older one prints a total.

    A place whose count it does not keep (N/A) takes nothing from those of the others. Where the
    text leaves a place out, errors in another one are errors all the same.
    """
    if isinstance(v.find(total), str):
        return v.whole(field, total)
    listed = [path for path in paths if v.raw.find(path) is not None]
    known = [path for path in listed if isinstance(v.find(path), str)]
    counts = [count for path in known if (count := v.whole(field, path)) is not None]
    found = sum(counts)
    if counts and len(counts) == len(known) and (found or len(listed) == len(paths)):
        return found
    return v.whole(field, total if v.raw.find(total) is not None else paths[0])
