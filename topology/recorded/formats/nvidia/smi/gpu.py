"""One <gpu> of `nvidia-smi -q -x` as records. Element names differ between driver generations."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element

import msgspec

from .....model.machine import Fabric, Gpu, MigInstance
from .....model.readings import EccCounts, GpuProcess, GpuReading, GpuUse
from .....model.record import Gap, gaps_of
from .....sources.files.fields import (
    Fields,
    by,
    flag,
    hexadecimal,
    made,
    matching,
    number,
    positive,
    size,
    text,
    whole,
    word,
)
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

_KINDS = {"c": GpuUse.COMPUTE, "g": GpuUse.GRAPHICS, "m": GpuUse.MPS}


def address(element: Element) -> str | None:
    """PCI address from the id of the element."""
    return pci_address(element.get("id")) or pci_address(element.findtext("pci/pci_bus_id"))


def gpu(element: Element, own: str, index: int | None) -> Gpu:
    """The lasting properties of one GPU; `index` is None where the file lacks NVML's numbers."""
    found = GPU.read(Printed(element, NVIDIA_SMI), address=own, vendor="nvidia", index=index)
    gaps = found.gaps + gaps_of(_NOT_PRINTED, NOT_PRINTED)
    return msgspec.structs.replace(found, gaps=gaps)


def reading(element: Element, own: str) -> GpuReading:
    """The reading at the moment of the recording."""
    return READING.read(Printed(element, NVIDIA_SMI), address=own)


def _not_printed(printed: Printed, field: str) -> None:
    printed.gap(field, NOT_PRINTED)


def _threshold(printed: Printed, field: str, name: str) -> int | None:
    if printed.raw.find(f"temperature/{name}_tlimit_threshold") is not None:
        printed.gap(field, _MARGIN)
    return printed.whole(field, f"temperature/{name}_threshold", units=CELSIUS)


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
        v.gap("pci_id", f"no device of NVIDIA's: {number:08x}")
        return None
    return f"{number & 0xFFFF:04x}:{number >> 16:04x}"


def _virtualization(v: Printed) -> str | None:
    path = "gpu_virtualization_mode/virtualization_mode"
    if v.raw.findtext(path, "").strip().lower() == "none":
        return "none"
    return v.word("virtualization", _VIRTUAL, path)


def _mig_instances(printed: Printed) -> tuple[MigInstance, ...]:
    listed = printed.raw.findall("mig_devices/mig_device")[:MAX_ITEMS]
    found = (MIG_INSTANCE.read(Printed(item, NVIDIA_SMI)) for item in listed)
    return tuple(found)


def _mig_index(printed: Printed, field: str) -> int:
    return printed.whole(field, "index") or 0


def _fabric(v: Printed) -> Fabric | None:
    element = v.raw.find("fabric")
    state = v.word("fabric", _FABRIC, "fabric/state")
    if element is None:
        return None
    if state is None and (element.find("state") is not None or element.find("health") is None):
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
    v.gap("throttle_reasons", "not in this nvidia-smi -q -x")
    return None


def processes(v: Printed) -> tuple[GpuProcess, ...] | None:
    """List each process once per kind of context; None where nvidia-smi lists none."""
    listed = v.raw.find("processes")
    if listed is None:
        v.gap("processes", "not in this nvidia-smi -q -x")
        return None
    if (listed.text or "").strip():  # "N/A", or a sentence where the list would be
        v.gap("processes", f"nvidia-smi prints {' '.join((listed.text or '').split())[:80]}")
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
def _ecc(printed: Printed) -> EccCounts:
    return ECC.read(Printed(printed.raw, NVIDIA_SMI))


def _recovery(printed: Printed) -> str | None:
    return recovery.printed(printed, printed.raw)


def _corrected(printed: Printed, field: str, when: str) -> int | None:
    root = f"ecc_errors/{when}"
    places = (f"{root}/sram_correctable", f"{root}/dram_correctable")
    return _sum(printed, field, places, f"{root}/single_bit/total")


def _uncorrected(printed: Printed, field: str, when: str) -> int | None:
    root = f"ecc_errors/{when}"
    parity, secded = (f"{root}/sram_uncorrectable_{code}" for code in ("parity", "secded"))
    split = printed.raw.find(parity) is not None
    sram = (parity, secded) if split else (f"{root}/sram_uncorrectable",)
    places = (*sram, f"{root}/dram_uncorrectable")
    return _sum(printed, field, places, f"{root}/double_bit/total")


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


MIG_INSTANCE = Fields(
    MigInstance,
    uuid=text("uuid"),
    gpu_instance=whole("gpu_instance_id"),
    compute_instance=whole("compute_instance_id"),
    memory_bytes=size("fb_memory_usage/total"),
    index=by(_mig_index),
)
_ROWS, _PAGES = "remapped_rows", "retired_pages"
ECC = Fields(
    EccCounts,
    corrected_volatile=by(_corrected, "volatile"),
    uncorrected_volatile=by(_uncorrected, "volatile"),
    corrected_aggregate=by(_corrected, "aggregate"),
    uncorrected_aggregate=by(_uncorrected, "aggregate"),
    rows_remapped_corrected=whole(f"{_ROWS}/remapped_row_corr"),
    rows_remapped_uncorrected=whole(f"{_ROWS}/remapped_row_unc"),
    remap_pending=flag(f"{_ROWS}/remapped_row_pending"),
    remap_failed=flag(f"{_ROWS}/remapped_row_failure"),
    pages_retired_single=whole(f"{_PAGES}/multiple_single_bit_retirement/retired_count"),
    pages_retired_double=whole(f"{_PAGES}/double_bit_retirement/retired_count"),
    retirement_pending=flag(f"{_PAGES}/pending_retirement"),
    unrepairable=flag("ecc_errors/unrepairable_memory"),
)
_STATE = re.compile(r"\AP?([0-9]{1,2})\Z")
_LINK = "pci/pci_gpu_link_info"
_GENERATION, _WIDTH = f"{_LINK}/pcie_gen", f"{_LINK}/link_widths"
GPU = Fields(
    Gpu,
    minor=whole("minor_number"),
    uuid=text("uuid"),
    name=text("product_name"),
    serial=text("serial"),
    vbios=text("vbios_version"),
    board_id=hexadecimal("board_id"),
    board_part_number=text("board_part_number"),
    module_id=whole("platformInfo/module_id", "gpu_module_id"),
    architecture=text("product_architecture"),
    pci_id=made(_pci_id),
    memory_bytes=size("fb_memory_usage/total"),
    bar1_bytes=size("bar1_memory_usage/total"),
    pcie_gen_max=whole(f"{_GENERATION}/max_link_gen"),
    pcie_gen_max_device=whole(f"{_GENERATION}/max_device_link_gen"),
    pcie_width_max=whole(f"{_WIDTH}/max_link_width", units=LANES),
    power_limit_watts=by(_watts, "enforced_power_limit", "current_power_limit", "power_limit"),
    power_limit_default_watts=by(_watts, "default_power_limit"),
    power_limit_min_watts=by(_watts, "min_power_limit"),
    power_limit_max_watts=by(_watts, "max_power_limit"),
    ecc_enabled=flag("ecc_mode/current_ecc"),
    ecc_pending=flag("ecc_mode/pending_ecc"),
    mig_enabled=flag("mig_mode/current_mig"),
    mig_pending=flag("mig_mode/pending_mig"),
    mig_instances=made(_mig_instances),
    persistence=flag("persistence_mode"),
    compute_mode=word(_COMPUTE, "compute_mode"),
    virtualization=made(_virtualization),
    gsp_firmware=text("gsp_firmware_version"),
    c2c_enabled=flag("c2c_mode"),
    fabric=made(_fabric),
    # A virtual GPU prints 0 MHz.
    clock_graphics_max_mhz=positive("max_clocks/graphics_clock", units=MEGAHERTZ),
    clock_sm_max_mhz=positive("max_clocks/sm_clock", units=MEGAHERTZ),
    clock_memory_max_mhz=positive("max_clocks/mem_clock", units=MEGAHERTZ),
    clock_video_max_mhz=positive("max_clocks/video_clock", units=MEGAHERTZ),
    temperature_shutdown_c=by(_threshold, "gpu_temp_max"),
    temperature_slowdown_c=by(_threshold, "gpu_temp_slow"),
    temperature_gpu_max_c=by(_threshold, "gpu_temp_max_gpu"),
    temperature_memory_max_c=by(_threshold, "gpu_temp_max_mem"),
)
_KILOBYTES_A_SECOND = {"KB/s": 1000.0}
READING = Fields(
    GpuReading,
    utilization_percent=number("utilization/gpu_util", units=PERCENT),
    memory_utilization_percent=number("utilization/memory_util", units=PERCENT),
    memory_used_bytes=size("fb_memory_usage/used"),
    memory_free_bytes=size("fb_memory_usage/free"),
    bar1_used_bytes=size("bar1_memory_usage/used"),
    power_watts=by(_watts, "instant_power_draw", "power_draw", "average_power_draw"),
    temperature_c=made(_temperature),
    temperature_memory_c=whole("temperature/memory_temp", units=CELSIUS),
    throttle_reasons=made(_throttle),
    performance_state=matching(_STATE, lambda found: int(found[1]), "performance_state"),
    pcie_gen=whole(f"{_GENERATION}/current_link_gen"),
    pcie_width=whole(f"{_WIDTH}/current_link_width", units=LANES),
    pcie_replays=whole("pci/replay_counter"),
    ecc=made(_ecc),
    processes=made(processes),
    recovery_action=made(_recovery),
    clock_graphics_mhz=whole("clocks/graphics_clock", units=MEGAHERTZ),
    clock_sm_mhz=whole("clocks/sm_clock", units=MEGAHERTZ),
    clock_memory_mhz=whole("clocks/mem_clock", units=MEGAHERTZ),
    clock_video_mhz=whole("clocks/video_clock", units=MEGAHERTZ),
    pcie_tx_bytes_per_second=number("pci/tx_util", units=_KILOBYTES_A_SECOND),
    nvlink_tx_bytes_per_second=by(_not_printed),
    pcie_rx_bytes_per_second=number("pci/rx_util", units=_KILOBYTES_A_SECOND),
    nvlink_rx_bytes_per_second=by(_not_printed),
)
