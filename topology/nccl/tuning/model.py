"""The tuning table: latency and bandwidth of every algorithm and protocol (graph/tuning.cc)."""

from ..nodes import CpuArch, PathType
from ..prediction import Tuning
from ..rounding import single
from .bandwidths import ROOTED, bandwidth, computed, steps_of
from .inputs import TuningInput
from .rccl_inputs import InterSteps
from .selection import BY_RULE, algorithms, protocols
from .version import COLLECTIVES, PROTOCOLS, NvlsModel

NVL = PathType.NVL.name
Cells = dict[str, dict[str, tuple[float, float]]]

OVERHEADS = {("x86", "intel"): 1.0, ("x86", "amd"): 2.0}
"""What posting to the network costs the CPU, us; 1 elsewhere (getNetOverhead)."""


def tuning(comm: TuningInput) -> Tuning:
    """Collective -> algorithm -> protocol -> (latency us, algorithm bandwidth GB/s).

    Number by number what NCCL logs under TUNING. A cell that NCCL does not compute is 0/0; one
    that is switched off keeps its latency and has bandwidth 0. ValueError for RCCL.
    """
    return {name: column(comm, name) for name in COLLECTIVES}


def column(comm: TuningInput, collective: str) -> Cells:
    """All cells of one collective."""
    by_algorithm = algorithms(comm.settings, comm.version).allowed[collective]
    by_protocol = protocols(comm.settings, comm.version).allowed[collective]
    full = {
        algorithm: {name: cell(comm, collective, algorithm, name) for name in PROTOCOLS}
        for algorithm in comm.version.algorithms
    }
    usable = available(comm, by_algorithm)
    found: Cells = {}
    for algorithm, cells in full.items():
        found[algorithm] = {}
        for protocol, (time, gbs) in cells.items():
            on = usable[algorithm] and protocol_on(comm, by_protocol, algorithm, protocol)
            found[algorithm][protocol] = (time, gbs if on else 0.0)
    if any(gbs for cells in found.values() for _, gbs in cells.values()):
        return found
    return {**found, "RING": {**found["RING"], **spare_ring(comm, collective)}}


def cell(comm: TuningInput, collective: str, algorithm: str, protocol: str) -> tuple[float, float]:
    """One cell with nothing switched off."""
    if comm.ranks <= 1 or not computed(comm, collective, algorithm, protocol):
        return 0.0, 0.0
    return (
        latency(comm, collective, algorithm, protocol),
        bandwidth(comm, collective, algorithm, protocol),
    )


def available(comm: TuningInput, by_algorithm: dict[str, int]) -> dict[str, bool]:
    """Which algorithms the communicator can run and the user left on."""
    on = {name: bool(flag) for name, flag in by_algorithm.items()}
    if comm.nodes == 1:
        on["NVLS_TREE"] = False
    if not comm.collnet:
        on["COLLNET_DIRECT"] = on["COLLNET_CHAIN"] = False
        if comm.nodes > 1:
            on["NVLS"] = False
        # Up to 2.23 a list without any of these was taken for NCCL_ALGO=COLLNET and dropped.
        plain = ("RING", "TREE", "NVLS", "NVLS_TREE")
        if comm.version.grammar == "list" and not any(on[name] for name in plain):
            on["RING"] = on["TREE"] = True
    return on


def protocol_on(
    comm: TuningInput, by_protocol: dict[str, int], algorithm: str, protocol: str
) -> bool:
    """Whether a protocol may be used; LL128 that nobody named goes by the hardware."""
    wanted = by_protocol[protocol]
    return safe_ll128(comm, algorithm) if wanted == BY_RULE else bool(wanted)


def safe_ll128(comm: TuningInput, algorithm: str) -> bool:
    """Whether NCCL trusts all links of a graph to keep 128 bytes together."""
    version, graph, sm = comm.version, comm.graph(algorithm), comm.low_sm
    paths = version.ll128_paths
    if sm >= 90:
        with_c2c = comm.settings.integer("NCCL_LL128_C2C", 1) != 0
        known = bool(version.ll128_paths_no_c2c)
        paths = version.ll128_paths_no_c2c if known and not with_c2c else version.ll128_paths_sm90
    mixed = sm != comm.high_sm and not 0 < version.ll128_mixed_from <= sm
    good_sm = sm in version.ll128_sms if version.ll128_sms else sm >= 70
    near = graph.type_intra in (("LOC", "NVL", "NVB") if version.ll128_relays else ("LOC", "NVL"))
    return graph.type_inter in paths and near and not mixed and good_sm


def spare_ring(comm: TuningInput, collective: str) -> dict[str, tuple[float, float]]:
    """The cells of the ring that come back when nothing else is left; {} since 2.24."""
    rule = comm.version.ring_fallback
    if rule == "no" or (rule == "others" and collective == "AllReduce"):
        return {}
    by_protocol = protocols(comm.settings, comm.version).allowed[collective]
    return {
        protocol: cell(comm, collective, "RING", protocol)
        for protocol in PROTOCOLS
        if rule == "all" or protocol_on(comm, by_protocol, "RING", protocol)
    }


# Latencies of the tuning table, us (graph/tuning.cc:ncclTopoTuneModel).
def latency(comm: TuningInput, collective: str, algorithm: str, protocol: str) -> float:
    """The latency of one cell of the table, us."""
    version = comm.version
    base = single(version.base_us[algorithm][PROTOCOLS.index(protocol)])
    if algorithm == "RING":
        return single(base + ring(comm, collective, protocol))
    intra = inside(comm, algorithm, protocol)
    inter = across(comm, algorithm, protocol)
    more, doublings = comm.ranks // comm.nodes - 1, comm.nodes.bit_length() - 1
    if algorithm == "TREE":
        return single(base + single(2 * (more * intra + doublings * inter)))
    if algorithm == "COLLNET_DIRECT":  # so long a rank takes to serialise
        each = 0.5 if version.nvls_model is NvlsModel.STEPS else 0.4
        return single(base + 2 * (min(1, more) * intra + more * each) + inter)
    if algorithm == "COLLNET_CHAIN":
        return single(base + single(2 * more * intra + inter))
    if algorithm.startswith("NVLS") and version.nvls_model is NvlsModel.STEPS:
        across_all = 2 * (comm.nodes - 1) if algorithm == "NVLS_TREE" else int(comm.nodes > 1)
        return single(base + across_all * network(comm, algorithm, protocol))
    if algorithm == "NVLS":
        return single(intra + inter) if comm.nodes > 1 else intra
    if algorithm == "NVLS_TREE":
        return single(base + single(intra + 2 * doublings * inter))
    return single(base + doublings * single(inter / 3.5) + comm.ranks * 2.8)


def inside(comm: TuningInput, algorithm: str, protocol: str) -> float:
    """One step inside a node: NVLink's only where the whole graph is NVL, else PCI's."""
    version, place = comm.version, PROTOCOLS.index(protocol)
    if comm.graph(algorithm).type_intra == NVL:
        return single(version.nvlink_us[algorithm][place])
    power = comm.cpu_arch == CpuArch.POWER and (algorithm, protocol) == ("TREE", "SIMPLE")
    return single(version.pci_us["RING" if power else algorithm][place])


def network(comm: TuningInput, algorithm: str, protocol: str) -> float:
    """One step over the network, without the NIC's own latency."""
    return single(comm.version.net_us[algorithm][PROTOCOLS.index(protocol)])


def across(comm: TuningInput, algorithm: str, protocol: str) -> float:
    """One step between nodes; SIMPLE pays the NIC's latency twice, for the flush."""
    exposed = comm.version.net_as_tree and comm.per_node == 1
    step = network(comm, "TREE" if exposed else algorithm, protocol)
    times = 2 if protocol == "SIMPLE" else 1
    return single(step + times * single(comm.latency_inter(algorithm)))


def ring(comm: TuningInput, collective: str, protocol: str) -> float:
    """All steps of a ring."""
    steps = steps_of(collective, comm.ranks)
    if collective in ROOTED:
        return rooted(comm, protocol, steps)
    intra = max(inside(comm, "RING", protocol), overhead(comm, protocol))
    crossing = crossings(comm, collective)
    return single((steps - crossing) * intra + crossing * across(comm, "RING", protocol))


def rooted(comm: TuningInput, protocol: str, steps: int) -> float:
    """Broadcast and Reduce: one step where all channels run the same way, else every step."""
    same = bool(comm.graph("RING").same_channels)
    pace = "TREE" if not same and protocol == "SIMPLE" else "RING"
    if comm.nodes > 1:
        step = network(comm, pace, protocol)
    elif comm.graph("RING").type_intra == NVL:
        step = single(comm.version.nvlink_us[pace][PROTOCOLS.index(protocol)])
    else:
        power = pace == "TREE" and comm.cpu_arch == CpuArch.POWER
        step = single(comm.version.pci_us["RING" if power else pace][PROTOCOLS.index(protocol)])
    return step if same else single(steps * step)


def crossings(comm: TuningInput, collective: str) -> int:
    """Steps of a ring that go over the network."""
    if comm.nodes == 1:
        return 0
    once = comm.nodes - 1
    if collective != "AllReduce":
        return once
    return 2 * (comm.nodes if comm.version.inter_steps is InterSteps.NODES else once)


def overhead(comm: TuningInput, protocol: str) -> float:
    """The least cost of a step of a ring across nodes, us; three times for SIMPLE."""
    if comm.nodes == 1:
        return 0.0
    set_to = comm.settings.integer("NCCL_NET_OVERHEAD", -2)
    cost = set_to * 0.001
    if set_to == -2:
        cost = OVERHEADS.get((comm.cpu_arch, comm.cpu_vendor), 1.0)
    return single(single(cost) * (3 if protocol == "SIMPLE" else 1))
