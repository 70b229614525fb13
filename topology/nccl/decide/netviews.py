"""GPU and NIC pairs of one view: paths, GPUDirect RDMA, relays, and the NICs each GPU uses."""

from __future__ import annotations

from ..nodes import PathType, SystemNode, SystemPath
from ..prediction import DecisionStep, NetDecision
from ..system.compute import Computed
from ..system.gdr import GdrCheck, check_gdr, relay_of
from ..wording import name, way
from .transports import Domain

CHECK_GDR = "graph/paths.cc:ncclTopoCheckGdr"


def net_decisions(computed: Computed) -> tuple[NetDecision, ...]:
    """One entry for each GPU and NIC, by rank and NIC."""
    system = computed.system
    known: dict[tuple[str, GdrCheck], DecisionStep] = {}
    return tuple(
        _decide(computed, gpu, net, known)
        for gpu in sorted(system.nodes["GPU"], key=lambda gpu: gpu.rank)
        for net in system.nodes["NET"]
    )


def local_nets(domain: Domain) -> dict[str, tuple[int, ...]]:
    """Rank -> NICs for channel 0, 1, ... (graph/topo.cc:ncclTopoGetLocalNet)."""
    system = domain.computed.system
    return {
        str(gpu.rank): tuple(
            system.nodes["NET"][index].dev for index in domain.local.nets(gpu.index)
        )
        for gpu in system.nodes["GPU"]
    }


def _decide(
    computed: Computed,
    gpu: SystemNode,
    net: SystemNode,
    known: dict[tuple[str, GdrCheck], DecisionStep],
) -> NetDecision:
    system, version, settings = computed.system, computed.version, computed.settings
    there, back = gpu.paths["NET"][net.index], net.paths["GPU"][gpu.index]
    send = check_gdr(system, version, settings, gpu, net, send=True)
    receive = check_gdr(system, version, settings, gpu, net, send=False)
    linked = "xGMI" if version.library == "rccl" else "NVLink"
    relay = relay_of(gpu, net) if there.type is PathType.PXN else None
    steps = [
        DecisionStep(
            question="how far is the NIC?",
            answer=version.name_of(there.type),
            because=way(gpu, there, version),
            flag="NCCL_PXN_DISABLE" if relay is not None else "NCCL_TOPO_FILE",
            source="graph/paths.cc:ncclTopoComputePaths",
        )
    ]
    if relay is not None:
        steps.append(
            DecisionStep(
                question="does another GPU hand the bytes over (PXN)?",
                answer=f"yes, {name(relay, version)}",
                because=f"it sits next to the NIC and is an {linked} neighbour",
                decides=True,
                flag="NCCL_PXN_DISABLE",
                source="graph/paths.cc:ncclTopoComputePaths",
            )
        )
    for asked in (("GPUDirect RDMA for sends?", send), ("GPUDirect RDMA for receives?", receive)):
        step = known.get(asked)
        if step is None:
            step = known[asked] = _gdr_step(computed, *asked)
        steps.append(step)
    return NetDecision(
        rank=gpu.rank,
        net=net.dev,
        to=_shown(computed, there),
        back=_shown(computed, back),
        gdr_send=send.mode,
        gdr_recv=receive.mode,
        pxn_rank=relay.rank if relay is not None else -1,
        name=net.name,
        steps=tuple(steps),
    )


def _shown(computed: Computed, path: SystemPath) -> tuple[int, float, str]:
    hops = path.hops
    if computed.version.device_nodes and path.links:
        # A device node beside the GPU, and for a relay two more on the NVLink.
        hops += 3 if path.type is PathType.PXN else 1
    return hops, round(path.bandwidth_gbs, 3), computed.version.name_of(path.type)


def _gdr_step(computed: Computed, question: str, check: GdrCheck) -> DecisionStep:
    version = computed.version
    because, flag = {
        "nic": ("the NIC's plugin reports no GPU memory support", "NCCL_DMABUF_ENABLE"),
        "gpu": ("the GPU reports no GPUDirect RDMA", None),
        "read flag": ("NCCL_NET_GDR_READ=0", "NCCL_NET_GDR_READ"),
        "read before sm80": ("before sm80 only with an NVLink neighbour", "NCCL_NET_GDR_READ"),
    }.get(check.decided, (None, "NCCL_NET_GDR_LEVEL"))
    if because is None:
        near = "is farther than" if check.decided == "distance" else "is no farther than"
        because = f"{version.name_of(check.distance)} {near} {version.name_of(check.allowed)}"
        if check.level.path is not None:
            because += f", which {check.level.name} sets"
        else:
            because += ", the default"
            if check.level.ignored:
                because += (
                    f"; {check.level.name}={check.level.value[:40]} is ignored: "
                    f"{check.level.ignored}"
                )
    answer = {"Disabled": "no", "Default": "yes", "PCI": "yes, over PCIe"}[check.mode]
    return DecisionStep(
        question=question,
        answer=answer,
        because=because,
        decides=True,
        flag=flag,
        source=CHECK_GDR,
    )
