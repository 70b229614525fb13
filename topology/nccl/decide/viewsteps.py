"""Decisions about a view as a whole: is it one domain, may NVLS run, which NIC serves whom."""

from ...model.machine import Machine
from ...model.page import Basis
from ..nodes import GPU, NET, NVS, System
from ..prediction import DecisionStep, Graphs
from ..search.rccl_models import models, shape_words
from ..settings import Settings
from ..system.nets import nearest
from ..versions import Version
from ..wording import gbs, name
from .communicator import address_of
from .domain import Domain

_INIT = "transport/nvls.cc:ncclNvlsInit"
_COMPUTE = "graph/search.cc:ncclTopoCompute"
NVLS_VARIABLE = "NCCL_NVLS_ENABLE"
DOMAIN, NVLS, MODEL, LOCAL = "domain", "nvls", "model", "local_nets"


def fabric_refuses(machine: Machine, system: System) -> str | None:
    """Why NVLink multicast cannot work, from the fabric state that NVML reports; None if it may.

    An incomplete registration is the best sign there is without asking CUDA
    (NVIDIA/TensorRT-LLM pull request 16595).
    """
    for gpu in system.nodes[GPU]:
        known = machine.gpu(address_of(gpu.bus_id))
        if known is not None and known.mig_enabled:
            return f"MIG is on for GPU {gpu.rank}"
        state = known.fabric.state if known is not None and known.fabric is not None else None
        if state is not None and state != "completed":
            return f"the NVSwitch fabric of GPU {gpu.rank} is {state!r}, not completed"
    return None


def nvls_steps(
    system: System, version: Version, settings: Settings, machine: Machine, graphs: Graphs
) -> tuple[DecisionStep, ...]:
    """transport/nvls.cc:ncclNvlsInit and the search's own conditions, in order."""
    steps = []
    for condition in _nvls_conditions(system, version, settings, machine):
        steps.append(condition)
        if condition.decides:
            return tuple(steps)
    found = graphs.nvls
    heads = found.channels if found is not None else 0
    because = "the links leave no room for it"
    if found is not None and heads:
        because = f"{heads} heads at {gbs(found.bw_intra)} GB/s"
    steps.append(
        DecisionStep(
            question="does the search find an NVLS graph?",
            answer="yes" if heads else "no",
            because=because,
            decides=True,
            source="graph/search.cc:ncclTopoSearchTryNvls",
        )
    )
    return tuple(steps)


def _nvls_conditions(
    system: System, version: Version, settings: Settings, machine: Machine
) -> tuple[DecisionStep, ...]:
    """Conditions of a search for NVLS; the first no decides."""
    gpus = system.nodes[GPU]
    return (
        nvls_switch(settings),
        _condition(
            f"are there {'two' if version.nvls_least_gpus == 2 else 'three'} GPUs at least?",
            len(gpus) >= version.nvls_least_gpus,
            f"{len(gpus)} in this view",
            _INIT,
        ),
        _condition(
            "are all GPUs of compute capability 9.0 or later?",
            system.min_sm >= 90,
            f"the lowest is {system.min_sm / 10:.1f}",
            _COMPUTE,
        ),
        _condition(
            "is there an NVSwitch?",
            bool(system.nodes[NVS]),
            "a link leads to one" if system.nodes[NVS] else "no link leads to one",
            _COMPUTE,
        ),
        _multicast(system, machine),
    )


def nvls_switch(settings: Settings) -> DecisionStep:
    """Whether the environment leaves NVLS on."""
    setting = settings.integer(NVLS_VARIABLE, 2)
    return _condition(
        "is NVLS switched on?",
        setting != 0,
        "NCCL_NVLS_ENABLE=0" if not setting else "unless NCCL_NVLS_ENABLE is 0",
        _INIT,
        NVLS_VARIABLE,
    )


def _multicast(system: System, machine: Machine) -> DecisionStep:
    refused = fabric_refuses(machine, system)
    states = [
        known.fabric is not None and known.fabric.state == "completed"
        for known in (machine.gpu(address_of(gpu.bus_id)) for gpu in system.nodes[GPU])
        if known is not None
    ]
    read = bool(refused) or (bool(states) and all(states))
    assumed = "the fabric is completed on all GPUs" if read else "not asked; assumed to work"
    return _condition(
        "does the driver support multicast?",
        refused is None,
        refused or assumed,
        _INIT,
        NVLS_VARIABLE,
        basis=Basis.READ if read else Basis.ASSUMED,
    )


def _condition(
    question: str,
    holds: bool,
    because: str,
    source: str,
    flag: str | None = None,
    basis: Basis = Basis.READ,
) -> DecisionStep:
    return DecisionStep(
        question=question,
        answer="yes" if holds else "no",
        because=because,
        decides=not holds,
        flag=flag,
        source=source,
        basis=basis,
    )


def model_steps(
    system: System, version: Version, settings: Settings, graphs: Graphs
) -> tuple[DecisionStep, ...]:
    """Whether RCCL knows the node and takes its rings from a list (graph/search.cc)."""
    model = graphs.ring.model if graphs.ring is not None else None
    given = [name for name in ("NCCL_RINGS", "RCCL_TREES") if settings.text(name)]
    what = f"{len(system.nodes[GPU])} GPUs, {shape_words(system, version)}"
    if settings.integer("RCCL_MODEL_MATCHING_DISABLE", 0) != 0:
        answer, because = "not asked", "RCCL_MODEL_MATCHING_DISABLE switches the list off"
    elif given:
        answer, because = "not asked", f"{given[0]} gives them by hand"
    elif model is not None and graphs.ring is not None:
        answer = f"yes: {model}"
        because = (
            f"{what}; its {graphs.ring.channels} rings are used as they are written down, which "
            "takes every GPU and NIC of such a node"
        )
    else:
        answer = "no"
        because = f"none of the {len(models())} nodes on its list has {what}: RCCL searches"
    return (
        DecisionStep(
            question="is it a node whose rings RCCL has ready?",
            answer=answer,
            because=because,
            decides=True,
            flag="RCCL_MODEL_MATCHING_DISABLE",
            source="graph/rome_models.cc",
        ),
    )


def domain_steps(count: int, settings: Settings) -> tuple[DecisionStep, ...]:
    """Whether the GPUs of the host fall into groups that only the network joins."""
    off = settings.integer("NCCL_SHM_DISABLE", 0) == 1
    if count == 1:
        because = "P2P or shared memory joins every pair, at least through others"
    elif off:
        because = "NCCL_SHM_DISABLE=1, and P2P does not join all of them"
    else:
        because = "some pairs reach a NIC faster than each other"
    return (
        DecisionStep(
            question="do all GPUs reach each other without the network?",
            answer="yes" if count == 1 else f"no: {count} domains, each counts as a node",
            because=because,
            decides=True,
            flag="NCCL_SHM_DISABLE" if off or count == 1 else "NCCL_NET_DISABLE_INTRA",
            source="graph/paths.cc:ncclTopoTrimSystem",
        ),
    )


def local_net_steps(domain: Domain) -> tuple[DecisionStep, ...]:
    """Which NIC serves each rank, and out of how many equals (graph/topo.cc)."""
    computed = domain.computed
    system, version = computed.system, computed.version
    nets = system.nodes[NET]
    steps = []
    for gpu in sorted(system.nodes[GPU], key=lambda node: node.rank):
        used = domain.local.nets(gpu.index)
        if not used:
            continue
        best, kind = nearest(gpu, NET)
        path = gpu.paths[NET][best[0]]
        which = f"{len(best)} of {len(nets)} NICs share the" if len(best) > 1 else "the"
        table = f"{gbs(path.bandwidth_gbs)} GB/s in the library's table"
        because = f"{which} fastest path: {version.name_of(kind)}, {table}"
        if len(best) > 1:
            whose = "its place among their GPUs"
            if version.local_net_start != "position":
                whose = f"NVML index {gpu.dev}"
            mirrored = ", bits mirrored," if len(best) & (len(best) - 1) == 0 else ""
            because += f"; {whose}{mirrored} picks the first"
        steps.append(
            DecisionStep(
                question=f"which NIC serves rank {gpu.rank}?",
                answer=", ".join(name(nets[index], version) for index in used),
                because=because,
                decides=True,
                flag="NCCL_NETDEVS_POLICY" if version.netdevs_policy else None,
                source="graph/topo.cc:ncclTopoGetLocalNet",
            )
        )
    return tuple(steps)
