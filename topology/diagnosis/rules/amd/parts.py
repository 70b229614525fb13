"""AMD packages that appear as several GPUs: unequal partitioning and missing parts."""

from collections.abc import Mapping

from ....hardware.amd_parts import MODES, PARTS_OF_MODE
from ....hardware.specs import table
from ....hardware.vendors import AMD
from ....model.finding import Finding
from ....model.gathered import gathered
from ....model.machine import Gpu
from ....model.page import Fix
from ....model.severity import BY_DESIGN, SLOW
from ... import vendors
from ...case import Case
from ...rule import Found, Proof, Rule, needed
from ...shared.kernel_line import kernel_argument

_WHOLE = "SPX"
DRM_DEVICES = 64
"""The most DRM devices of all vendors together, with older kernels and libdrm
(ROCm/legacy-rocm-build#4589); eight packages in eight parts take all of them."""
FIRST_RENDER = 128
_DISPLAY = 0x0300
_DRIVERS = ("ast", "mgag200")
"""Drivers of the display adapters of servers, as AMD's notes name them."""
_LEAVE_OUT = (
    "Start the kernel without the driver of the server's display adapter (ast of Aspeed, mgag200 "
    "of Matrox), which takes one of those devices."
)


def _check(case: Case) -> Found:
    packages: dict[str, list[Gpu]] = {}
    for gpu in vendors.amds(case):
        if gpu.parent is not None and gpu.package_parts is not None:
            packages.setdefault(gpu.parent, []).append(gpu)
    needed(packages)
    lacking: dict[str, tuple[int, int, str]] = {}
    unknown = 0
    for parent, parts in packages.items():
        wanted = _wanted(case, parts[0], packages)
        here = parts[0].package_parts or 0
        if wanted is None:
            unknown += 1
        elif here < wanted[0]:
            lacking[parent] = (here, *wanted)
    if not lacking:
        return None if unknown == len(packages) else []
    return _finding(case, packages, lacking)


def _wanted(case: Case, gpu: Gpu, packages: Mapping[str, list[Gpu]]) -> tuple[int, str] | None:
    """How many parts the mode makes of a package, and what shows it."""
    mode = gpu.compute_partition
    if mode in PARTS_OF_MODE:
        return PARTS_OF_MODE[mode], f"{mode} makes {PARTS_OF_MODE[mode]} of it"
    if mode != "CPX":
        return None
    sku = case.sku(gpu)
    units = table("specs")["sku"][sku.name].get("sm_or_cu_count") if sku is not None else None
    if units and gpu.core_count and units % gpu.core_count == 0:
        count = units // gpu.core_count
        return count, f"CPX makes {count} of {units} compute units, {gpu.core_count} in each"
    sisters = [
        parts[0].package_parts or 0
        for parts in packages.values()
        if (parts[0].pci_id, parts[0].compute_partition) == (gpu.pci_id, mode)
    ]
    count = max(sisters)
    return count, f"{count} of {sisters.count(count)} packages of its kind"


def _finding(
    case: Case, packages: Mapping[str, list[Gpu]], lacking: Mapping[str, tuple[int, int, str]]
) -> Finding:
    count = sum(wanted - here for here, wanted, _ in lacking.values())
    s = "s" * (count != 1)
    where = next(iter(lacking)) if len(lacking) == 1 else f"{len(lacking)} packages"
    evidence = [
        (
            f"parts of package {parent}",
            f"{here}, numbers {_numbers(packages[parent])}; {why}",
            "/sys/class/kfd/kfd/topology/nodes/*/properties, none of them hidden",
        )
        for parent, (here, _, why) in list(lacking.items())[:8]
    ]
    lines, driver = _drm(case)
    fix = []
    if lines:
        fix.append(
            kernel_argument(_LEAVE_OUT, f"modprobe.blacklist={driver}")
            if driver
            else Fix(text=_LEAVE_OUT, needs_root=True)
        )
    return MISSING.finding(
        SLOW,
        f"{count} part{s} of {where} {'is' if count == 1 else 'are'} missing",
        devices=[packages[parent][0].address for parent in lacking],
        evidence=[*evidence, *lines],
        impact="The kernel made no GPU of it: its compute units lie idle, and a job that "
        "counts on all parts of the node does not find the last one.",
        fix=[
            *fix,
            "Read why the driver left it out. # dmesg | grep -i -e 'drm node' -e amdgpu_xcp",
        ],
    )


def _numbers(parts: list[Gpu]) -> str:
    return ", ".join(sorted({part.partition or "?" for part in parts}))


def _drm(case: Case) -> tuple[list[Proof], str]:
    """The evidence that no DRM device is left, and a driver that holds one of them."""
    minors = sorted(
        {
            gpu.render_minor
            for gpu in case.machine.gpus
            if gpu.vendor == AMD.id and gpu.render_minor is not None
        }
    )
    displays = [
        device
        for device in case.machine.pci
        if device.class_code is not None
        and device.class_code >> 8 == _DISPLAY
        and device.driver in _DRIVERS
    ]
    # Where PCI was not read, the last device that fills them up is an assumption.
    others = len(displays) if case.machine.pci else 1
    if len(minors) + others < DRM_DEVICES or minors[0] < FIRST_RENDER:
        return [], ""
    evidence = [
        (
            "render nodes of AMD's GPUs",
            (
                f"{len(minors)}, renderD{minors[0]} to renderD{minors[-1]}; older kernels allow "
                f"{DRM_DEVICES} DRM devices of all vendors together"
            ),
            "KFD's drm_render_minor",
        )
    ]
    evidence += [
        (
            f"display adapter {device.address}",
            f"driven by {device.driver}, a DRM device too",
            "sysfs",
        )
        for device in displays
    ]
    if not case.machine.pci:
        evidence.append(
            (
                "display adapter of the server",
                "not read; most have one, driven by ast or mgag200",
                "assumption",
            )
        )
    return evidence, ",".join(dict.fromkeys(device.driver or "" for device in displays))


def _check_partition(case: Case) -> Found:
    known = needed(
        [
            gpu
            for gpu in case.gpus
            if gpu.vendor == AMD.id and (gpu.compute_partition or gpu.memory_partition)
        ]
    )
    modes = gathered((_modes(gpu), gpu.address) for gpu in known)
    parted = [gpu for gpu in known if gpu.compute_partition not in (None, _WHOLE)]
    usual = max(known, key=lambda gpu: len(modes[_modes(gpu)]))
    who = [gpu.address for gpu in known if _unlike(gpu, usual)]
    if len({gpu.name for gpu in known}) > 1:
        who = []
    if not parted and not who:
        return []
    evidence = [
        (
            f"partitions of {_some(case, addresses)}",
            words,
            "amdsmi, sysfs current_compute_partition and current_memory_partition",
        )
        for words, addresses in modes.items()
    ]
    if who:
        return _partitioned_otherwise(case, who, evidence)
    return _parted(parted, ", ".join(modes), evidence)


def _partitioned_otherwise(case: Case, who: list[str], evidence: list[Proof]) -> Finding:
    return PARTITION.finding(
        SLOW,
        f"{_some(case, who)} {'is' if len(who) == 1 else 'are'} partitioned otherwise than "
        "the rest",
        devices=who,
        evidence=evidence,
        impact="Parts differ in compute units and memory: a job over all of them "
        "waits for the smallest, and RCCL finds no board that it knows.",
        fix=[
            "Give all packages one mode, when nothing runs on them. "
            "# amd-smi set --gpu all --compute-partition SPX"
        ],
    )


def _parted(parted: list[Gpu], names: str, evidence: list[Proof]) -> Finding:
    packages = len({gpu.parent or gpu.address for gpu in parted})
    many, s = len(parted), "s" * (packages != 1)
    shown = f"show{'s' * (packages == 1)} as {many} GPU{'s' * (many != 1)}"
    return PARTITION.finding(
        BY_DESIGN,
        f"{packages} package{s} {shown} ({names})",
        devices=parted,
        evidence=evidence,
        impact="Each part has its share of the compute units and memory, and the parts "
        "of one package share its xGMI links and its PCIe link: figures of a whole GPU do not "
        "hold for one.",
    )


def _modes(gpu: Gpu) -> str:
    return " ".join(word for word in (gpu.compute_partition, gpu.memory_partition) if word)


def _unlike(gpu: Gpu, other: Gpu) -> bool:
    """Whether the two are partitioned differently; without both modes they are not."""
    both = ((getattr(gpu, mode), getattr(other, mode)) for mode in MODES)
    return any(None not in pair and pair[0] != pair[1] for pair in both)


def _some(case: Case, addresses: list[str]) -> str:
    if len(addresses) <= 8:
        return case.names(addresses)
    return f"{case.name(addresses[0])} and {len(addresses) - 1} more"


PARTITION = Rule(
    id="amd-partition",
    title="AMD packages that show as several GPUs, or not all alike",
    evidence="compute and memory partition of each GPU",
    vendor=AMD.id,
    disproof="SPX and NPS1 of every GPU in `amd-smi static --partition`",
    sources=("ROCm documentation: MI300X partition modes", "ROCm/amdsmi CHANGELOG"),
    check=_check_partition,
)
MISSING = Rule(
    id="amd-part-missing",
    title="parts of AMD packages of which the kernel made no GPU",
    evidence="all nodes of KFD's topology, and the compute partition of each package",
    vendor=AMD.id,
    disproof="as many parts as the mode makes in `amd-smi list`, or a node that a container may "
    "not see",
    sources=(
        "ROCm/amdsmi#99",
        "ROCm/legacy-rocm-build#4589",
        "Linux amdkfd kfd_topology.c, kfd_topology_add_device",
    ),
    check=_check,
)

RULES = (PARTITION, MISSING)
