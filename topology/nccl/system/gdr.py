"""GPUDirect RDMA between a GPU and a NIC (graph/paths.cc:ncclTopoCheckGdr)."""

from functools import cached_property
from typing import NamedTuple

from ...model.severity import Word
from ..nodes import CPU, GPU, NET, NVS, CpuVendor, PathType, System, SystemNode
from ..settings import Settings
from ..versions import C2cGdr, Version
from .constants import bus_number
from .levels import PathLevel, level

LEVEL = "NCCL_NET_GDR_LEVEL"


class GdrReason(Word):
    """Reasons for and against GPUDirect RDMA, in the order in which NCCL asks."""

    NIC = "nic"
    GPU = "gpu"
    READ_FLAG = "read flag"
    NO_NVLINK = "read without NVLink"
    DISTANCE = "distance"
    NEAR_ENOUGH = "near enough"


class GdrMode(Word):
    """NCCL's word for GPUDirect RDMA; PCI: over PCIe on a C2C system."""

    DEFAULT = "Default"
    PCI = "PCI"
    DISABLED = "Disabled"


NO_GDR = GdrMode.DISABLED


class GdrCheck(NamedTuple):
    """The answer, and what decided it."""

    mode: GdrMode
    decided: GdrReason
    distance: PathType = PathType.DIS
    """That of the relay GPU when the path goes through one."""
    allowed: PathType = PathType.PXB
    level: PathLevel = PathLevel(None, "", "", "")


NO_GDR_NIC = GdrCheck(NO_GDR, GdrReason.NIC)
NO_GDR_GPU = GdrCheck(NO_GDR, GdrReason.GPU)
READ_FLAG = GdrCheck(NO_GDR, GdrReason.READ_FLAG)
READ_WITHOUT_NVLINK = GdrCheck(NO_GDR, GdrReason.NO_NVLINK)


def relay_of(gpu: SystemNode, net: SystemNode) -> SystemNode:
    """The GPU that talks to the NIC: the relay of a PXN path, else the GPU itself."""
    path = gpu.paths[NET][net.index]
    if path.type is not PathType.PXN:
        return gpu
    for link in path.links:
        if link.to.kind is not NVS:
            return link.to if link.to.kind is GPU else gpu
    return gpu


class GdrDistance:
    """The answers that the distance decides, under one version and its settings."""

    def __init__(self, version: Version, settings: Settings) -> None:
        self.version, self._settings = version, settings
        self.answers: dict[tuple[PathType, PathType, bool], GdrCheck] = {}
        """Those given so far, by what they depend on."""
        self._coherent = version.gdr_c2c_paths

    @cached_property
    def level(self) -> PathLevel:
        """The level that the environment sets."""
        return level(self._settings, self.version, LEVEL)

    @cached_property
    def _through_cpu(self) -> int:
        return self._settings.integer("NCCL_NET_GDR_C2C", self.version.gdr_c2c)

    @cached_property
    def default(self) -> PathType:
        """The farthest path where nothing else is said."""
        wide = self._coherent is C2cGdr.LEVEL and self._through_cpu
        return PathType.P2C if wide else PathType[self.version.gdr_level]

    def check(self, distance: PathType, allowed: PathType, c2c: bool) -> GdrCheck:
        """The answer for a distance; `c2c`: the GPU reaches its CPU by C2C."""
        key = distance, allowed, c2c
        found = self.answers.get(key)
        if found is None:
            found = self.answers[key] = self._check(*key)
        return found

    def _check(self, distance: PathType, allowed: PathType, c2c: bool) -> GdrCheck:
        coherent = distance is PathType.P2C
        if self._through_cpu and (
            (self._coherent is C2cGdr.P2C and coherent)
            or (self._coherent is C2cGdr.PHB and distance is PathType.PHB and c2c)
        ):
            coherent = True
            distance = PathType.C2C
        if distance > allowed:
            return GdrCheck(NO_GDR, GdrReason.DISTANCE, distance, allowed, self.level)
        near = distance is PathType.C2C or (self._coherent is C2cGdr.LEVEL and coherent)
        forced = c2c and not near
        mode = GdrMode.PCI if forced else GdrMode.DEFAULT
        return GdrCheck(mode, GdrReason.NEAR_ENOUGH, distance, allowed, self.level)

    def equal_checks(self, settings: Settings) -> dict[GdrCheck, GdrCheck] | None:
        """The answers under settings with another level, by those of here; None where one differs.

        Of the settings nothing but the level may be another.
        """
        other = GdrDistance(self.version, settings)
        limit = other.level.path
        if limit is None:
            return None
        found: dict[GdrCheck, GdrCheck] = {}
        for (distance, _, c2c), was in self.answers.items():
            now = found[was] = other.check(distance, limit, c2c)
            if (now.mode, now.distance) != (was.mode, was.distance):
                return None
        return found


class GdrRules:
    """GPUDirect RDMA in one system, whose paths between GPUs and to CPUs stay as they are."""

    def __init__(self, system: System, version: Version, settings: Settings) -> None:
        self._system, self._version, self._settings = system, version, settings
        self._linked: dict[int, bool] = {}
        self._near_cpus: dict[int, int] = {}
        """By node: the CPU that it is one switch below, -1 where there is none."""
        self.by_distance = GdrDistance(version, settings)

    @cached_property
    def _read(self) -> int:
        return self._settings.integer("NCCL_NET_GDR_READ", -2)

    def check(self, gpu: SystemNode, net: SystemNode, *, send: bool) -> GdrCheck:
        """Whether a GPU's memory is given to the NIC, for sends (NIC reads) or for receives."""
        return self.both(gpu, net)[0] if send else self._receive(gpu, net)

    def both(self, gpu: SystemNode, net: SystemNode) -> tuple[GdrCheck, GdrCheck]:
        """The answers for sends and for receives."""
        receive = self._receive(gpu, net)
        if net.gdr and gpu.gdr:
            if self._read == 0:
                return READ_FLAG, receive
            # Old GPUs share PCIe with other flows; NVLink peers are the sign that they do not.
            old = gpu.sm < self._version.gdr_read_below_sm
            if old and self._read < 0 and self._version.nvml_check and self._alone(gpu):
                return READ_WITHOUT_NVLINK, receive
        return receive, receive

    def _receive(self, gpu: SystemNode, net: SystemNode) -> GdrCheck:
        if not net.gdr:
            return NO_GDR_NIC
        if not gpu.gdr:
            return NO_GDR_GPU
        worker = relay_of(gpu, net)
        c2c = worker.cpu is not None and worker.paths[CPU][worker.cpu].type is PathType.C2C
        distance = worker.paths[NET][net.index].type
        return self.by_distance.check(distance, self._farthest(gpu, net), c2c)

    def _farthest(self, gpu: SystemNode, net: SystemNode) -> PathType:
        set_to = self.by_distance.level.path
        if set_to is not None:
            return set_to
        if self._version.is_rccl and self._side_by_side(gpu, net):
            return PathType.PHB
        return self.by_distance.default

    def _side_by_side(self, gpu: SystemNode, net: SystemNode) -> bool:
        """RCCL on AMD Rome: both one switch below the same CPU, in the same PCI domain group."""
        cpus = self._system.nodes[CPU]
        if not cpus or cpus[0].vendor != CpuVendor.AMD or not cpus[0].model:
            return False
        if gpu.ident & 0xF0000 != bus_number(net.bus_id) & 0xF0000:
            return False
        return self._near_cpu(gpu) == self._near_cpu(net) != -1

    def _near_cpu(self, node: SystemNode) -> int:
        known = self._near_cpus.get(id(node))
        if known is None:
            ways = enumerate(node.paths[CPU])
            known = next((cpu for cpu, path in ways if len(path.links) == 2), -1)
            self._near_cpus[id(node)] = known
        return known

    def _alone(self, gpu: SystemNode) -> bool:
        """Whether a GPU has no NVLink neighbour among others."""
        known = self._linked.get(gpu.index)
        if known is None:
            known = self._linked[gpu.index] = _linked_or_alone(self._system, gpu)
        return not known


def _linked_or_alone(system: System, gpu: SystemNode) -> bool:
    gpus = system.nodes[GPU]
    return len(gpus) == 1 or any(
        path.type is PathType.NVL for index, path in enumerate(gpu.paths[GPU]) if index != gpu.index
    )
