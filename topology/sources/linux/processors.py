"""CPUs, sockets, NUMA nodes and the hypervisor, from what /proc and /sys say."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ...model.cpulist import members
from ...model.part import Raw
from ...model.surroundings import NumaNode, Socket
from ..files.answers import FileAnswers, items_of, part, under, whole
from ..files.tree import Tree, answers

CPUS = "sys/devices/system/cpu"
NODES = "sys/devices/system/node"
LIMIT_SOCKETS = 64
LIMIT_NODES = 1024

ARM_MAKERS = {
    0x41: "ARM",
    0x46: "Fujitsu",
    0x48: "HiSilicon",
    0x4E: "NVIDIA",
    0x51: "Qualcomm",
    0xC0: "Ampere",
}
"""Arm's implementer codes (Linux arch/arm64/include/asm/cputype.h)."""
ARM_PARTS = {
    (0x41, 0xD0C): "Neoverse-N1",
    (0x41, 0xD40): "Neoverse-V1",
    (0x41, 0xD49): "Neoverse-N2",
    (0x41, 0xD4F): "Neoverse-V2",
}
HYPERVISORS = (
    ("QEMU", "KVM (QEMU)"),
    ("KVM", "KVM"),
    ("Amazon EC2", "Amazon EC2"),
    ("Google", "Google Compute Engine (KVM)"),
    ("Microsoft Corporation", "Hyper-V"),
    ("VMware", "VMware"),
    ("Xen", "Xen"),
    ("innotek", "VirtualBox"),
    ("OpenStack", "KVM (OpenStack)"),
)
"""What DMI's sys_vendor or product_name starts with, in a virtual machine."""
_MEMORY = re.compile(r"\bMemTotal:\s+(\d{1,15}) kB")


class Processor(msgspec.Struct, frozen=True, kw_only=True):
    """The first CPU, as /proc/cpuinfo describes it."""

    vendor: str | None = None
    name: str | None = None
    family: int | None = None
    model: int | None = None
    architecture: str | None = None
    virtual: bool | None = None
    """Whether the CPU says that a hypervisor runs it; None where CPUs do not say."""


def read_sockets(tree: Tree) -> list[Raw]:
    """One entry for each socket: {"socket", "cpus", "siblings"}; few reads for many CPUs."""
    waiting = sorted(
        int(name[3:])
        for name in tree.names(CPUS)
        if name.startswith("cpu") and name[3:].isdecimal() and len(name) < 10
    )
    seen: set[int] = set()
    sockets: list[Raw] = []
    for cpu in waiting:
        if cpu in seen or len(sockets) >= LIMIT_SOCKETS:
            continue
        files = answers(
            tree,
            f"{CPUS}/cpu{cpu}/topology",
            ("physical_package_id", "core_siblings_list", "thread_siblings_list"),
        )
        cpus = files.get("core_siblings_list")
        package = files.get("physical_package_id")
        if not isinstance(cpus, str) or not isinstance(package, str):
            continue  # an offline CPU has no topology
        seen |= members(cpus) or set()
        sockets.append(
            {"socket": package, "cpus": cpus, "siblings": files.get("thread_siblings_list")}
        )
    return sockets


def read_nodes(tree: Tree) -> dict[str, Raw]:
    """NUMA nodes by number: {"cpulist", "distance", "meminfo"} as in sysfs."""
    names = [
        name for name in tree.names(NODES) if name.startswith("node") and name[4:].isdecimal()
    ][:LIMIT_NODES]
    return {
        name[4:]: answers(tree, f"{NODES}/{name}", ("cpulist", "distance", "meminfo"))
        for name in names
    }


def processor(text: str | None) -> Processor:
    """The first CPU in the text of /proc/cpuinfo; all None for other text."""
    values: dict[str, str] = {}
    for line in (text or "").split("\n\n", 1)[0].splitlines():
        name, colon, value = line.partition(":")
        if colon:
            values.setdefault(name.strip(), value.strip())
    maker = whole(values.get("CPU implementer"), 0)
    if maker is not None:
        part_number = whole(values.get("CPU part"), 0)
        return Processor(
            vendor=ARM_MAKERS.get(maker, f"implementer 0x{maker & 0xFFFF:x}"),
            name=ARM_PARTS.get((maker, part_number or 0)),
            model=part_number,
            architecture="aarch64",
        )
    flags = values.get("flags", "").split()
    return Processor(
        vendor=values.get("vendor_id"),
        name=values.get("model name") or None,
        family=whole(values.get("cpu family")),
        model=whole(values.get("model")),
        architecture="x86_64" if "lm" in flags else None,
        virtual="hypervisor" in flags if flags else None,
    )


def hypervisor(
    cpu: Processor, vendor: str | None, product: str | None, kind: str | None
) -> str | None:
    """The hypervisor below this machine; None on bare metal or when nothing reveals one.

    A cloud's bare-metal machine carries the same DMI names as its virtual ones: where the CPU says
    that there is no hypervisor, there is none.
    """
    if cpu.virtual is False:
        return None
    names = [name for name in (vendor, product) if name]
    known = next(
        (word for start, word in HYPERVISORS if any(name.startswith(start) for name in names)),
        None,
    )
    if cpu.virtual:
        return known or {"xen": "Xen"}.get(kind or "", vendor) or "unknown hypervisor"
    # Arm and POWER CPUs do not say; only names that no physical machine has count.
    return known if known in ("KVM (QEMU)", "KVM", "VMware", "Xen") else None


def sockets(raw: Raw, absent: str) -> tuple[Socket, ...]:
    """Sockets with their cores and threads, ordered by number."""
    found: dict[int, Socket] = {}
    for entry in items_of(raw):
        fields = FileAnswers(entry, absent)
        number = fields.number("socket")
        if number is None or number < 0 or number in found:
            continue
        cpus = members(fields.text("cpus", "threads"))
        siblings = members(fields.text("siblings", "cores"))
        cores = None
        if cpus and siblings and len(cpus) % len(siblings) == 0:
            cores = len(cpus) // len(siblings)
        elif cpus and siblings:
            fields.gap("cores", "not all cores have as many threads as the first")
        found[number] = Socket(
            socket=number, cores=cores, threads=len(cpus) if cpus else None, gaps=fields.gaps
        )
    return tuple(found[number] for number in sorted(found))


def nodes(raw: Raw, absent: str, *, coherent: bool) -> tuple[NumaNode, ...]:
    """NUMA nodes ordered by number; `coherent`: the CPUs share an address space with the GPUs."""
    found: list[NumaNode] = []
    places = _sockets_by_cpu(raw)
    for name, entry in part(raw, "numa").items():
        number = whole(name)
        if number is None or number < 0:
            continue
        fields = FileAnswers(entry, absent)
        found.append(_node(number, entry, fields, places, coherent=coherent))
    return tuple(sorted(found, key=lambda node: node.node))


def _node(
    number: int, entry: Raw, fields: FileAnswers, places: Mapping[int, int], *, coherent: bool
) -> NumaNode:
    cpus = under(entry, "cpulist")
    text = cpus if isinstance(cpus, str) else fields.text("cpulist", "cpus")
    inside = members(text)
    memory = _MEMORY.search(fields.text("meminfo", "memory_bytes") or "")
    size = int(memory.group(1)) * 1024 if memory else None
    gpu_memory = False if inside else True if inside is not None and size and coherent else None
    if gpu_memory is None:
        fields.gap("gpu_memory", "memory without CPUs may also be an expander's")
    return NumaNode(
        node=number,
        cpus=text,
        memory_bytes=size,
        distances=_distances(fields),
        socket=places.get(min(inside)) if inside else None,
        gpu_memory=gpu_memory,
        gaps=fields.gaps,
    )


def _distances(fields: FileAnswers) -> tuple[int, ...] | None:
    text = fields.text("distance", "distances")
    numbers = [whole(word) for word in text.split()] if text is not None else []
    known = tuple(number for number in numbers if number is not None)
    return known if known and len(known) == len(numbers) else None


def _sockets_by_cpu(raw: Raw) -> dict[int, int]:
    entries = under(raw, "sockets")
    places: dict[int, int] = {}
    for entry in items_of(entries):
        fields = FileAnswers(entry, "")
        number, cpus = fields.number("socket"), members(fields.text("cpus"))
        if number is not None and number >= 0 and cpus:
            places.update(dict.fromkeys(cpus, number))
    return places
