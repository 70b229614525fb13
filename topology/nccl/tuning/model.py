"""The tuning table: latency and bandwidth of every algorithm and protocol (graph/tuning.cc)."""

from __future__ import annotations

from ..prediction import Tuning
from .bandwidths import bandwidth, computed
from .inputs import TuningInput
from .latencies import latency
from .selection import BY_RULE, algorithms, protocols
from .version import COLLECTIVES, PROTOCOLS

Cells = dict[str, dict[str, tuple[float, float]]]


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
