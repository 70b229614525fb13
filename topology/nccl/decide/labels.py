"""The words that the log prints after `via` (transport/p2p.cc, shm.cc, net.cc)."""

from typing import NamedTuple

from ..nodes import GPU, NET, PathType, SystemNode
from ..prediction import SearchGraph
from ..settings import Settings
from ..system.compute import Computed
from ..system.gdr import NO_GDR, GdrMode, relay_of
from ..system.nets import MAX_CHANNELS, LocalNets
from ..versions import Version


def uses_cumem(version: Version, settings: Settings) -> bool:
    """Whether GPU memory is shared as cuMem handles; a driver since 12.0 is taken for granted."""
    if not version.cumem:
        return False
    setting = settings.integer("NCCL_CUMEM_ENABLE", -2 if version.cumem_auto else 0)
    return version.cumem_auto if setting == -2 else setting != 0


def reads(version: Version, settings: Settings, automatic: bool) -> bool:
    """Whether the receiver reads (`/read`) instead of the sender writing."""
    if settings.integer("NCCL_P2P_USE_CUDA_MEMCPY", 0):
        return False
    setting = settings.integer("NCCL_P2P_READ_ENABLE", -2)
    return automatic if setting == -2 else setting != 0


def p2p_label(version: Version, settings: Settings, relay: SystemNode | None, read: bool) -> str:
    """`P2P/CUMEM`, `P2P/IPC`, `P2P/indirect/R[D]`, with `/read` and `/CE` where they apply."""
    suffix = "/read" if read else ""
    if relay is not None:
        return f"P2P/indirect/{relay.rank}[{relay.dev}]{suffix}"
    if settings.integer("NCCL_P2P_USE_CUDA_MEMCPY", 0):
        suffix += "/CE"
    return f"P2P/{'CUMEM' if uses_cumem(version, settings) else 'IPC'}{suffix}"


def shm_label(version: Version, settings: Settings) -> str:
    """`SHM/direct/direct`; the side that uses a copy engine prints CE."""
    if version.shm_label.count("/") < 2 or not settings.integer("NCCL_SHM_USE_CUDA_MEMCPY", 0):
        return version.shm_label
    mode = settings.integer("NCCL_SHM_MEMCPY_MODE", 1)
    sides = ["CE" if mode & bit else "direct" for bit in (1, 2)]
    return "SHM/" + "/".join(sides)


class NetUse(NamedTuple):
    """The NIC a send goes through, and the rank whose GPU hands it over."""

    net: SystemNode
    proxy: SystemNode


class SendUse(NamedTuple):
    """How a send to a GPU of another host leaves this one, on channel 0."""

    src: int
    dst: int
    """The rank on this host that the other one has on its own."""
    net: int
    """Number of the NIC."""
    relay: int
    """Rank of the GPU that hands the bytes over, -1 when the sender does it itself."""


def net_label(computed: Computed, name: str, src: SystemNode, use: NetUse, *, shared: bool) -> str:
    """`NET/IB/0(3)/GDRDMA/Shared` for a send."""
    gdr = computed.gdr.check(src, use.net, send=True).mode
    proxy = f"({use.proxy.rank})" if use.proxy is not src else ""
    direct = {NO_GDR: "", GdrMode.DEFAULT: "/GDRDMA", GdrMode.PCI: "/GDRDMA(PCI)"}[gdr]
    return f"NET/{name}/{use.net.dev}{proxy}{direct}{'/Shared' if shared else ''}"


def ring_uses(computed: Computed, ring: SearchGraph | None, src: SystemNode) -> list[NetUse]:
    """The NICs by which a rank at the end of the ring sends, one entry for each in use."""
    found: list[NetUse] = []
    if ring is None:
        return found
    nets = {net.dev: net for net in computed.system.nodes[NET]}
    for order, (first, last) in zip(ring.orders, ring.nets, strict=False):
        net = nets.get(first if order and order[0] == src.rank else last)
        if net is not None:
            use = NetUse(net, relay_of(src, net))
            if use not in found:
                found.append(use)
    return found


def send_uses(computed: Computed, local: LocalNets, src: SystemNode, peer_dev: int) -> list[NetUse]:
    """The NICs that send/receive towards a rank elsewhere uses (ncclTopoGetNetDev)."""
    found: list[NetUse] = []
    for channel in range(MAX_CHANNELS):
        use = _send_use(computed, local, src, peer_dev, channel)
        if use is None or (found and use == found[0]):
            break
        if use not in found:
            found.append(use)
    return found


def sends(computed: Computed, local: LocalNets) -> list[SendUse]:
    """Every GPU of a view towards every GPU of such a view on another host, by rank."""
    gpus = sorted(computed.system.nodes[GPU], key=lambda gpu: gpu.rank)
    found = []
    for src in gpus:
        for dst in gpus:
            use = _send_use(computed, local, src, dst.dev, 0)
            if use is not None:
                relay = -1 if use.proxy is src else use.proxy.rank
                found.append(SendUse(src.rank, dst.rank, use.net.dev, relay))
    return found


def _send_use(
    computed: Computed, local: LocalNets, src: SystemNode, peer_dev: int, channel: int
) -> NetUse | None:
    system, settings, version = computed.system, computed.settings, computed.version
    nets, gpus = system.nodes[NET], system.nodes[GPU]
    own = local.net(src.index, channel)
    if own is None:
        return None
    use = NetUse(nets[own], src)
    level = 0
    if settings.integer("NCCL_PXN_DISABLE", version.pxn_disable) != 1:
        level = settings.integer("NCCL_P2P_PXN_LEVEL", 2)
    cross = settings.integer("NCCL_CROSS_NIC", 2)
    twin = next((gpu for gpu in gpus if gpu.dev == peer_dev), None)
    if (cross != 0 and level == 0) or twin is None:
        return use
    theirs = local.net(twin.index, channel)
    if theirs is None:
        return use
    net = nets[theirs]
    if cross == 0:
        use = NetUse(net, src)
    if level == 1 and src.paths[NET][theirs].type <= PathType.PXN:
        return NetUse(net, relay_of(src, net))
    if level == 2 and net.local_gpu >= 0:
        near = gpus[net.local_gpu]
        linked = near.paths[GPU][src.index].type <= PathType.NVL
        beside = linked and near.paths[NET][theirs].type <= computed.farthest_relay
        if beside and computed.may_relay(near, net, send=False):
            return NetUse(net, near)
    return use
