"""Which GPUs see each other at all; each group is a view of its own (ncclTopoTrimSystem).

RCCL trims its graph in its own way (its graph/paths.cc).
"""

from dataclasses import replace

from ...model.element import Element
from ..nodes import CPU, GPU, NET, NVLINK, NVS, CpuArch, PathType, System, SystemNode, paths_to
from ..settings import Settings
from ..versions import Version
from .build import build_system
from .compute import Computed
from .gdr import NO_GDR, GdrRules
from .nets import LocalNets
from .paths import set_all_paths
from .peers import Grants, not_asked
from .prepared import PreparedSystem
from .ranks import Place

MOST_BETWEEN = 4
"""GPUs that xGMI traffic may be passed through (its include/graph.h:MAX_XGMI_INTER_GPUS)."""


def domains(system: System) -> list[list[int]]:
    """Ranks by domain, from the paths of GPUs in the order of the system."""
    gpus = system.nodes[GPU]
    group = list(range(len(gpus)))
    for index, gpu in enumerate(gpus):
        for other in range(index):
            if gpu.paths[GPU][other].type < PathType.NET:
                group[index] = min(group[index], group[other])
    return [
        [gpu.rank for index, gpu in enumerate(gpus) if group[index] == first]
        for first in sorted(set(group))
    ]


def views(
    root: Element,
    version: Version,
    settings: Settings,
    grants: Grants = not_asked,
    *,
    ranks: dict[Place, int] | None = None,
    more_nodes: bool = False,
    prepared: PreparedSystem | None = None,
) -> list[Computed]:
    """The system of each domain, ordered as its first GPU stands in the XML.

    `more_nodes`: the communicator has ranks on other hosts too. `prepared`: the system of the XML,
    where it was made before.
    """
    whole = build_system(root, version, ranks) if prepared is None else prepared.system()
    total = len(whole.nodes[GPU])
    computed = Computed(whole, version, settings, grants, paths_set=prepared is not None)
    groups = domains(whole) if version.domains else [[g.rank for g in whole.nodes[GPU]]]
    if len(groups) <= 1:
        return [_finish(computed, total, more_nodes, version, settings, grants)]
    widest = whole.widest
    if _apart(whole):
        refusals = whole.refusals
        if prepared is None:
            set_all_paths(whole, version, settings)
        else:
            whole = prepared.system()
        made = [_part(whole, group, refusals, version) for group in groups]
        for part in made:
            part.widest = widest
        parts = [Computed(part, version, settings, grants, paths_set=True) for part in made]
    else:
        made = [_trimmed(whole, root, group, version, ranks) for group in groups]
        for part, group in zip(made, groups, strict=True):
            if version.device_nodes:
                set_all_paths(part, version, settings)
                part.widest = widest
                part.withdraw([gpu for gpu in part.nodes[GPU] if gpu.rank not in group])
        parts = [
            Computed(part, version, settings, grants, paths_set=version.device_nodes)
            for part in made
        ]
        whole.let_go()
    return [_finish(part, total, more_nodes, version, settings, grants) for part in parts]


def _apart(system: System) -> bool:
    """Whether no link joins two GPUs: then no path leads over a GPU, and none needs another.

    Of older GPUs and of POWER the search asks which link leads back, by the nodes at its ends; a
    part has other nodes than its links lead to.
    """
    if system.min_sm < 80 or any(cpu.arch == CpuArch.POWER for cpu in system.nodes[CPU]):
        return False
    return not any(link.to.kind is GPU for gpu in system.nodes[GPU] for link in gpu.links)


def _part(whole: System, group: list[int], refusals: list[str], version: Version) -> System:
    """The system of some ranks, with the paths of the whole, which lead over no other GPU.

    GPUs are in one part each, and so are the paths that lead from them and to them. Switches have
    no paths that anybody asks for, and stand in every part.
    """
    places = [gpu.index for gpu in whole.nodes[GPU] if gpu.rank in group]
    part = System(hosts=whole.hosts, refusals=[*refusals])
    if version.device_nodes:
        part.withdrawn = [gpu for gpu in whole.nodes[GPU] if gpu.rank not in group]
    for kind, nodes in whole.nodes.items():
        if kind is GPU:
            part.nodes[kind] = [nodes[place] for place in places]
            for node in part.nodes[kind]:
                node.paths = paths_to(places, node)
        elif kind in (CPU, NVS, NET):
            part.nodes[kind] = [
                replace(node, paths=paths_to(places, node), local_gpu=-1) for node in nodes
            ]
        else:
            part.nodes[kind] = nodes
    for index, gpu in enumerate(part.nodes[GPU]):
        gpu.index = index
    return part


def _trimmed(
    whole: System,
    root: Element,
    group: list[int],
    version: Version,
    ranks: dict[Place, int] | None,
) -> System:
    """The system made anew, without the other GPUs where these are no devices of their own."""
    part = build_system(root, version, ranks)
    for refusal in whole.refusals:
        part.refuse(refusal)
    if version.device_nodes:
        return part
    for gpu in [gpu for gpu in part.nodes[GPU] if gpu.rank not in group]:
        part.remove(gpu)
    return part


def _finish(
    computed: Computed,
    total: int,
    more_nodes: bool,
    version: Version,
    settings: Settings,
    grants: Grants,
) -> Computed:
    system = computed.system
    system.inter = more_nodes or len(system.nodes[GPU]) < total
    if version.is_rccl and drop_slow_ports(system):
        asked = computed.peers.asked
        computed = Computed(system, version, settings, grants)
        computed.peers.asked |= asked
    kept = version.keeps_nets or system.inter or not system.nodes[NET]
    if not kept and not (version.is_rccl and keeps_nets(system, version, settings)):
        return computed.without_nets()
    return computed


def drop_slow_ports(system: System) -> bool:
    """Of several ports with one GUID only the fastest stay; says whether any was dropped."""
    nets = system.nodes[NET]
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
    gpus = system.nodes[GPU]
    local = LocalNets(system, version, settings)
    gdr = GdrRules(system, version, settings)
    for gpu in gpus:
        index = local.net(gpu.index, 0)
        if index is None:
            return False
        net = system.nodes[NET][index]
        if gdr.check(gpu, net, send=True).mode is NO_GDR:
            return False
    return True


def all_linked(system: System) -> bool:
    """Every GPU reaches every other by xGMI, over at most four GPUs in between."""
    gpus = system.nodes[GPU]
    beside = [[other.index for other in gpus if _linked(gpu, other)] for gpu in gpus]
    for gpu in gpus:
        reached = {gpu.index}
        for _ in range(MOST_BETWEEN + 1):
            if len(reached) == len(gpus):
                break
            reached |= {far for near in reached for far in beside[near]}
        if len(reached) < len(gpus):
            return False
    return True


def _linked(one: SystemNode, other: SystemNode) -> bool:
    path = one.paths[GPU][other.index]
    return path.hops == 1 and path.links[0].kind is NVLINK
