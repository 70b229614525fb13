"""Where RCCL trims its graph differently (its graph/paths.cc:ncclTopoTrimSystem)."""

from __future__ import annotations

from ..nodes import System, SystemNode
from ..settings import Settings
from ..versions import Version
from .gdr import check_gdr
from .nets import LocalNets

MOST_BETWEEN = 4
"""GPUs that xGMI traffic may be passed through (its include/graph.h:MAX_XGMI_INTER_GPUS)."""


def drop_slow_ports(system: System) -> bool:
    """Of several ports with one GUID only the fastest stay; says whether any was dropped."""
    nets = system.nodes["NET"]
    slow = [
        net
        for net in nets
        if any(other.asic == net.asic and other.speed_gbs > net.speed_gbs for other in nets)
    ]
    for net in slow:
        system.remove(net)
    return bool(slow)


def keeps_nets(system: System, version: Version, settings: Settings) -> bool:
    """NICs stay in a one-node graph when every GPU may use GDR and xGMI does not join them all."""
    if settings.integer("RCCL_ENABLE_INTRANET", -2) == 1:
        return True
    if all_linked(system):
        return False
    gpus = system.nodes["GPU"]
    local = LocalNets(system, version, settings)
    for gpu in gpus:
        index = local.net(gpu.index, 0)
        if index is None:
            return False
        net = system.nodes["NET"][index]
        if check_gdr(system, version, settings, gpu, net, send=True).mode == "Disabled":
            return False
    return True


def all_linked(system: System) -> bool:
    """Every GPU reaches every other by xGMI, over at most four GPUs in between."""
    gpus = system.nodes["GPU"]
    beside = [[other.index for other in gpus if _linked(one, other)] for one in gpus]
    for one in gpus:
        reached = {one.index}
        for _ in range(MOST_BETWEEN + 1):
            if len(reached) == len(gpus):
                break
            reached |= {far for near in reached for far in beside[near]}
        if len(reached) < len(gpus):
            return False
    return True


def _linked(one: SystemNode, other: SystemNode) -> bool:
    path = one.paths["GPU"][other.index]
    return path.hops == 1 and path.links[0].kind == "NVL"
