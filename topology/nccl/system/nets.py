"""Which NIC a GPU uses, and which GPU a NIC belongs to (graph/topo.cc:ncclTopoGetLocalNet)."""

import re

from ..nodes import GPU, NET, PathType, System, SystemKind, SystemNode, SystemPath
from ..settings import Settings
from ..versions import Version

MAX_CHANNELS = 64

DECIMAL = re.compile(r"[ \t\n\v\f\r]*\+?([0-9]{1,9})(?![0-9])")
"""A positive number as C's atoi reads it; longer ones are nonsense."""


def nearest(node: SystemNode, kind: SystemKind) -> tuple[list[int], PathType]:
    """Indices of the nodes of a kind with the highest bandwidth, then the nearest; their type."""
    found: list[int] = []
    best_gbs, best_type = 0.0, PathType.DIS
    for index, path in enumerate(node.paths.get(kind, ())):
        if path.bandwidth_gbs > best_gbs or (
            path.bandwidth_gbs == best_gbs and path.type < best_type
        ):
            best_gbs, best_type = path.bandwidth_gbs, path.type
            found = []
        if path.bandwidth_gbs == best_gbs and path.type is best_type:
            found.append(index)
    return found, best_type


def mirrored(value: int, power: int) -> int:
    """The bits of `value` below `power` (a power of two) in reverse order."""
    result = 0
    bit, mirror = 1, power >> 1
    while mirror:
        if value & bit:
            result |= mirror
        bit <<= 1
        mirror >>= 1
    return result


def netdevs_policy(settings: Settings) -> tuple[str, int]:
    """NCCL_NETDEVS_POLICY: ("AUTO" | "ALL" | "MAX", limit); unknown text is AUTO."""
    text = (settings.text("NCCL_NETDEVS_POLICY") or "").upper()
    if text == "ALL":
        return "ALL", 0
    if text.startswith("MAX:"):
        number = DECIMAL.match(text[4:])
        limit = int(number[1]) if number is not None else 0
        if limit > 0:
            return "MAX", limit
    return "AUTO", 0


class LocalNets:
    """The NICs of each GPU in a system whose paths are known; answers are kept."""

    def __init__(self, system: System, version: Version, settings: Settings) -> None:
        self._system, self._version, self._settings = system, version, settings
        self._start: dict[int, tuple[list[int], int, int]] = {}
        self._owners: dict[int, int] = {}
        self._near: dict[int, tuple[list[int], float, PathType]] = {}
        """By node: the nearest of the other kind, their bandwidth and their type."""

    def changed(self, node: SystemNode, path: SystemPath, index: int) -> None:
        """The way from a NIC to the GPU of that index, or from a GPU to a NIC, is another one."""
        known = self._near.get(id(node))
        if known is None:
            return
        indices, gbs, kind = known
        worse = path.bandwidth_gbs < gbs or (path.bandwidth_gbs == gbs and path.type > kind)
        if worse and index not in indices:
            return
        self._start.clear()
        self._owners.clear()
        del self._near[id(node)]

    def net(self, gpu: int, channel: int) -> int | None:
        """Index of the NIC that a GPU (by index) uses for a channel; None without any."""
        nets, start, width = self._of(gpu)
        if not nets:
            return None
        return nets[(start + channel % width) % len(nets)]

    def nets(self, gpu: int) -> tuple[int, ...]:
        """The NICs for channel 0, 1, ... until they repeat."""
        found: list[int] = []
        for channel in range(MAX_CHANNELS):
            net = self.net(gpu, channel)
            if net is None or (found and net == found[0]):
                break
            found.append(net)
        return tuple(found)

    def gpu(self, net: int) -> int:
        """Index of the GPU that a NIC (by index) belongs to, -1 when none uses it."""
        known = self._owners.get(net)
        if known is None:
            known = self._owners[net] = self._owner(net)
        return known

    def _owner(self, net: int) -> int:
        first, found = MAX_CHANNELS, -1
        if self._version.net_owners == "near":
            users = self._nearest(self._system.nodes[NET][net], GPU)
        else:
            users = list(range(len(self._system.nodes[GPU])))
        for gpu in users:
            nets, start, width = self._of(gpu)
            # The first channel for which `net` gives this NIC, if it ever does.
            channel = (nets.index(net) - start) % len(nets) if net in nets else width
            if channel < min(width, first):
                first, found = channel, gpu
        return found

    def _of(self, gpu: int) -> tuple[list[int], int, int]:
        known = self._start.get(gpu)
        if known is None:
            known = self._start[gpu] = self._work_out(gpu)
        return known

    def _work_out(self, gpu: int) -> tuple[list[int], int, int]:
        node = self._system.nodes[GPU][gpu]
        nets = self._nearest(node, NET)
        if not nets:
            return [], 0, 1
        sharing = self._nearest(self._system.nodes[NET][nets[0]], GPU)
        width = -(-len(nets) // max(1, len(sharing)))
        policy, limit = "AUTO", 0
        if self._version.netdevs_policy:
            policy, limit = netdevs_policy(self._settings)
        if policy == "ALL":
            width = len(nets)
        elif policy == "MAX":
            width = min(limit, len(nets))
        first = self._version.local_net_start
        if first == "position":
            start = sharing.index(gpu) if gpu in sharing else 0
        elif first == "dev-modulo":
            start = node.dev % max(1, len(sharing))
        else:
            start = node.dev
        if len(nets) & (len(nets) - 1) == 0:
            start = mirrored(start, len(nets))
        return nets, start, width

    def _nearest(self, node: SystemNode, kind: SystemKind) -> list[int]:
        known = self._near.get(id(node))
        if known is None:
            found, near = nearest(node, kind)
            gbs = node.paths[kind][found[0]].bandwidth_gbs if found else 0.0
            known = self._near[id(node)] = found, gbs, near
        return known[0]
