"""One GPU of `amd-smi list`, `static`, `partition` or `metric --json` as a record that stays.

Names of sections differ between versions: `limit/max_power` became `limit/ppt0/max_power_limit`,
`vbios` became `ifwi`, `compute_partition` became `accelerator_partition`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .....model.machine import Gpu, GpuCache
from .....sources.amd.caches import caches_of
from .....sources.amd.smi_values import (
    AMD_SMI,
    CELSIUS,
    GIGATRANSFERS,
    MEGABYTES,
    MEGAHERTZ,
    WATTS,
    at,
    joined,
)
from .....sources.amd.words import gfx_name
from .....sources.files.answers import items_of
from .....sources.files.fields import Fields, by, flag, made, matching, text, whole
from .....sources.files.printed import Printed, scaled
from .documents import index

COMPUTE_MODE = re.compile(r"\A(SPX|DPX|TPX|QPX|CPX)\Z", re.IGNORECASE)
MEMORY_MODE = re.compile(r"\A(NPS[1-8])\Z", re.IGNORECASE)
GFX = re.compile(r"\A(gfx[0-9a-f]{3,5})\Z", re.IGNORECASE)
_GENERATION = re.compile(r"\A(?:Gen|PCIe|PCIE)?\s*([1-7])(?:\.0)?\Z")
_HEX = re.compile(r"\A(?:0x)?([0-9A-Fa-f]{1,4})\Z")
_MOST_BLOCKS = 128
_LIMITS = ("limit", "limit/ppt0")


def gpu(entry: Mapping[str, Any], own: str) -> Gpu:
    """The lasting properties of one GPU, from the sections that this output has."""
    printed = Printed(entry, AMD_SMI)
    partition, parent = part_of_package(printed, own)
    return GPU.read(
        printed,
        address=own,
        vendor="amd",
        index=index(entry.get("gpu")),
        partition=partition,
        parent=parent,
    )


def _power_limit(printed: Printed, field: str, name: str) -> float | None:
    paths = [f"{limit}/{name}{end}" for limit in _LIMITS for end in ("", "_limit")]
    watts = printed.number(field, *paths, units=WATTS)
    # An MI300A's own limit, which its host sets, is printed so, as is that of a second die.
    if watts == 0 and name != "min_power":
        printed.gap(field, "amd-smi prints 0")
        return None
    return watts


def part_of_package(printed: Printed, own: str) -> tuple[str | None, str | None]:
    """Which part of its package this GPU is, and the address of the package.

    A part has the address of its package with its own number in the place of the function. 0 is a
    whole GPU or the first part of several, which the others of its package tell (parts.py).
    """
    paths = "partition/partition_id", "partition_id"
    part = Printed(printed.raw, printed.dialect).whole("partition", *paths, most=63)
    if not part:
        return None, None
    return str(part), f"{own[:-1]}0" if own[-1] != "0" and own[-2] == "." else None


def _caches(v: Printed) -> tuple[GpuCache, ...]:
    found = caches_of(at(v.raw, "cache_info"))
    if not found:
        v.text("caches", "cache_info")
    return found


def _firmware(v: Printed) -> tuple[tuple[str, str], ...]:
    """Blocks and versions of `amd-smi firmware`."""
    listed = at(v.raw, "fw_list")
    found: dict[str, str] = {}
    for entry in items_of(listed)[:_MOST_BLOCKS]:
        if isinstance(entry, Mapping):
            row = Printed(entry, AMD_SMI)
            block, version = row.text("", "fw_id", "fw_name"), row.text("", "fw_version")
            if block and version:
                found[block.removeprefix("AMDSMI_FW_ID_")[:64]] = version[:64]
    if not found:
        v.text("firmware", "fw_list")
    return tuple(found.items())


def mode(found: re.Match[str]) -> str:
    """A mode of the package."""
    return found[1].upper()


def target(found: re.Match[str]) -> str | None:
    """The name of an architecture."""
    return gfx_name(found[1].lower())


def _pci_id(v: Printed) -> str | None:
    texts = [v.text("pci_id", f"asic/{name}") for name in ("vendor_id", "device_id")]
    numbers = [match[1] for text in texts if text and (match := _HEX.match(text))]
    if len(numbers) != 2:
        return None
    return f"{int(numbers[0], 16):04x}:{int(numbers[1], 16):04x}"


def _degrees(v: Printed, field: str, *names: str) -> int | None:
    paths = [f"limit/{name}_temperature" for name in names]
    return v.whole(field, *paths, units=CELSIUS, most=300)


def _top_clock(v: Printed, field: str, path: str, levels: str) -> int | None:
    """The highest clock: the one that `metric` calls so, else the highest level of `static`."""
    table = at(v.raw, f"{levels}/frequency_levels")
    if isinstance(table, Mapping):
        texts = [joined(value) for value in list(table.values())[:64]]
        rates = [scaled(text, MEGAHERTZ, AMD_SMI) for text in texts if text]
        known = [rate for rate in rates if rate is not None and 0 < rate < 1e5]
        if known:
            return round(max(known))
    return v.whole(field, path, units=MEGAHERTZ, most=100_000)


GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}


def generation(v: Printed, field: str, path: str) -> int | None:
    """The PCIe generation of a rate per lane in GT/s."""
    rate = v.number(field, path, units=GIGATRANSFERS)
    if rate is not None and rate not in GENERATIONS:
        v.gap(field, f"not understood: {rate:g} GT/s")
    return None if rate is None else GENERATIONS.get(rate)


_VBIOS = ("version", "vbios_version", "part_number")
_BITS = {"": 1.0, "bit": 1.0}
GPU = Fields(
    Gpu,
    uuid=text("uuid"),
    name=text("asic/market_name", "board/product_name"),
    serial=text("board/product_serial"),
    module_id=whole("asic/oam_id", most=4095),
    vbios=text(*(f"{section}/{name}" for name in _VBIOS for section in ("vbios", "ifwi"))),
    board_part_number=text("board/model_number"),
    compute_capability=matching(GFX, target, "asic/target_graphics_version"),
    core_count=whole("asic/num_compute_units", most=4096),
    pci_id=made(_pci_id),
    memory_bytes=whole(
        "vram/size", "mem_usage/total_vram", "vram/vram_size_mb", units=MEGABYTES
    ),
    memory_bus_bits=whole("vram/bit_width", units=_BITS, most=2**17),
    bar1_bytes=whole("mem_usage/total_visible_vram", units=MEGABYTES),
    pcie_gen_max=matching(_GENERATION, lambda found: int(found[1]), "bus/pcie_interface_version"),
    pcie_width_max=whole("bus/max_pcie_width", most=32),
    numa_node=whole("numa/node", most=4095),
    kfd_node=whole("node_id", most=4095),
    ecc_enabled=flag("ras/ecc_block_state/UMC"),
    temperature_slowdown_c=by(_degrees, "slowdown_hotspot", "slowdown_edge"),
    temperature_shutdown_c=by(_degrees, "shutdown_hotspot", "shutdown_edge"),
    temperature_memory_max_c=by(_degrees, "slowdown_vram"),
    power_limit_watts=by(_power_limit, "socket_power"),
    power_limit_min_watts=by(_power_limit, "min_power"),
    power_limit_max_watts=by(_power_limit, "max_power"),
    clock_graphics_max_mhz=by(_top_clock, "clock/gfx_0/max_clk", "clock/sys"),
    clock_memory_max_mhz=by(_top_clock, "clock/mem_0/max_clk", "clock/mem"),
    compute_partition=matching(
        COMPUTE_MODE, mode, "partition/compute_partition", "partition/accelerator_partition",
        "compute_partition", "accelerator_partition", "accelerator_type",
    ),
    memory_partition=matching(
        MEMORY_MODE, mode, "partition/memory_partition", "memory_partition", "memory"
    ),
    caches=made(_caches),
    firmware=made(_firmware),
)  # fmt: skip
