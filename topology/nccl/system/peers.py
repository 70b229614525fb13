"""Checks between two GPUs: P2P, and whether a NIC is faster (graph/paths.cc)."""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from ..nodes import CPU, GPU, NET, PathType, System, SystemNode, SystemPath
from ..prediction import DecisionStep
from ..settings import Settings
from ..versions import P2pDefault, Version
from .levels import PathLevel, level


class Grant(NamedTuple):
    """The driver's word about one ordered pair, as far as it is known."""

    nvml: str | None = None
    """NVML's P2P status of read and write: "ok", another word, or None when not asked."""
    cuda: bool | None = None
    """cudaDeviceCanAccessPeer; None when not asked."""
    because: str = ""
    """Where `cuda` comes from, when it was not measured."""
    conditions: tuple[DecisionStep, ...] = ()
    """What RCCL needs besides for P2P, as questions with their answers."""


Grants = Callable[[str, str], Grant]
"""Bus ids of two GPUs -> what the driver says."""


def not_asked(_src: str, _dst: str) -> Grant:
    """The grant of a pair when no driver was asked."""
    return Grant()


CPU_DECIDES = "this version sets the limit of Intel, Zhaoxin and ARM CPUs afterwards"


class P2pCheck(NamedTuple):
    """Outcome of the P2P check for an ordered pair, with what it rests on."""

    allowed: bool
    path: PathType
    limit: PathType
    level: PathLevel
    within: bool
    """The path is no farther than the limit."""
    relay: int = -1
    """Rank of the GPU in between, -1 when none."""
    grant: Grant = Grant()
    """The worst grant along the way, when NVML was asked."""
    refused: bool = False
    """NVML says that P2P is not OK."""
    fatal: bool = False
    """The library gives up: NVML refuses P2P over NVLink."""
    read: bool = False
    """The receiver reads (NVLink between two sm80 GPUs) instead of the sender writing."""


class NetCheck(NamedTuple):
    """Whether both GPUs reach a NIC faster than each other."""

    faster: bool
    path_gbs: float = 0.0
    src_gbs: float = 0.0
    dst_gbs: float = 0.0
    switched_off: bool = False


SWITCHED_OFF = NetCheck(False, switched_off=True)


def default_limit(system: System, version: Version) -> PathType:
    """The farthest path for P2P when no variable says otherwise."""
    cpus = system.nodes[CPU]
    arch, vendor = (cpus[0].arch, cpus[0].vendor) if cpus else ("", "")
    if version.p2p_default is not P2pDefault.PXB:
        near = arch == "arm" or (arch == "x86" and vendor in ("intel", "zhaoxin"))
        return PathType.PXB if near else PathType.SYS
    pair_on_amd = arch == "x86" and vendor == "amd" and len(system.devices) <= 2
    return PathType.SYS if pair_on_amd else PathType.PXB


def limit_of(settings: Settings, version: Version, default: PathType) -> tuple[PathType, PathLevel]:
    """The farthest path for P2P, and what the environment says of it."""
    found = level(settings, version, "NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE")
    if found.path is None:
        return default, found
    if version.p2p_default is P2pDefault.BY_CPU_LAST and default is PathType.PXB:
        return default, found._replace(path=None, ignored=CPU_DECIDES)
    return found.path, found


def relay_between(path: SystemPath) -> SystemNode | None:
    """The GPU that a path of two hops goes through; None when it goes through none."""
    middle = path.links[0].to if len(path.links) == 2 else None
    return middle if middle is not None and middle.kind is GPU else None


class Peers:
    """The checks of one system under one environment."""

    def __init__(
        self, system: System, version: Version, settings: Settings, grants: Grants = not_asked
    ) -> None:
        self._system, self._version, self._grants = system, version, grants
        self._nccl, self._nvml_check = not version.is_rccl, version.nvml_check
        self.default = default_limit(system, version)
        self.limit, self._level = limit_of(settings, version, self.default)
        """The farthest path that P2P may take, and the variable that says so."""
        self.asked: set[PathType] = set()
        """The paths that were compared with the limit."""
        self._ignore = settings.integer("NCCL_IGNORE_DISABLED_P2P", 0)
        self._joined = version.mnnvl and settings.integer("NCCL_MNNVL_ENABLE", 2) != 0
        self._known: dict[tuple[bool, PathType, int, bool, Grant | None], P2pCheck] = {}
        """Checks by what they depend on; of many pairs most are alike."""
        self._nets: dict[tuple[float, float, float], NetCheck] = {}
        self._near_gbs: dict[int, float] = {}
        """By index of a GPU: the highest bandwidth to a NIC at PXB or nearer."""
        self._no_net = settings.integer("NCCL_NET_DISABLE_INTRA", version.net_disable_intra) == 1

    def p2p(self, src: SystemNode, dst: SystemNode) -> P2pCheck:
        """graph/paths.cc:ncclTopoCheckP2p for GPUs of this system, over their present path."""
        path = src.paths[GPU][dst.index]
        kind = path.type
        middle = None
        # AMD's GPUs pass on what is not for them: RCCL lets none copy it (graph/paths.cc).
        if len(path.links) == 2 and self._nccl:
            middle = relay_between(path)
            if middle is not None and middle in self._system.withdrawn:
                self._system.refuse(
                    f"NVLink from rank {src.rank} to rank {dst.rank} leads through a GPU of "
                    "another domain of the host"
                )
        here = src.host == dst.host
        within = kind <= self.limit and (here or self._joined)
        read = kind is PathType.NVL and src.sm == dst.sm == 80
        grant = None
        if within and here and self._nvml_check and src is not dst:
            if middle is None:
                grant = self._grants(src.bus_id, dst.bus_id)
            else:
                grant = self._worst_grant(src, middle, dst)
        key = (within, kind, middle.rank if middle is not None else -1, read, grant)
        check = self._known.get(key)
        if check is None:
            check = self._known[key] = self._check(*key)
        return check

    def _check(
        self, within: bool, path: PathType, relay: int, read: bool, grant: Grant | None
    ) -> P2pCheck:
        self.asked.add(path)
        check = P2pCheck(within, path, self.limit, self._level, within, relay, read=read)
        if grant is None:
            return check
        if self._ignore == 2 or grant.nvml in (None, "ok"):
            return check._replace(grant=grant)
        fatal = not self._ignore and path <= PathType.NVB
        return check._replace(allowed=False, grant=grant, refused=True, fatal=fatal)

    def _worst_grant(self, *way: SystemNode) -> Grant:
        grants = [self._grants(one.bus_id, other.bus_id) for one, other in pairwise(way)]
        bad = next((grant for grant in grants if grant.nvml not in (None, "ok")), None)
        return bad or grants[0]

    def net(self, src: SystemNode, dst: SystemNode) -> NetCheck:
        """graph/paths.cc:ncclTopoCheckNet for GPUs of this system."""
        if self._no_net:
            return SWITCHED_OFF
        between = src.paths[GPU][dst.index].bandwidth_gbs
        one, other = self._near_gbs.get(src.index), self._near_gbs.get(dst.index)
        if one is None or other is None:
            one, other = self._fastest_near(src), self._fastest_near(dst)
        figures = between, one, other
        check = self._nets.get(figures)
        if check is None:
            check = NetCheck(one > between and other > between, between, one, other)
            self._nets[figures] = check
        return check

    def forget_nics(self) -> None:
        """Paths to NICs have changed since `net` was asked."""
        self._near_gbs.clear()

    def _fastest_near(self, gpu: SystemNode) -> float:
        if gpu.index not in self._near_gbs:
            ways = (path for path in gpu.paths[NET] if path.type <= PathType.PXB)
            self._near_gbs[gpu.index] = max((path.bandwidth_gbs for path in ways), default=0.0)
        return self._near_gbs[gpu.index]
