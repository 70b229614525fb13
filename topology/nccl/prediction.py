"""Records of what NCCL or RCCL decides on a node, with its steps. Bandwidths GB/s, one way."""

import msgspec

from ..model.page import Basis
from ..model.versions import Library

P2P, SHM, NET, NO_TRANSPORT = "P2P", "SHM", "NET", "none"
"""NCCL's words for the transport of a pair."""
NO_NVLS = {"NCCL_NVLS_ENABLE": "0"}
"""The variable that takes NVLS away."""
_NO, _NOT_DIRECT = "no", "Disabled"


class DecisionStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """One question that the library asks on its way to a decision."""

    question: str
    answer: str
    because: str = ""
    """The evidence, in words."""
    decides: bool = False
    """Whether this answer settles the decision."""
    flag: str | None = None
    """The variable that would change the answer."""
    source: str = ""
    """Where the library decides it: "graph/paths.cc:ncclTopoCheckP2p"."""
    basis: Basis = Basis.READ

    @property
    def refuses(self) -> bool:
        """Whether the answer is no."""
        return self.answer == _NO


class PairDecision(msgspec.Struct, frozen=True, kw_only=True):
    """One ordered pair of ranks."""

    src: int
    dst: int
    src_bus_id: str
    dst_bus_id: str
    path: str
    """Path type as the library prints it, "NET" across domains."""
    hops: int | None
    bandwidth_gbs: float | None
    transport: str
    """NCCL's word: "P2P", "SHM" or "NET"; "none" when the library finds no transport and fails."""
    label: str
    """What the log prints after `via` for ring and tree."""
    labels: tuple[str, ...]
    """The label of send/receive, where it differs from the ring's."""
    read: int = 0
    via: int | None = None
    """Rank of the relay GPU."""
    steps: tuple[DecisionStep, ...] = ()

    @property
    def p2p(self) -> bool:
        """Whether it uses P2P."""
        return self.transport == P2P

    @property
    def by_net(self) -> bool:
        """Whether it goes through the network."""
        return self.transport == NET


FLOOR_GBS = 0.11
"""The last rate that NCCL's search tries is 0.1 GB/s (graph/search.cc: its speed arrays end there).
A graph of that rate fits nowhere."""


class SearchGraph(msgspec.Struct, frozen=True, kw_only=True):
    """One outcome of the graph search; `channels` counts before NCCL doubles them."""

    pattern: int
    """1 balanced tree, 2 split tree, 3 tree, 4 ring, 5 NVLS."""
    channels: int
    bw_intra: float
    bw_inter: float
    type_intra: str
    type_inter: str
    same_channels: int
    cross_nic: int
    orders: tuple[tuple[int, ...], ...] = ()
    """Ranks in order, per channel; NVLS: the head of each channel alone."""
    nets: tuple[tuple[int, int], ...] = ()
    """Network device that each channel enters and leaves by; empty inside one node."""
    latency_inter_us: float = 0.0
    estimate: str | None = None
    """Why the figures are an estimate; None when the search was followed to its end."""
    model: str | None = None
    """The node of RCCL's list that gave the rings, "rome_model_81"; None when it searched."""

    @property
    def at_floor(self) -> bool:
        """Whether its bandwidth is where the search ends, and no forecast."""
        return bool(self.channels) and self.bw_intra <= FLOOR_GBS


class Graphs(msgspec.Struct, frozen=True, kw_only=True):
    """The graphs of one view; None: the library does not build one."""

    ring: SearchGraph | None = None
    tree: SearchGraph | None = None
    nvls: SearchGraph | None = None


class NetDecision(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU and one NIC."""

    rank: int
    net: int
    """Index of the NIC in the library's list."""
    to: tuple[int, float, str]
    """Hops, GB/s and path type from the GPU to the NIC."""
    back: tuple[int, float, str] = msgspec.field(name="from")
    gdr_send: str
    """NCCL's word: "Default", "PCI" or "Disabled"."""
    gdr_recv: str
    pxn_rank: int
    """Rank of the GPU that relays, -1 when the GPU goes itself."""
    name: str = ""
    steps: tuple[DecisionStep, ...] = ()

    @property
    def sends_direct(self) -> bool:
        """Whether it sends by GPUDirect RDMA."""
        return self.gdr_send != _NOT_DIRECT

    @property
    def receives_direct(self) -> bool:
        """Whether it receives by GPUDirect RDMA."""
        return self.gdr_recv != _NOT_DIRECT


class DomainView(msgspec.Struct, frozen=True, kw_only=True):
    """The view of the ranks in one domain of mutually reachable GPUs; normally there is one."""

    ranks: tuple[int, ...]
    graphs: Graphs = Graphs()
    nets: tuple[NetDecision, ...] = ()
    local_nets: dict[str, tuple[int, ...]] = {}
    """Rank -> the NICs used for channel 0, 1, ..."""
    max_bandwidth_gbs: float | None = None
    total_bandwidth_gbs: float | None = None
    steps: dict[str, tuple[DecisionStep, ...]] = {}
    """Decisions about the view as a whole: "domain", "nvls" or "model" (RCCL), "local_nets"."""


class AlgorithmChoice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The algorithm and protocol for one collective and size."""

    collective: str
    """NCCL's word: "AllReduce", "AllGather", "ReduceScatter", "Broadcast" or "Reduce"."""
    bytes: int
    algorithm: str
    """NCCL's word: TREE, RING, COLLNET_DIRECT, COLLNET_CHAIN, NVLS, NVLS_TREE or PAT."""
    protocol: str
    """NCCL's word: "LL", "LL128" or "SIMPLE"."""
    channels: tuple[int, int]
    """First and last channel."""
    time_us: float
    """By the library's own model, by which it chooses. It counts the channels that the search
    found, also where a variable leaves the call fewer."""
    limited_us: float | None = None
    """The time on the channels that a variable leaves, where they carry less than the model counts
    on (NCCL, rings and trees)."""
    instead: str = ""
    """RCCL: what runs in its place where MSCCL's files are installed, "MSCCL Simple"; not timed."""

    @property
    def expected_us(self) -> float:
        """The time to expect."""
        return self.time_us if self.limited_us is None else self.limited_us


Tuning = dict[str, dict[str, dict[str, tuple[float, float]]]]
"""Collective -> algorithm -> protocol -> (latency us, algorithm bandwidth GB/s)."""


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """All decisions for one communicator under one environment."""

    library: Library
    environment: dict[str, str]
    """Variables that were taken into account, name -> value."""
    pairs: tuple[PairDecision, ...] = ()
    """Every ordered pair of different ranks."""
    views: tuple[DomainView, ...] = ()
    graphs: Graphs = Graphs()
    """The graphs of rank 0's view."""
    choices: tuple[AlgorithmChoice, ...] = ()
    tuning: Tuning = {}
    coll_channels: int | None = None
    """The library's count after doubling and limits: "coll channels" of its log."""
    nodes: int = 1
    """`nNodes` as the library counts: a split domain counts as a node."""
    ignored: tuple[tuple[str, str, str], ...] = ()
    """(name, value, why) of variables that are set and have no effect as written."""
    failure: str | None = None
    """Why initialisation would fail, in one sentence; None when it would not."""
    assumptions: tuple[str, ...] = ()

    @property
    def hosts(self) -> int:
        """Identical hosts that the communicator spans; the views are those of one."""
        return max(1, self.nodes // max(1, len(self.views)))

    @property
    def ranks(self) -> int:
        """Ranks on all hosts."""
        return self.hosts * sum(len(view.ranks) for view in self.views)

    @property
    def by_nvls_alone(self) -> bool:
        """Whether NVLS is chosen although no pair uses P2P: nobody knows whether such a job runs.

        With `NO_NVLS` the same is predicted without it.
        """
        chosen = any(choice.algorithm.startswith("NVLS") for choice in self.choices)
        p2p = any(pair.transport == "P2P" for pair in self.pairs)
        return chosen and bool(self.pairs) and not p2p

    def pair(self, src: int, dst: int) -> PairDecision | None:
        """The decision for one ordered pair of ranks."""
        return next((p for p in self.pairs if p.src == src and p.dst == dst), None)
