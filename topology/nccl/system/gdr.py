"""GPUDirect RDMA between a GPU and a NIC (graph/paths.cc:ncclTopoCheckGdr)."""

from __future__ import annotations

from functools import cached_property
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


NO_GDR_NIC = GdrCheck("Disabled", "nic")
NO_GDR_GPU = GdrCheck("Disabled", "gpu")
READ_FLAG = GdrCheck("Disabled", "read flag")
READ_BEFORE_SM80 = GdrCheck("Disabled", "read before sm80")


def relay_of(gpu: SystemNode, net: SystemNode) -> SystemNode:
    """The GPU that talks to the NIC: the relay of a PXN path, else the GPU itself."""
    path = gpu.paths["NET"][net.index]
    if path.type is not PathType.PXN:
        return gpu
    for link in path.links:
        if link.to.kind != "NVS":
            return link.to if link.to.kind == "GPU" else gpu
    return gpu


class GdrRules:
    """GPUDirect RDMA in one system, whose paths between GPUs and to CPUs stay as they are."""

    def __init__(self, system: System, version: Version, settings: Settings) -> None:
        self._system, self._version, self._settings = system, version, settings
        self._linked: dict[int, bool] = {}
        self._answers: dict[tuple[PathType, PathType, bool], GdrCheck] = {}
        """Those that the distance decides, by what they depend on."""
        self._allowed = PathType[version.gdr_level]
        self._coherent = version.gdr_c2c_paths

    @cached_property
    def _read(self) -> int:
        return self._settings.integer("NCCL_NET_GDR_READ", -2)

    @cached_property
    def _level(self) -> PathLevel:
        return level(self._settings, self._version, "NCCL_NET_GDR_LEVEL")

    @cached_property
    def _through_cpu(self) -> int:
        return self._settings.integer("NCCL_NET_GDR_C2C", self._version.gdr_c2c)

    def check(self, gpu: SystemNode, net: SystemNode, *, send: bool) -> GdrCheck:
        """Whether a GPU's memory is given to the NIC, for sends (NIC reads) or for receives."""
        if not net.gdr:
            return NO_GDR_NIC
        if not gpu.gdr:
            return NO_GDR_GPU
        if send:
            if self._read == 0:
                return READ_FLAG
            # Old GPUs share PCIe with other flows; NVLink peers are the sign that they do not.
            if self._read < 0 and gpu.sm < 80 and self._version.nvml_check and self._alone(gpu):
                return READ_BEFORE_SM80
        worker = relay_of(gpu, net)
        c2c = worker.cpu is not None and worker.paths["CPU"][worker.cpu].type is PathType.C2C
        key = worker.paths["NET"][net.index].type, self._farthest(gpu, net), c2c
        found = self._answers.get(key)
        if found is None:
            found = self._answers[key] = self._by_distance(*key)
        return found

    def _farthest(self, gpu: SystemNode, net: SystemNode) -> PathType:
        if self._level.path is not None:
            return self._level.path
        if self._version.library == "rccl" and _side_by_side(self._system, gpu, net):
            return PathType.PHB
        return PathType.P2C if self._coherent == "level" and self._through_cpu else self._allowed

    def _by_distance(self, distance: PathType, allowed: PathType, c2c: bool) -> GdrCheck:
        coherent = distance is PathType.P2C
        if self._through_cpu and (
            (self._coherent == "p2c" and coherent)
            or (self._coherent == "phb" and distance is PathType.PHB and c2c)
        ):
            coherent = True
            distance = PathType.C2C
        if distance > allowed:
            return GdrCheck("Disabled", "distance", distance, allowed, self._level)
        forced = c2c and not (distance is PathType.C2C or (self._coherent == "level" and coherent))
        mode = "PCI" if forced else "Default"
        return GdrCheck(mode, "near enough", distance, allowed, self._level)

    def _alone(self, gpu: SystemNode) -> bool:
        """Whether a GPU has no NVLink neighbour among others."""
        known = self._linked.get(gpu.index)
        if known is None:
            known = self._linked[gpu.index] = _linked_or_alone(self._system, gpu)
        return not known


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
