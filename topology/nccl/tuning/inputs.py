"""The input of the tuning model, and single precision, in which it computes."""

from dataclasses import dataclass, field
from functools import cached_property

from ..prediction import Graphs, SearchGraph
from ..rounding import single
from ..settings import Settings
from .version import TreePatterns, TuningVersion, tuning_version

NOTHING = SearchGraph(
    pattern=0,
    channels=0,
    bw_intra=0.0,
    bw_inter=0.0,
    type_intra="LOC",
    type_inter="LOC",
    same_channels=0,
    cross_nic=0,
)
"""A graph that was not searched: NCCL leaves zeros."""

TREE_PATTERN = 3
"""A tree that is neither balanced nor split."""


@dataclass(frozen=True, kw_only=True)
class TuningInput:
    """One communicator, as graph/tuning.cc:ncclTopoTuneModel sees it."""

    graphs: Graphs
    """Merged over all views (`merge` in merging.py)."""
    ranks: int
    nodes: int = 1
    """`nNodes`: a split domain counts as a node."""
    min_sm: int
    """Lowest compute capability x10 of the topology."""
    max_sm: int
    device_sm: int | None = None
    """What the driver says of every GPU, where the topology file says something else.

    The search reads the file's `sm`; tuning, channel counts and NVLS ask the device
    (`cudaCompCap` in init.cc:fillInfo). None: both say the same.
    """
    cpu_arch: str = "x86"
    """NCCL's word: "x86", "power", "arm" or "mixed"."""
    cpu_vendor: str = "intel"
    """NCCL's word: intel, amd, zhaoxin or mixed, of the first CPU node of each rank's view."""
    net_latency_us: float | None = None
    """Of the NIC, added to each step across nodes; None: as the graphs say."""
    net_gbs: float | None = None
    """Slowest NIC; 2.30 sizes NVLS by it on several nodes. None is unknown."""
    collnet: bool = False
    """A CollNet plugin takes part; its graphs are not modelled, so this is False so far."""
    nvls: bool = True
    """NVLink multicast works and is not switched off."""
    tree_patterns: tuple[int, ...] = ()
    """Patterns of the trees of all views; empty: the one in `graphs`."""
    local_ranks: int | None = None
    """Ranks on the largest node; None: evenly spread."""
    library: str = "nccl"
    number: str = "2.28.9"
    """The version as it was asked for."""
    settings: Settings = field(default_factory=Settings)
    table: TuningVersion | None = None
    """What is computed with, where that is tried out; None as tuning.toml says of `number`."""

    @cached_property
    def version(self) -> TuningVersion:
        """How version `number` tunes; ValueError for RCCL, which has no table here."""
        found = self.table or tuning_version(self.library, self.number)
        if found is None:
            raise ValueError("there are no tuning rules for RCCL")
        return found

    @property
    def low_sm(self) -> int:
        """The lowest compute capability x10 of the devices."""
        return self.min_sm if self.device_sm is None else self.device_sm

    @property
    def high_sm(self) -> int:
        """The highest compute capability x10 of the devices."""
        return self.max_sm if self.device_sm is None else self.device_sm

    @property
    def per_node(self) -> float:
        """Ranks per node."""
        return single(self.ranks / self.nodes)

    @property
    def most_local(self) -> int:
        """Ranks on the largest node."""
        return self.local_ranks or -(-self.ranks // self.nodes)

    @property
    def uses_nvls(self) -> bool:
        """Whether NVLS takes part: multicast, not switched off, and a graph was found."""
        graph = self.graphs.nvls
        wanted = self.settings.integer("NCCL_NVLS_ENABLE", 2) != 0
        return self.nvls and wanted and graph is not None and graph.channels > 0

    @property
    def searched(self) -> int:
        """Channels of ring and tree, the same for both (init.cc:initTransportsRank)."""
        ring, tree = self.graphs.ring, self.graphs.tree
        return min((graph.channels for graph in (ring, tree) if graph is not None), default=0)

    def graph(self, algorithm: str) -> SearchGraph:
        """The graph that an algorithm runs on, zeros where there is none."""
        graphs = self.graphs
        if algorithm in ("TREE", "PAT"):
            found = graphs.tree
        elif algorithm == "RING":
            found = graphs.ring
        elif algorithm in ("NVLS", "NVLS_TREE"):
            found = graphs.nvls if self.uses_nvls else None
        else:
            found = None
        return found or NOTHING

    def channels(self, algorithm: str) -> int:
        """Searched channels of an algorithm's graph."""
        ring_or_tree = algorithm in ("TREE", "RING", "PAT")
        return self.searched if ring_or_tree else self.graph(algorithm).channels

    def latency_inter(self, algorithm: str) -> float:
        """Latency of the NIC for an algorithm, us."""
        if self.net_latency_us is not None:
            return self.net_latency_us
        return self.graph(algorithm).latency_inter_us

    @property
    def unbalanced_tree(self) -> bool:
        """Whether the tree's pattern costs it 15% (since 2.26 any rank's counts)."""
        if self.version.pattern_of is TreePatterns.NONE:
            return False
        patterns = self.tree_patterns if self.version.pattern_of is TreePatterns.ALL else ()
        return max(patterns or (self.graph("TREE").pattern,)) == TREE_PATTERN
