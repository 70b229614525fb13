"""Bandwidths of the tuning table, GB/s of the user's bytes (graph/tuning.cc:ncclTopoTuneModel)."""

from ..rounding import single
from .inputs import TuningInput
from .version import NvlsModel, Row, generation

GATHERS = ("AllGather", "ReduceScatter")
ROOTED = ("Broadcast", "Reduce")


def computed(comm: TuningInput, collective: str, algorithm: str, protocol: str) -> bool:
    """Whether NCCL computes this cell of the table at all; the others stay 0/0."""
    if collective in ROOTED:
        return algorithm == "RING"
    if collective in GATHERS and algorithm not in ("PAT", "RING", "NVLS", "COLLNET_DIRECT"):
        return False
    if collective in GATHERS and comm.version.nvls_model is NvlsModel.STEPS and algorithm != "RING":
        return False
    if collective in GATHERS and algorithm == "COLLNET_DIRECT" and not comm.version.direct_gathers:
        return False
    if algorithm == "PAT":
        return collective in GATHERS and protocol == "SIMPLE" and pat_enabled(comm)
    if algorithm in ("NVLS", "NVLS_TREE"):
        few = comm.version.nvls_model is NvlsModel.EFFICIENCY and comm.channels(algorithm) < 2
        return protocol == "SIMPLE" and not few
    return True


def pat_enabled(comm: TuningInput) -> bool:
    """PAT runs with one GPU a node, or as NCCL_PAT_ENABLE says (ncclPatEnable)."""
    if comm.low_sm < comm.version.pat_min_sm:
        return False
    wanted = comm.settings.integer("NCCL_PAT_ENABLE", 2)
    return comm.nodes == comm.ranks if wanted == 2 else wanted != 0


def steps_of(collective: str, ranks: int) -> int:
    """Steps that a ring of so many ranks takes."""
    if collective == "AllReduce":
        return 2 * (ranks - 1)
    return ranks - 1 if collective in GATHERS else ranks


def bandwidth(comm: TuningInput, collective: str, algorithm: str, protocol: str) -> float:
    """Algorithm bandwidth of one cell, before anything is switched off."""
    if algorithm.startswith("COLLNET"):
        return 0.0  # without a plugin NCCL zeroes them; their graphs are not modelled
    if algorithm in ("NVLS", "NVLS_TREE"):
        per_channel = nvls_channel(comm, collective, algorithm)
    else:
        graph = comm.graph(algorithm)
        per_channel = single(graph.bw_intra if comm.nodes <= 2 else graph.bw_inter)
    bus = single(comm.channels(algorithm) * per_channel)
    if algorithm == "RING":
        bus = ring(comm, collective, protocol, bus)
    elif algorithm == "TREE":
        bus = tree(comm, protocol, bus)
    elif algorithm == "PAT":
        bus = single(bus * comm.version.pat_factor)
    return single(bus * ratio(comm, collective, algorithm))


def row(comm: TuningInput, table: dict[str, Row]) -> float:
    """The entry of a table for this GPU generation and number of nodes."""
    return table[generation(comm.low_sm)][min(comm.nodes, 3) - 1]


def ll_most(comm: TuningInput) -> float:
    """The most that LL reaches: by GPU on one node, by CPU vendor on several."""
    if comm.nodes == 1:
        return row(comm, comm.version.ll_max_gbs)
    vendors = ("amd", "mixed") if comm.version.mixed_as_amd else ("amd",)
    table = comm.version.ll_max_gbs["ampere" if comm.cpu_vendor in vendors else "volta"]
    return table[min(comm.nodes, 3) - 1]


def ring(comm: TuningInput, collective: str, protocol: str, bus: float) -> float:
    """Bus bandwidth of the ring by protocol."""
    version = comm.version
    if protocol == "LL":
        share = 0.5
        if version.ll_share != "half":
            slow = comm.nodes > 1 or collective in ("AllReduce", "Reduce")
            share = 1 / 4 if slow else 1 / 3
        return single(min(ll_most(comm), bus * share))
    if protocol == "LL128":
        share = version.one_gpu_ll128 if comm.per_node < 2 else 0.92
        most = comm.channels("RING") * row(comm, version.ring_ll128_gbs)
        return single(min(bus * share, most))
    return bus


def tree(comm: TuningInput, protocol: str, bus: float) -> float:
    """Bus bandwidth of the tree by protocol."""
    version, channels = comm.version, comm.channels("TREE")
    bus = single(min(bus * 0.92, channels * row(comm, version.tree_gbs)))
    if protocol == "LL":
        bus = single(min(bus * 1.0 / 3.8, ll_most(comm)))
    if protocol == "LL128":
        share = 7.0 / 9.0 if comm.nodes == 1 else 120.0 / 128.0
        bus = single(min(bus * share, channels * row(comm, version.tree_ll128_gbs)))
    return single(bus * 0.85) if comm.unbalanced_tree else bus


def nvls_channel(comm: TuningInput, collective: str, algorithm: str) -> float:
    """Bandwidth of one NVLS channel; NCCL's model changed in 2.19, 2.27 and 2.28."""
    graph = comm.graph(algorithm)
    intra, inter = single(graph.bw_intra), single(graph.bw_inter)
    if comm.version.nvls_model is NvlsModel.EFFICIENCY:
        return efficient(comm, collective, algorithm, intra, inter)
    if comm.version.nvls_model is NvlsModel.STEPS:
        return intra if comm.nodes <= 2 else inter
    if algorithm == "NVLS_TREE":
        return min(intra, inter if comm.nodes <= 2 else single(inter / 2))
    if comm.version.nvls_model is NvlsModel.GATHER and collective in GATHERS:
        others = single(comm.per_node - 1) / comm.per_node
        return min(single(intra * others), single(inter * 0.9))
    return min(intra, inter)


def efficient(
    comm: TuningInput, collective: str, algorithm: str, intra: float, inter: float
) -> float:
    """Since 2.28: a measured share of NVLink, without the part that a GPU sends to itself."""
    channels = comm.channels(algorithm)
    share = single(comm.version.nvls_efficiency[generation(comm.low_sm)])
    intra = single(single(single(intra * share) * (channels - 1)) / channels)
    if collective == "AllReduce":
        intra = single(intra * 2)  # it pipelines two operations
    else:
        intra = single(intra * single(single(comm.per_node - 1) / comm.per_node))
    if algorithm == "NVLS":
        return min(intra, inter)
    most = single(row(comm, comm.version.nvls_tree_gbs))
    return min(intra, single(inter * (2 if comm.nodes <= 2 else 1)), most)


def ratio(comm: TuningInput, collective: str, algorithm: str) -> float:
    """The ratio of the bandwidth of the user's bytes to bus bandwidth."""
    nvls = algorithm in ("NVLS", "NVLS_TREE")
    version = comm.version
    if collective in GATHERS and algorithm != "RING" and not (nvls and version.nvls_gather_ratio):
        return 1.0
    if version.nvls_model is NvlsModel.STEPS and algorithm == "NVLS_TREE" and comm.nodes > 1:
        return single(0.7 * comm.nodes / (2 * (comm.nodes - 1)))
    if nvls and version.nvls_model is not NvlsModel.EFFICIENCY:
        return single(version.nvls_ratio)
    if nvls or algorithm == "RING":
        return single(comm.ranks / steps_of(collective, comm.ranks))
    return 0.5
