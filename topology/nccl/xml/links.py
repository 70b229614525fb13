"""`gpu`, `nvlink`, `xgmi` and `c2c` elements from what a driver says of a GPU.

As graph/xml.cc:ncclTopoGetXmlFromGpu of NCCL 2.28.9 and RCCL 2.21.5 does it.
"""

import re

from ...hardware.specs import BoardLinks, sku_for
from ...hardware.vendors import AMD
from ...model.machine import Gpu, Machine
from ...model.record import NOT_ASKED, REFUSED
from ...wiring.reported import (
    MOST_NVLINKS,
    capability_of_links,
    of_one,
    reported_nvlinks,
    to_switches,
)
from .bus import Bus

HIDDEN = "fffffff:ff:ff.0"
"""What NCCL writes for an end that the driver hides, as in every virtual machine."""
NVSWITCH, GPU_CLASS = "0x068000", "0x030200"
MOST_LINKS = ((60, 0), (70, 4), (80, 6), (90, 12))
"""(first compute capability that this is too few for, links that NCCL asks for); then 18."""
C2C = {90: (44712, 10), 100: (44712, 5), 107: (56376, 7), 120: (43125, 8)}
"""MB/s and links by the first compute capability that has them, where the rate was not read.

Grace with Hopper; half of them a GPU where a Grace has two Blackwell (a public dump of a GB300);
Vera with Rubin (NVIDIA/nccl, docs on mlopart); GB10 (NVIDIA/nccl pull request 2202).
"""
RUBIN_NVLINKS = 36
"""NVLinks of a Rubin, as NCCL lists them (the same document)."""
GFX9_ARCH = "38911"
"""hipDeviceArch_t as a number; the same in every RCCL dump of an Instinct that is known."""

_MODELS = (
    (r"V100|TITAN V", 70), (r"\bT4\b|RTX 20|Quadro RTX", 75), (r"A100|A800|\bA30\b", 80),
    (r"RTX PRO|RTX 50|Blackwell", 120), (r"\bL40S?\b|\bL4\b|\bL20\b|RTX 40|Ada", 89),
    (r"\bA[0-9]{1,2}G?\b|RTX A|RTX 30", 86), (r"H100|H200|H800|\bH20\b|GH200", 90),
    (r"B300|GB300", 103), (r"B200|GB200|\bB100\b", 100), (r"P100", 60), (r"P40|P4\b", 61),
)  # fmt: skip
"""Compute capability x10 by product name, for files that do not say it."""
_ARCHITECTURES = {
    "Volta": 70, "Turing": 75, "Ada Lovelace": 89, "Hopper": 90, "Blackwell": 100, "Rubin": 107
}  # fmt: skip
"""The same by architecture; of those that have several, what boards with NVLink have."""


def capability(gpu: Gpu, machine: Machine, notes: list[str]) -> int:
    """The compute capability x10 of an NVIDIA GPU; from name or links where nothing says it."""
    major, _, minor = (gpu.compute_capability or "").partition(".")
    if major.isdecimal() and minor.isdecimal() and len(major + minor) < 5:
        return int(major) * 10 + int(minor)
    sku = sku_for(gpu) if gpu.name is None else None
    name = gpu.name or (sku.name if sku is not None else "")
    for pattern, sm in _MODELS:
        if re.search(pattern, name):
            notes.append(f"Compute capability {sm / 10} is that of {name}; it was not read.")
            return sm
    sm, why = 90, ""
    if gpu.architecture in _ARCHITECTURES:
        sm, why = _ARCHITECTURES[gpu.architecture], f"its architecture is {gpu.architecture}"
    elif not name:
        sm, why = capability_of_links(reported_nvlinks(machine)) or (sm, why)
    notes.append(
        f"The compute capability of {name or 'the GPUs'} is not known: {sm / 10} is assumed"
        f"{', as ' if why else ''}{why}."
    )
    return sm


def gpu_attributes(gpu: Gpu, place: int, machine: Machine, notes: list[str]) -> dict[str, str]:
    """The attributes of a `gpu` element before its rank; `place` stands in for an unknown index."""
    if gpu.vendor != AMD.id:
        dev = str(place if gpu.index is None else gpu.index)
        return {"dev": dev, "sm": str(capability(gpu, machine, notes))}
    # RCCL writes the number of compute units as "sm", and HIP's number as "dev".
    gcn = (gpu.compute_capability or "").split(":")[0]
    if not gcn:
        notes.append("The architecture of the AMD GPUs is not known: gfx942 is assumed.")
    return {
        "dev": str(place),
        "sm": str(gpu.core_count or 0),
        "gcn": gcn or "gfx942",
        "arch": GFX9_ARCH,
    }


ONE_HOP = "How many xGMI hops lie between some GPUs is not known: one is assumed."
NO_WIRES = "Whether xGMI joins the GPUs is not known: PCIe alone is assumed."


def wires_unknown(machine: Machine) -> bool:
    """Whether nothing was read that says how AMD's GPUs are joined."""
    amd = [gpu for gpu in machine.gpus if gpu.vendor == AMD.id]
    joined = any(gpu.xgmi for gpu in amd) or any(pair.link_type for pair in machine.pairs)
    return len(amd) > 1 and not joined


def link_elements(
    gpu: Gpu, sm: int, machine: Machine, bus: Bus, notes: list[str]
) -> list[tuple[str, dict[str, str]]]:
    """The elements below a `gpu`: (tag, attributes)."""
    if gpu.vendor == AMD.id:
        return [
            (
                "xgmi",
                {
                    "target": target,
                    "count": count,
                    "tclass": bus.pci_class(target)
                    or (GPU_CLASS if machine.gpu(target) else NVSWITCH),
                },
            )
            for target, count in _xgmi(gpu, notes)
        ]
    counts = _nvlinks(gpu, sm)
    if _unread(gpu) and sm >= 60:
        counts = _reported(gpu, machine, notes) or _by_model(gpu, machine, notes)
    found = [
        ("nvlink", {"target": target, "count": str(count), "tclass": tclass})
        for target, count in counts.items()
        for tclass in (_target_class(target, machine, bus, notes),)
    ]
    if gpu.c2c_enabled and sm >= 90:
        rate, links = max((first, of) for first, of in C2C.items() if first <= sm)[1]
        if gpu.c2c_gbs:
            rate = round(gpu.c2c_gbs * 1000 / links)
        else:
            whole = f"{rate * links / 1000:.0f} GB/s"
            notes.append(f"C2C is on; its {whole} are taken from the table, not read.")
        found.append(("c2c", {"bw": str(rate), "count": str(links)}))
    return found


def _nvlinks(gpu: Gpu, sm: int) -> dict[str, int]:
    """Active links that can do P2P, by target, in the order of their numbers."""
    limit = next((links for below, links in MOST_LINKS if sm < below), MOST_NVLINKS)
    counts: dict[str, int] = {}
    for link in sorted(gpu.nvlinks, key=lambda link: link.link):
        hidden = link.remote_address is None and link.remote_kind is None
        if link.link >= limit or link.active is not True or link.p2p_capable is False:
            continue
        if hidden and link.why("remote_address") != "the driver hides it":
            continue  # No answer about the far end: NCCL leaves the link out.
        target = link.remote_address or HIDDEN
        counts[target] = counts.get(target, 0) + 1
    return counts


def _reported(gpu: Gpu, machine: Machine, notes: list[str]) -> dict[str, int]:
    """Links from the letters of `nvidia-smi topo -m`, where no link was read."""
    counts = reported_nvlinks(machine)
    own = of_one(counts, gpu.address)
    if not own:
        return {}
    if to_switches(counts):
        notes.append("NVLinks come from nvidia-smi topo -m; so many lead to NVSwitches.")
        return {HIDDEN: max(own.values())}
    notes.append("NVLinks come from nvidia-smi topo -m; taken for direct links between GPUs.")
    return own


def _unread(gpu: Gpu) -> bool:
    """Whether nobody was asked for the NVLinks; a driver that lists none has answered."""
    why = gpu.why("nvlinks") or ""
    return not gpu.nvlinks and (
        gpu.uuid is None or why.startswith(("not in ", NOT_ASKED)) or why.endswith(REFUSED)
    )


def _by_model(gpu: Gpu, machine: Machine, notes: list[str]) -> dict[str, int]:
    """All links of a model that always sits on NVSwitches; none for others, whose wiring varies."""
    sku = sku_for(gpu)
    joined = gpu.fabric is not None and gpu.fabric.state == "completed"
    if sku is None and joined:
        most = RUBIN_NVLINKS if gpu.architecture == "Rubin" else MOST_NVLINKS
        notes.append(f"NVLinks were not read: {most} are assumed, as the fabric is up.")
        return {HIDDEN: most}
    if sku is None:
        ends = [pair for pair in machine.pairs if gpu.address in (pair.src, pair.dst)]
        counted = any(pair.nvlinks_reported is not None for pair in ends)
        if len(machine.gpus) > 1 and not counted:
            notes.append("NVLinks were not read: none are assumed.")
        return {}
    if not sku.link_count:
        return {}
    if sku.fabric != BoardLinks.SWITCHED:
        notes.append(f"NVLinks of {sku.name} were not read: none are assumed.")
        return {}
    notes.append(f"NVLinks were not read: {sku.link_count} to NVSwitches, as {sku.name} has.")
    return {HIDDEN: sku.link_count}


def _target_class(target: str, machine: Machine, bus: Bus, notes: list[str]) -> str:
    known = bus.pci_class(target)
    if known is not None:
        return known
    if not machine.pci and machine.gpu(target) is not None:
        return GPU_CLASS
    if target != HIDDEN:
        notes.append(f"{target} at the end of NVLinks is not in /sys: NCCL takes it for NVSwitch.")
    return NVSWITCH


def _xgmi(gpu: Gpu, notes: list[str]) -> list[tuple[str, str]]:
    """Targets one hop away, with the number of links."""
    found = []
    for link in gpu.xgmi:
        if link.active is False or (link.hops is not None and link.hops != 1):
            continue
        if link.hops is None:
            notes.append(ONE_HOP)
        if link.links is None:
            notes.append("The number of xGMI links of a pair is not known: one is assumed.")
        found.append((link.remote_address, str(link.links or 1)))
    return found
