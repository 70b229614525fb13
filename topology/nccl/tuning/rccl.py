"""How RCCL 2.21.5, 2.27.7 and 2.28.3 pick channels, algorithm and protocol by size.

Sources: graph/tuning.cc, graph/connect.cc:ncclTopoPostset, enqueue.cc:topoGetAlgoInfo, rccl_wrap.cc
and init.cc:initTransportsRank of ROCm/rccl, in a build with its default options.
"""

from ..prediction import AlgorithmChoice, SearchGraph, Tuning
from ..rounding import single
from .rccl_inputs import InterSteps, RcclInput

ALGORITHMS, PROTOCOLS = ("TREE", "RING"), ("LL", "LL128", "SIMPLE")
TUNABLE = ("ReduceScatter", "AllGather", "AllReduce", "Reduce", "Broadcast")
"""The collectives in the order of `ranges` and `channels`."""
DIRECT = "DIRECT"
"""All-gather by direct copies (rccl_wrap.cc:rcclUseAllGatherDirect)."""
MOST_CHANNELS, OLD_CHANNELS, SPREAD_CHANNELS = 128, 32, 64
"""MAXCHANNELS; before MI300; over several nodes or from NIC to NIC."""
BASE_US = (12.0, 12.0, 17.0)
LINKS, PCI, NET = 0, 1, 2
XGMI = "XGMI"
LINKED = ("LOC", XGMI)
NEAR = (*LINKED, "NVB", "C2C", "PIX", "PXB")
"""RCCL's names of path types."""
GFX12_LL = (("Broadcast", 1536), ("Reduce", 8192), ("AllGather", 98304), ("ReduceScatter", 98304),
            ("AllReduce", 913532))  # fmt: skip
"""Bytes of a rank up to which LL is used on one node, else SIMPLE."""
LL_OF = {"gfx950": {"AllGather": 88448, "ReduceScatter": 1048576},
         "gfx942": {"ReduceScatter": 352128}}  # fmt: skip
"""The same, else what was picked."""


def coll_channels(comm: RcclInput) -> int:
    """Channels of the communicator (graph/connect.cc:ncclTopoPostset)."""
    alone = comm.nodes == 1
    found = comm.ring.channels if alone else min(comm.ring.channels, comm.tree.channels)
    most = _most_channels(comm)
    if not alone or (comm.ring.model and comm.ring.nets):
        most = min(SPREAD_CHANNELS, most)
    wanted = min(most // found, _copies(comm)) * found
    count = min(most, found * 2 if found <= most // 2 else found)
    fast = comm.ring.bw_intra > 45.0 and comm.arch.startswith(comm.rules.doubled)
    if not alone and fast and 2 * count <= most:
        count *= 2
    return max(count, 2, wanted)


def _most_channels(comm: RcclInput) -> int:
    if not comm.instinct3:
        return OLD_CHANNELS
    known = comm.rules.units_count
    return min(comm.units, MOST_CHANNELS) if not known or comm.units in known else MOST_CHANNELS


def _copies(comm: RcclInput) -> int:
    """How often the channels of the search are wanted (init.cc:initTransportsRank)."""
    alone, rings = comm.nodes == 1, comm.ring.channels
    copies = 4 if alone and comm.arch.startswith("gfx906") and comm.near else 2
    if comm.arch.startswith("gfx908"):
        copies = max(4 // rings, 2)
    if alone and (comm.chordal or comm.arch.startswith("gfx90a")):
        copies = 4
    if comm.arch.startswith("gfx90a"):
        copies = max(copies, 4 // rings)
    if rings > MOST_CHANNELS // 2:
        copies = 1
    if comm.instinct350:
        copies = {2: 16, 4: 8}.get(comm.ranks, 4) if alone else 4
    elif comm.instinct3:
        copies = {2: 16, 4: 4}.get(comm.ranks, copies)
    return copies


def rccl_tuning(comm: RcclInput) -> Tuning:
    """Latency us and algorithm bandwidth GB/s of everything; {} for one rank.

    Source: graph/tuning.cc:ncclTopoTuneModel.
    """
    if comm.ranks < 2:
        return {}
    return {
        collective: {
            algorithm: {
                protocol: _cell(comm, collective, a, p) for p, protocol in enumerate(PROTOCOLS)
            }
            for a, algorithm in enumerate(ALGORITHMS)
        }
        for collective in TUNABLE
    }


def _cell(comm: RcclInput, collective: str, a: int, p: int) -> tuple[float, float]:
    tree, simple = a == 0, p == 2
    alone = comm.nodes == 1
    if (tree and collective != "AllReduce") or (tree and simple and alone and comm.instinct3):
        return 0.0, 0.0
    graph, table = (comm.tree if tree else comm.ring), comm.table
    steps = {"AllReduce": 2 * (comm.ranks - 1), "Broadcast": comm.ranks, "Reduce": comm.ranks}.get(
        collective, comm.ranks - 1
    )
    each = graph.bw_intra if comm.nodes <= 2 else graph.bw_inter
    channels = coll_searched(comm)
    gbs = single(channels * single(each))
    base = comm.options.get("baseBw", 0.0) if comm.rules.base_counts else 0.0
    gbs = single(base) if base else gbs
    gbs = single(gbs * single(table.share[0 if comm.nodes <= 2 else 1][a][p]))
    if not tree and p == 0 and collective in ("Broadcast", "Reduce") and alone and comm.instinct3:
        gbs = single(gbs * 1.65)
    ratio = 0.5 if tree else single(comm.ranks / steps)
    gbs = single(gbs * ratio)
    if (p == 1 and not _ll128(comm, graph)) or (
        p == 0 and comm.arch.startswith(comm.rules.without_ll)
    ):
        gbs = 0.0
    return _latency(comm, collective, a, p, steps), gbs


def coll_searched(comm: RcclInput) -> int:
    """Channels of ring and tree after all ranks agreed."""
    if comm.nodes == 1:
        return comm.ring.channels
    return min(comm.ring.channels, comm.tree.channels)


def _ll128(comm: RcclInput, graph: SearchGraph) -> bool:
    near, linked = graph.type_inter in NEAR, graph.type_intra in LINKED
    known = comm.arch.startswith(comm.rules.ll128)
    return near and linked and known and comm.ll128


def _latency(comm: RcclInput, collective: str, a: int, p: int, steps: int) -> float:
    table, graph = comm.table.latency_us, (comm.ring if a else comm.tree)
    inside = LINKS if graph.type_intra == XGMI else PCI
    intra = single(table[inside][a][p])
    inter = single(table[NET][0 if comm.ranks == comm.nodes else a][p])
    if comm.rules.nic_latency == "instead" and graph.latency_inter_us:
        inter = 0.0
    inter = single(inter + graph.latency_inter_us * (2 if p == 2 else 1))
    base = BASE_US[p]
    if a == 0:
        inner, outer = comm.ranks // comm.nodes - 1, comm.nodes.bit_length() - 1
        return single(base + 2 * single(single(inner * intra) + single(outer * inter)))
    if collective in ("Broadcast", "Reduce"):
        way = inside if comm.nodes == 1 else NET
        if graph.same_channels:
            return single(base + single(table[way][1][p]))
        one = single(table[way][0 if p == 2 else 1][p])
        return single(base + single(steps * one))
    crossing = 0
    if comm.nodes > 1:
        intra = max(intra, (2.0 if comm.amd_cpu else 1.0) * (3 if p == 2 else 1))
        once = comm.nodes - 1
        twice = 2 * (comm.nodes if comm.rules.inter_steps is InterSteps.NODES else once)
        crossing = twice if collective == "AllReduce" else once
    return single(base + single(single((steps - crossing) * intra) + single(crossing * inter)))


def choose(
    comm: RcclInput, figures: Tuning, channels: int, collective: str, size_bytes: int
) -> AlgorithmChoice | None:
    """The pick for one call; `size_bytes`: the larger of the buffers sent and received."""
    if comm.ranks < 2:
        return None
    if collective == "AllGather" and _direct(comm, size_bytes):
        return AlgorithmChoice(
            collective=collective, bytes=size_bytes, algorithm=DIRECT, protocol="SIMPLE",
            channels=(0, channels - 1), time_us=0.0,
        )  # fmt: skip
    best = (3600000000.0, 1, 2)
    for a, algorithm in enumerate(ALGORITHMS):
        for p, protocol in enumerate(PROTOCOLS):
            latency, gbs = figures[collective][algorithm][protocol]
            if not gbs or (p == 1 and not (comm.rules.ll128_picked and comm.joined is not None)):
                continue
            time = _time(comm, latency, gbs, a, p, size_bytes)
            if time < best[0]:
                best = time, a, p
    time, a, p = best
    p = _protocol(comm, collective, size_bytes, p)
    count = _own_channels(comm, channels, collective, size_bytes, a, p)
    if collective == "AllReduce":
        if comm.options.get("pivotA2ANumBiRings", 0) == 3:
            small = size_bytes <= 2200008
            a, p = (0, 0) if small else (1, 2)
            count = min(24, channels) if small else count
        elif comm.options.get("treeDefined", 0):
            a = 0
        if comm.instinct350 and comm.nodes == 1 and 64 <= size_bytes <= 262144:
            a, p = 0, 0
    return AlgorithmChoice(
        collective=collective,
        bytes=size_bytes,
        algorithm=ALGORITHMS[a],
        protocol=PROTOCOLS[p],
        channels=(0, count - 1),
        time_us=time,
    )


def _direct(comm: RcclInput, size_bytes: int) -> bool:
    most = 4194304
    if comm.instinct350:
        nodes = comm.nodes
        most = 8388608 if nodes == 1 else nodes * 2097152 if nodes < 64 else 75497472
    return comm.rules.overrides and comm.instinct3 and comm.ranks % 8 == 0 and size_bytes <= most


def _time(comm: RcclInput, latency: float, gbs: float, a: int, p: int, size_bytes: int) -> float:
    """graph/tuning.cc:ncclTopoGetAlgoTime."""
    size = max(0, min(26, (size_bytes >> 6).bit_length() - 1))
    if a == 0:
        gbs = single(gbs * single(comm.table.tree_size[p][size]))
    elif comm.nodes > 1:
        gbs = single(gbs * single(comm.table.ring_size[p][size]))
    if not gbs:
        return float("inf")
    return single(latency + single(single(size_bytes) / single(1000 * gbs)))


def _protocol(comm: RcclInput, collective: str, size_bytes: int, picked: int) -> int:
    """rccl_wrap.cc:rcclUpdateCollectiveProtocol."""
    if not comm.rules.overrides:
        return picked
    own = size_bytes if collective == "AllReduce" else size_bytes // comm.ranks
    if comm.nodes == 1:
        if comm.arch.startswith("gfx12"):
            return 0 if own <= dict(GFX12_LL).get(collective, 0) else 2
        return 0 if own <= LL_OF.get(comm.arch, {}).get(collective, -1) else picked
    if not comm.table.ranges:
        return picked
    ll, ll128 = comm.table.ranges[TUNABLE.index(collective)]
    if not ll[1] and not ll128[1]:
        return picked
    most = int(ll128[1] * 3.8) if collective == "AllReduce" and comm.nodes > 2 else ll128[1]
    if comm.ll128 and ll128[0] < own <= most:
        return 1
    return 0 if ll[0] < own <= ll[1] else 2


def _own_channels(
    comm: RcclInput, channels: int, collective: str, size_bytes: int, a: int, p: int
) -> int:
    """enqueue.cc:topoGetAlgoInfo and rccl_wrap.cc:rcclOverrideChannels."""
    wide = 512 if comm.instinct350 else 256
    narrow = p == 0 or (a == 1 and p == 2 and comm.ring.bw_intra * coll_searched(comm) <= 12.0)
    threads = 256 if narrow else wide
    each = (8 * comm.ranks if a == 1 else 8) if p == 0 else 8 if p == 1 else 64
    place = TUNABLE.index(collective)
    overridden = comm.rules.overrides and comm.nodes > 1
    if overridden and collective in ("ReduceScatter", "AllGather") and comm.table.ranges:
        # SIMPLE reads past its collective, into the next one's LL.
        rows = [row for pair in comm.table.ranges for row in pair]
        tuned = rows[2 * place + p][3]
        each = tuned * comm.ranks if tuned else each
    count = channels
    if size_bytes < count * threads * each:
        count = max(1, size_bytes // max(1, threads * each))
    if overridden and place < len(comm.table.channels):
        own = -(-size_bytes // comm.ranks)
        for over, upto, wanted in comm.table.channels[place]:
            if over < own <= upto:
                return wanted if wanted <= channels else count
    return count
