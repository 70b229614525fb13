"""GPU and NIC pairs of one view: paths, GPUDirect RDMA, relays, and the NICs each GPU uses."""

from ..nodes import GPU, NET, PathType, SystemNode, SystemPath
from ..prediction import DecisionStep, NetDecision
from ..system.compute import Computed
from ..system.gdr import LEVEL, NO_GDR, GdrCheck, GdrMode, GdrReason, relay_of
from ..versions import Version
from ..wording import PathWords, name
from .domain import Domain

CHECK_GDR = "graph/paths.cc:ncclTopoCheckGdr"
FOR_SENDS, FOR_RECEIVES = "GPUDirect RDMA for sends?", "GPUDirect RDMA for receives?"


def net_decisions(computed: Computed) -> tuple[NetDecision, ...]:
    """One entry for each GPU and NIC, by rank and NIC."""
    system = computed.system
    view = _NetView(computed)
    return tuple(
        view.decide(gpu, net)
        for gpu in sorted(system.nodes[GPU], key=lambda gpu: gpu.rank)
        for net in system.nodes[NET]
    )


def local_nets(domain: Domain) -> dict[str, tuple[int, ...]]:
    """Rank -> NICs for channel 0, 1, ... (graph/topo.cc:ncclTopoGetLocalNet)."""
    system = domain.computed.system
    return {
        str(gpu.rank): tuple(system.nodes[NET][index].dev for index in domain.local.nets(gpu.index))
        for gpu in system.nodes[GPU]
    }


class _NetView:
    """GPUs and NICs of one view; steps that many pairs share are made once."""

    def __init__(self, computed: Computed) -> None:
        self._computed, self._version = computed, computed.version
        self._ways = PathWords(computed.version)
        self._asked: dict[tuple[int, int], tuple[DecisionStep, ...]] = {}
        """By the checks for sends and for receives."""
        self._relays: dict[int, DecisionStep] = {}
        self._rates: dict[float, float] = {}

    def decide(self, gpu: SystemNode, net: SystemNode) -> NetDecision:
        there, back = gpu.paths[NET][net.index], net.paths[GPU][gpu.index]
        send, receive = self._computed.gdr.both(gpu, net)
        relay = relay_of(gpu, net) if there.type is PathType.PXN else None
        far = DecisionStep(
            question="how far is the NIC?",
            answer=self._ways.types[there.type],
            because=self._ways.way(gpu, there),
            flag="NCCL_PXN_DISABLE" if relay is not None else "NCCL_TOPO_FILE",
            source="graph/paths.cc:ncclTopoComputePaths",
        )
        # Checks that are equal are the same object.
        asked = self._asked.get((id(send), id(receive)))
        if asked is None:
            asked = (
                gdr_step(self._version, FOR_SENDS, send),
                gdr_step(self._version, FOR_RECEIVES, receive),
            )
            self._asked[id(send), id(receive)] = asked
        return NetDecision(
            rank=gpu.rank,
            net=net.dev,
            to=self._shown(there),
            back=self._shown(back),
            gdr_send=send.mode,
            gdr_recv=receive.mode,
            pxn_rank=relay.rank if relay is not None else -1,
            name=net.name,
            steps=(far, *asked) if relay is None else (far, self._relayed(relay), *asked),
        )

    def _relayed(self, relay: SystemNode) -> DecisionStep:
        step = self._relays.get(relay.index)
        if step is None:
            linked = "xGMI" if self._version.is_rccl else "NVLink"
            step = self._relays[relay.index] = DecisionStep(
                question="does another GPU hand the bytes over (PXN)?",
                answer=f"yes, {name(relay, self._version)}",
                because=f"it sits next to the NIC and is an {linked} neighbour",
                decides=True,
                flag="NCCL_PXN_DISABLE",
                source="graph/paths.cc:ncclTopoComputePaths",
            )
        return step

    def _shown(self, path: SystemPath) -> tuple[int, float, str]:
        hops = len(path.links)
        if hops and self._version.device_nodes:
            # A device node beside the GPU, and for a relay two more on the NVLink.
            hops += 3 if path.type is PathType.PXN else 1
        gbs = path.bandwidth_gbs
        rate = self._rates.get(gbs)
        if rate is None:
            rate = self._rates[gbs] = round(gbs, 3)
        return hops, rate, self._ways.types[path.type]


def _read_rule(version: Version) -> str:
    if version.gdr_read_below_sm > 100:
        return "only with an NVLink neighbour"
    return f"before sm{version.gdr_read_below_sm} only with an NVLink neighbour"


def gdr_step(version: Version, question: str, check: GdrCheck) -> DecisionStep:
    """Whether GPUDirect RDMA is used one way, and what decided it."""
    because, flag = {
        GdrReason.NIC: ("the NIC's plugin reports no GPU memory support", "NCCL_DMABUF_ENABLE"),
        GdrReason.GPU: ("the GPU reports no GPUDirect RDMA", None),
        GdrReason.READ_FLAG: ("NCCL_NET_GDR_READ=0", "NCCL_NET_GDR_READ"),
        GdrReason.NO_NVLINK: (_read_rule(version), "NCCL_NET_GDR_READ"),
    }.get(check.decided, (None, LEVEL))
    if because is None:
        near = "is farther than" if check.decided is GdrReason.DISTANCE else "is no farther than"
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
    answer = {NO_GDR: "no", GdrMode.DEFAULT: "yes", GdrMode.PCI: "yes, over PCIe"}[check.mode]
    return DecisionStep(
        question=question,
        answer=answer,
        because=because,
        decides=True,
        flag=flag,
        source=CHECK_GDR,
    )
