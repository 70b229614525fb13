"""Which GPUs see each other at all; each group is a view of its own (ncclTopoTrimSystem)."""

from __future__ import annotations

from ...model.element import Element
from ..nodes import PathType, System
from ..settings import Settings
from ..versions import Version
from .build import build_system
from .compute import Computed
from .peers import Grants, not_asked
from .ranks import Place
from .rccl import drop_slow_ports, keeps_nets


def domains(system: System) -> list[list[int]]:
    """Ranks by domain, from the paths of GPUs in the order of the system."""
    gpus = system.nodes["GPU"]
    group = list(range(len(gpus)))
    for index, gpu in enumerate(gpus):
        for other in range(index):
            if gpu.paths["GPU"][other].type < PathType.NET:
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
) -> list[Computed]:
    """The system of each domain, ordered as its first GPU stands in the XML.

    `more_nodes`: the communicator has ranks on other hosts too.
    """
    whole = build_system(root, version, ranks)
    total = len(whole.nodes["GPU"])
    computed = Computed(whole, version, settings, grants)
    groups = domains(whole) if version.domains else [[g.rank for g in whole.nodes["GPU"]]]
    if len(groups) <= 1:
        return [_finish(computed, total, more_nodes, version, settings, grants)]
    found = []
    for group in groups:
        part = build_system(root, version, ranks)
        for refusal in whole.refusals:
            part.refuse(refusal)
        for gpu in [gpu for gpu in part.nodes["GPU"] if gpu.rank not in group]:
            part.remove(gpu)
        found.append(
            _finish(
                Computed(part, version, settings, grants),
                total,
                more_nodes,
                version,
                settings,
                grants,
            )
        )
    return found


def _finish(
    computed: Computed,
    total: int,
    more_nodes: bool,
    version: Version,
    settings: Settings,
    grants: Grants,
) -> Computed:
    system = computed.system
    system.inter = more_nodes or len(system.nodes["GPU"]) < total
    changed = False
    if version.library == "rccl" and drop_slow_ports(system):
        computed = Computed(system, version, settings, grants)
    kept = version.keeps_nets or system.inter or not system.nodes["NET"]
    if not kept and not (version.library == "rccl" and keeps_nets(system, version, settings)):
        for net in list(system.nodes["NET"]):
            system.remove(net)
        changed = True
    return Computed(system, version, settings, grants) if changed else computed
