"""A tar (plain, gzip, bzip2 or xz) or a copied folder of a machine's /sys and /proc."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from ...model.format import Format, FormatError
from ...model.part import PartialNode
from ...model.source import SourceAbsent
from ...sources.files.archive import TarTree
from ...sources.files.tree import Tree
from ...sources.files.unpacking import BZIP2, XZ, ArchiveError, beginning
from ...sources.kfd import amdgpu_readings, kfd
from ...sources.linux import host, software
from ...sources.pci import network, pci, storage

_MEMBER = re.compile(
    rb"(?:[^\0]{0,80}/)?(?:sys/(?:bus|class|devices|kernel|module)|proc/(?:cpuinfo|driver|self|sys))\b"
)
_NAME = re.compile(r"\.(?:tar\.\w{2,4}|t[bx]z2?)\Z", re.IGNORECASE)
_MAGIC = b"ustar"
"""At byte 257 of each header, in every kind of tar since 1988."""
_UNPACKED_BYTES = 512 * 1024
_SIGNS = (
    "sys/bus/pci",
    "sys/class/kfd",
    "sys/class/net",
    "sys/devices/system",
    "bus/pci/devices",
)


def recognises(head: bytes, path: Path) -> bool:
    """Whether this is a tar with parts of /sys or /proc among its first members.

    bzip2 gives nothing before the end of its first block, which may be far: its name then decides.
    """
    unpacked = beginning(head, _UNPACKED_BYTES)
    if unpacked is None:
        return head.startswith((BZIP2, XZ)) and _NAME.search(path.name) is not None
    head = unpacked
    return any(
        head[start + 257 : start + 262] == _MAGIC
        and (
            _MEMBER.match(head, start, start + 100) or _MEMBER.match(head, start + 345, start + 500)
        )
        for start in range(0, len(head), 512)
    )


def parse(data: bytes, path: Path) -> PartialNode:
    """The whole tar to a part. Raises FormatError."""
    try:
        tree = TarTree(data)
    except ArchiveError as error:
        raise FormatError(str(error)) from error
    return part_from_tree(tree)


def part_from_tree(tree: Tree) -> PartialNode:
    """What PCI, KFD, host, network and driver versions of a copied tree say, as one part.

    Raises FormatError when it contains nothing of a machine.
    """
    try:
        devices = pci.SOURCE.parse(pci.read(tree))
    except SourceAbsent:
        devices = PartialNode()
    try:
        amd = kfd.SOURCE.parse(kfd.read(tree))
    except SourceAbsent:
        amd = PartialNode()
    moving = amdgpu_readings.SOURCE.parse(amdgpu_readings.read(tree))
    machine = host.SOURCE.parse(host.read(tree))
    links = network.SOURCE.parse(network.read(tree))
    disks = storage.SOURCE.parse(storage.read(tree))
    versions = software.SOURCE.parse(software.read(tree))
    known = machine.host is not None and (machine.host.numa or machine.host.memory_bytes)
    if not (devices.pci or links.interfaces or links.rdma or known or amd.gpus):
        raise FormatError("no PCI device, network interface, GPU, CPU or memory in it")
    return msgspec.structs.replace(
        devices,
        gpus=amd.gpus,
        pairs=amd.pairs,
        gpu_readings=moving.gpu_readings,
        problems=(*devices.problems, *amd.problems, *links.problems, *disks.problems),
        assumptions=links.assumptions,
        origin=amd.origin,
        host=machine.host,
        host_reading=machine.host_reading,
        interfaces=links.interfaces,
        rdma=links.rdma,
        drives=disks.drives,
        direct_storage=disks.direct_storage,
        software=versions.software,
    )


def looks_like_sysfs(path: Path) -> bool:
    """Whether a folder is a copy of /sys, or of a root with sys in it; never raises."""
    try:
        return path.is_dir() and any((path / sign).is_dir() for sign in _SIGNS)
    except (OSError, ValueError):
        return False


FORMAT = Format(id="sysfs tar", recognises=recognises, parse=parse)
