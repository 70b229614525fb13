"""GPUDirect RDMA between a GPU and a NIC (graph/paths.cc:ncclTopoCheckGdr)."""

from __future__ import annotations

from typing import NamedTuple

from ..nodes import PathType, System, SystemNode
from ..settings import Settings
from ..versions import Version
from .constants import bus_number
from .levels import PathLevel, level


class GdrCheck(NamedTuple):
    """The answer, and what decided it."""

    mode: str
    """"Default", "PCI" (over PCIe on a C2C system) or "Disabled"."""
    decided: str
    """"nic", "gpu", "read flag", "read before sm80", "distance" or "near enough"."""
    distance: PathType = PathType.DIS
    """That of the relay GPU when the path goes through one."""
    allowed: PathType = PathType.PXB
    level: PathLevel = PathLevel(None, "", "", "")


def relay_of(gpu: SystemNode, net: SystemNode) -> SystemNode:
    """The GPU that talks to the NIC: the relay of a PXN path, else the GPU itself."""
    path = gpu.paths["NET"][net.index]
    if path.type is not PathType.PXN:
        return gpu
    for link in path.links:
        if link.to.kind != "NVS":
            return link.to if link.to.kind == "GPU" else gpu
    return gpu


def check_gdr(
    system: System,
    version: Version,
    settings: Settings,
    gpu: SystemNode,
    net: SystemNode,
    *,
    send: bool,
) -> GdrCheck:
    """Whether a GPU's memory is given to the NIC, for sends (NIC reads) or for receives."""
    if not net.gdr:
        return GdrCheck("Disabled", "nic")
    if not gpu.gdr:
        return GdrCheck("Disabled", "gpu")
    if send:
        setting = settings.integer("NCCL_NET_GDR_READ", -2)
        if setting == 0:
            return GdrCheck("Disabled", "read flag")
        # Old GPUs share PCIe with other flows; NVLink peers are the sign that they do not.
        if setting < 0 and gpu.sm < 80 and version.nvml_check and not _linked_or_alone(system, gpu):
            return GdrCheck("Disabled", "read before sm80")
    set_level = level(settings, version, "NCCL_NET_GDR_LEVEL")
    through_cpu = settings.integer("NCCL_NET_GDR_C2C", version.gdr_c2c)
    allowed = PathType[version.gdr_level]
    if version.gdr_c2c_paths == "level" and through_cpu:
        allowed = PathType.P2C
    if set_level.path is not None:
        allowed = set_level.path
    elif version.library == "rccl" and _side_by_side(system, gpu, net):
        allowed = PathType.PHB
    worker = relay_of(gpu, net)
    distance = worker.paths["NET"][net.index].type
    c2c = worker.cpu is not None and worker.paths["CPU"][worker.cpu].type is PathType.C2C
    coherent = distance is PathType.P2C
    if through_cpu and (
        (version.gdr_c2c_paths == "p2c" and coherent)
        or (version.gdr_c2c_paths == "phb" and distance is PathType.PHB and c2c)
    ):
        coherent = True
        distance = PathType.C2C
    if distance > allowed:
        return GdrCheck("Disabled", "distance", distance, allowed, set_level)
    forced = c2c and not (
        distance is PathType.C2C or (version.gdr_c2c_paths == "level" and coherent)
    )
    mode = "PCI" if forced else "Default"
    return GdrCheck(mode, "near enough", distance, allowed, set_level)


def _linked_or_alone(system: System, gpu: SystemNode) -> bool:
    gpus = system.nodes["GPU"]
    return len(gpus) == 1 or any(
        path.type is PathType.NVL
        for index, path in enumerate(gpu.paths["GPU"])
        if index != gpu.index
    )


def _side_by_side(system: System, gpu: SystemNode, net: SystemNode) -> bool:
    """RCCL on AMD Rome: GPU and NIC one switch below the same CPU, in the same PCI domain group."""
    cpus = system.nodes["CPU"]
    if not cpus or cpus[0].vendor != "amd" or not cpus[0].model:
        return False
    near = [
        next((i for i, path in enumerate(node.paths["CPU"]) if path.hops == 2), -1)
        for node in (gpu, net)
    ]
    same_group = gpu.ident & 0xF0000 == bus_number(net.bus_id) & 0xF0000
    return near[0] == near[1] != -1 and same_group
