"""Which NICs to try, in order (search.cc:ncclTopoSelectNets)."""

from ..nodes import GPU, NET, PathType, System
from ..settings import Settings
from ..system.nets import LocalNets, nearest, netdevs_policy
from ..versions import Version

EVERY = -1
"""In place of a GPU's index: NICs for any of them."""
MOST_LISTED = 64
"""The search looks at no more NICs than this beyond the preferred ones."""
MOST_NODES = 576


class Nics:
    """The NICs of a system as the search tries them, by index."""

    def __init__(self, system: System, version: Version, settings: Settings) -> None:
        self._gpus, self._nets = system.nodes[GPU], system.nodes[NET]
        self._local = LocalNets(system, version, settings)
        self._scatter = system.hosts > 1 and settings.integer("NCCL_MNNVL_SCATTER_NETS_ENABLE", 1)
        self._rail_per_host = settings.integer("NCCL_MNNVL_RAIL_PER_HOST", 0) != 0
        policy, limit = netdevs_policy(settings) if version.netdevs_policy else ("AUTO", 0)
        self._limit = limit if policy == "MAX" else None
        self._lists: dict[tuple[int, int], tuple[int, ...]] = {}
        self._rails: dict[int, tuple[int, ...]] = {}
        self._near = [nearest(net, GPU) for net in self._nets]
        self.speeds_gbs = [net.speed_gbs for net in self._nets]
        """What channels leave of each NIC, in whole GB/s."""
        self.sharing = [
            [i for i, one in enumerate(self._nets) if (one.asic, one.port) == (net.asic, net.port)]
            for net in self._nets
        ]
        """The NICs that are the same port of the same device, itself included."""

    def to_try(self, farthest: int, gpu: int) -> tuple[int, ...]:
        """NICs within a path type of one GPU, or of EVERY GPU; preferred ones first."""
        known = self._lists.get((farthest, gpu))
        if known is None:
            known = self._lists[farthest, gpu] = tuple(self._select(farthest, gpu))
        return known

    def serve(self, gpu: int) -> bool:
        """Whether a GPU reaches any NIC."""
        return self._local.net(gpu, 0) is not None

    def owner(self, net: int) -> int:
        """The GPU that a NIC belongs to; -1 when no GPU uses it."""
        return self._nets[net].local_gpu

    def nearest_gpus(self, net: int) -> list[int]:
        """The GPUs with the best path from a NIC; none when nothing is reachable."""
        gpus, kind = self._near[net]
        return [] if kind is PathType.DIS else gpus

    def fewest_hops_gpus(self, net: int, first: int, least_gbs: int) -> list[int]:
        """Up to 2.26: highest bandwidth, then fewest hops, starting from one GPU."""
        paths = self._nets[net].paths[GPU]
        widest = max(path.bandwidth_gbs for path in paths)
        if widest < least_gbs:
            return []
        hops = min(path.hops for path in paths if path.bandwidth_gbs == widest)
        count = len(paths)
        turned = [(first + step) % count for step in range(count)]
        return [g for g in turned if (paths[g].bandwidth_gbs, paths[g].hops) == (widest, hops)]

    def rail(self, start: int) -> tuple[int, ...]:
        """The NICs that a channel may use with this one without crossing from one to another."""
        known = self._rails.get(start)
        if known is None:
            every = range(len(self._nets))
            known = tuple(net for net in every if self._same_rail(net, start))
            self._rails[start] = known
        return known

    def _same_rail(self, net: int, start: int) -> bool:
        one, other = self._nets[net], self._nets[start]
        if self._rail_per_host and one.host != other.host:
            return (one.pci_ident, one.port) == (other.pci_ident, other.port)
        return (one.asic, one.port) == (other.asic, other.port)

    def _select(self, farthest: int, gpu: int) -> list[int]:
        gpus = range(len(self._gpus)) if gpu == EVERY else (gpu,)
        preferred = [self._local.nets(index) for index in gpus]
        if not all(preferred):
            return []  # the library gives up on NICs when one GPU reaches none
        found: dict[int, None] = {}
        if self._scatter:
            for channel in range(max(len(nets) for nets in preferred)):
                found.update((nets[channel], None) for nets in preferred if channel < len(nets))
        else:
            found.update((net, None) for nets in preferred for net in nets)
        limit = MOST_NODES if self._limit is None else self._limit * len(gpus)
        if len(found) >= limit:
            return list(found)
        for kind in range(farthest + 1):
            for index in gpus:
                for net, path in enumerate(self._gpus[index].paths[NET][:MOST_LISTED]):
                    if path.type == kind:
                        found[net] = None
                        if len(found) >= limit:
                            return list(found)
        return list(found)
