"""Latencies of the tuning table, us (graph/tuning.cc:ncclTopoTuneModel)."""

from __future__ import annotations

from ..rounding import single
from .bandwidths import ROOTED, steps_of
from .inputs import TuningInput
from .version import PROTOCOLS

OVERHEADS = {("x86", "intel"): 1.0, ("x86", "amd"): 2.0}
"""What posting to the network costs the CPU, us; 1 elsewhere (getNetOverhead)."""


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
        each = 0.5 if version.nvls_model == "steps" else 0.4
        return single(base + 2 * (min(1, more) * intra + more * each) + inter)
    if algorithm == "COLLNET_CHAIN":
        return single(base + single(2 * more * intra + inter))
    if algorithm.startswith("NVLS") and version.nvls_model == "steps":
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
    if comm.graph(algorithm).type_intra == "NVL":
        return single(version.nvlink_us[algorithm][place])
    power = comm.cpu_arch == "power" and (algorithm, protocol) == ("TREE", "SIMPLE")
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
    elif comm.graph("RING").type_intra == "NVL":
        step = single(comm.version.nvlink_us[pace][PROTOCOLS.index(protocol)])
    else:
        power = pace == "TREE" and comm.cpu_arch == "power"
        step = single(comm.version.pci_us["RING" if power else pace][PROTOCOLS.index(protocol)])
    return step if same else single(steps * step)


def crossings(comm: TuningInput, collective: str) -> int:
    """Steps of a ring that go over the network."""
    if comm.nodes == 1:
        return 0
    once = comm.nodes - 1
    if collective != "AllReduce":
        return once
    return 2 * (comm.nodes if comm.version.inter_steps == "nodes" else once)


def overhead(comm: TuningInput, protocol: str) -> float:
    """What every step of a ring across nodes costs at least, us; three times for SIMPLE."""
    if comm.nodes == 1:
        return 0.0
    set_to = comm.settings.integer("NCCL_NET_OVERHEAD", -2)
    cost = set_to * 0.001
    if set_to == -2:
        cost = OVERHEADS.get((comm.cpu_arch, comm.cpu_vendor), 1.0)
    return single(single(cost) * (3 if protocol == "SIMPLE" else 1))
