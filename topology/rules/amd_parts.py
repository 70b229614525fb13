"""AMD packages of which the kernel did not make all the GPUs that their mode asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..amd.parts import PARTS_OF_MODE
from ..machine import Gpu
from ..specs import table
from .case import Case
from .finding import SLOW, Evidence, Finding, Fix
from .rule import Rule

DRM_DEVICES = 64
"""Most DRM devices of all vendors together, on kernels and with libdrm of the time
(ROCm/legacy-rocm-build#4589); eight packages in eight parts take all of them."""
FIRST_RENDER = 128
_DISPLAY = 0x0300
_DRIVERS = ("ast", "mgag200")
"""Drivers of the display adapters of servers, as AMD's notes name them."""
_LEAVE_OUT = "grubby --update-kernel=ALL --args=modprobe.blacklist={}"


def _check(case: Case) -> Iterable[Finding] | None:
    packages: dict[str, list[Gpu]] = {}
    for gpu in case.gpus:
        if gpu.vendor == "amd" and gpu.parent is not None and gpu.package_parts is not None:
            packages.setdefault(gpu.parent, []).append(gpu)
    if not packages:
        return None
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
    return [_finding(case, packages, lacking)]


def _wanted(case: Case, gpu: Gpu, packages: Mapping[str, list[Gpu]]) -> tuple[int, str] | None:
    """How many parts the mode makes of a package, and by what that is known."""
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
        Evidence(
            what=f"parts of package {parent}",
            value=f"{here}, numbers {_numbers(packages[parent])}; {why}",
            source="/sys/class/kfd/kfd/topology/nodes/*/properties, none of them hidden",
        )
        for parent, (here, _, why) in list(lacking.items())[:8]
    ]
    told, driver = _drm(case)
    fix = []
    if told:
        fix.append(
            Fix(
                text="Start the kernel without the driver of the server's display adapter (ast of "
                "Aspeed, mgag200 of Matrox), which takes one of those devices.",
                command=_LEAVE_OUT.format(driver) if driver else "",
                needs_root=True,
            )
        )
    return MISSING.finding(
        SLOW,
        f"{count} part{s} of {where} {'is' if count == 1 else 'are'} missing",
        devices=[packages[parent][0].address for parent in lacking],
        evidence=[*evidence, *told],
        consequence="The kernel made no GPU of it: its compute units lie idle, and a job that "
        "counts on all parts of the node does not find the last one.",
        fix=[
            *fix,
            Fix(
                text="Read why the driver left it out.",
                command="dmesg | grep -i -e 'drm node' -e amdgpu_xcp",
                needs_root=True,
            ),
        ],
    )


def _numbers(parts: list[Gpu]) -> str:
    return ", ".join(sorted({part.partition or "?" for part in parts}))


def _drm(case: Case) -> tuple[list[Evidence], str]:
    """What shows that the DRM devices are used up, and the driver that holds one of them."""
    minors = sorted(
        {
            gpu.render_minor
            for gpu in case.machine.gpus
            if gpu.vendor == "amd" and gpu.render_minor is not None
        }
    )
    displays = [
        device
        for device in case.machine.pci
        if device.class_code is not None
        and device.class_code >> 8 == _DISPLAY
        and device.driver in _DRIVERS
    ]
    # Where PCI was not read, the one device more that fills them up is an assumption.
    others = len(displays) if case.machine.pci else 1
    if len(minors) + others < DRM_DEVICES or minors[0] < FIRST_RENDER:
        return [], ""
    evidence = [
        Evidence(
            what="render nodes of AMD's GPUs",
            value=f"{len(minors)}, renderD{minors[0]} to renderD{minors[-1]}; older kernels allow "
            f"{DRM_DEVICES} DRM devices of all vendors together",
            source="KFD's drm_render_minor",
        )
    ]
    evidence += [
        Evidence(
            what=f"display adapter {device.address}",
            value=f"driven by {device.driver}, a DRM device too",
            source="sysfs",
        )
        for device in displays
    ]
    if not case.machine.pci:
        evidence.append(
            Evidence(
                what="display adapter of the server",
                value="not read; most have one, driven by ast or mgag200",
                source="assumption",
            )
        )
    return evidence, ",".join(dict.fromkeys(device.driver or "" for device in displays))


MISSING = Rule(
    id="amd-part-missing",
    title="parts of AMD packages of which the kernel made no GPU",
    evidence="all nodes of KFD's topology, and the compute partition of each package",
    disproof="as many parts as the mode makes in `amd-smi list`, or a node that a container may "
    "not see",
    sources=(
        "ROCm/amdsmi#99",
        "ROCm/legacy-rocm-build#4589",
        "Linux amdkfd kfd_topology.c, kfd_topology_add_device",
    ),
    check=_check,
)

RULES = (MISSING,)
