"""What amdgpu says about its GPUs in sysfs: which files are read, and which must not be.

`xgmi_error` is not among them: reading it clears the hardware's register (amdgpu_xgmi.c,
amdgpu_xgmi_show_error). A GPU that sleeps is not asked, because asking would wake it.
"""

from __future__ import annotations

import re

from ...model.part import Raw
from ..files.tree import Tree, answers, joined

ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
DEVICES = "sys/bus/pci/devices"
ORIGIN = "amdgpu"
"""Who says it."""
DRIVER = "sys/bus/pci/drivers/amdgpu"
CARDS = "sys/class/drm"
VENDOR = "0x1002"
FILES = (
    "current_compute_partition",
    "current_memory_partition",
    "device",
    "mem_info_vis_vram_total",
    "mem_info_vram_total",
    "product_name",
    "product_number",
    "serial_number",
    "unique_id",
    "vbios_version",
    "xgmi_hive_info/xgmi_hive_id",
    "xgmi_num_hops",
    "xgmi_num_links",
)
MOVING = (
    "current_link_speed",
    "current_link_width",
    "gpu_busy_percent",
    "mem_busy_percent",
    "mem_info_vram_total",
    "mem_info_vram_used",
    "pcie_replay_count",
)
HWMON = (
    "power1_cap",
    "power1_cap_default",
    "power1_cap_max",
    "power1_cap_min",
    *(f"temp{n}_{what}" for n in (1, 2, 3) for what in ("label", "crit", "emergency")),
)
HWMON_MOVING = (
    "power1_average",
    "power1_input",
    *(f"freq{n}_{what}" for n in (1, 2) for what in ("label", "input")),
    *(f"temp{n}_{what}" for n in (1, 2, 3) for what in ("label", "input")),
)
LIMIT_DEVICES = 256
LIMIT_HIVE = 64
ASLEEP = "the GPU sleeps, and asking would wake it"


def addresses(tree: Tree) -> list[str]:
    """PCI addresses of the GPUs that amdgpu drives, in order, as far as they are read."""
    return listed(tree)[:LIMIT_DEVICES]


def listed(tree: Tree) -> list[str]:
    """The addresses of all of them."""
    found = {name for name in tree.names(DRIVER) if ADDRESS.fullmatch(name)}
    for card in tree.names(CARDS):
        if not re.fullmatch(r"card[0-9]{1,3}", card):
            continue
        # A copied tree may have the cards without the folder of the driver.
        if tree.text(f"{CARDS}/{card}/device/vendor") == VENDOR:
            place = tree.resolved(f"{CARDS}/{card}/device") or ""
            name = place.rpartition("/")[2]
            if ADDRESS.fullmatch(name):
                found.add(name)
    return sorted(found)


def sleeps(tree: Tree, address: str) -> bool:
    """Whether the GPU is powered down."""
    return tree.text(f"{DEVICES}/{address}/power/runtime_status") == "suspended"


def read_device(tree: Tree, address: str) -> dict[str, Raw]:
    """Read what stays of one GPU: name of the file -> text or {"error": why}."""
    if sleeps(tree, address):
        return {"asleep": ASLEEP}
    folder = f"{DEVICES}/{address}"
    found = answers(tree, folder, FILES)
    found["hive"] = _hive(tree, folder)
    found["hwmon"] = _hwmon(tree, folder, HWMON)
    return found


def read_moving(tree: Tree, address: str) -> dict[str, Raw]:
    """Read what moves of one GPU."""
    if sleeps(tree, address):
        return {"asleep": ASLEEP}
    folder = f"{DEVICES}/{address}"
    found = answers(tree, folder, MOVING)
    found["hwmon"] = _hwmon(tree, folder, HWMON_MOVING)
    return found


def _hive(tree: Tree, folder: str) -> dict[str, Raw]:
    """Number in the hive -> address of that GPU, as ordered in xgmi_num_hops and xgmi_num_links."""
    inside = f"{folder}/xgmi_hive_info"
    found: dict[str, Raw] = {}
    for name in tree.names(inside):
        match = re.fullmatch(r"node([0-9]{1,3})", name)
        target = tree.link(f"{inside}/{name}") if match else None
        if match and target is not None and len(found) < LIMIT_HIVE:
            place = tree.resolved(f"{inside}/{name}") or joined(inside, target)
            found[match[1]] = place.rpartition("/")[2]
    return found


def _hwmon(tree: Tree, folder: str, names: tuple[str, ...]) -> dict[str, Raw]:
    for sensor in tree.names(f"{folder}/hwmon")[:4]:
        place = f"{folder}/hwmon/{sensor}"
        if tree.text(f"{place}/name") == "amdgpu":
            return answers(tree, place, names)
    return {}
