"""What a log says of one communicator. Bandwidths GB/s, one way; lines count from 1."""

import msgspec

from ...model.severity import Word

PathCell = tuple[int, float, str]
"""Hops, GB/s and path type, as printed: (2, 370.8, "NVL")."""


class Proof(msgspec.Struct, frozen=True):
    """One line of the log."""

    line: int
    text: str
    """The line without the marks of launchers; at most 400 characters."""


class LoggedState(Word):
    """How far a rank came with its communicator, by its last line about that."""

    STARTED = "started"
    READY = "ready"
    DESTROYED = "destroyed"
    ABORTED = "aborted"


STARTED, READY, DESTROYED, ABORTED = LoggedState


class RankSeen(msgspec.Struct, kw_only=True):
    """One rank of a communicator. It grows while the log is read, and is fixed afterwards."""

    rank: int
    host: str | None = None
    pid: int | None = None
    cuda_dev: int | None = None
    nvml_dev: int | None = None
    bus_id: str | None = None
    """PCI address, "0000:00:06.0"."""
    local_rank: int | None = None
    state: LoggedState = STARTED
    seconds: float | None = None
    """Duration of the initialisation."""
    line: int | None = None
    """The line that introduces it."""
    ready: int | None = None
    """The first line that says that it is ready."""
    left: int | None = None
    """The line that says that it destroyed or aborted the communicator."""


class Transport(msgspec.Struct, frozen=True, kw_only=True):
    """How one ordered pair of ranks is connected; equal lines of several channels count as one."""

    src: int
    dst: int
    label: str
    """What follows `via`: "P2P/CUMEM", "NET/IB/0/GDRDMA"."""
    connection: int = 0
    """0 for rings and trees, 1 for send/receive."""
    direction: str | None = None
    """NCCL's word for the side that printed it, "send" or "receive"; None where it names none."""
    channels: tuple[int, ...] = ()
    line: int
    text: str
    host: str | None = None
    """The host that printed the line, where it names one."""


class LoggedGraph(msgspec.Struct, frozen=True, kw_only=True):
    """One outcome of the graph search (a `Pattern` line and its rows)."""

    pattern: int
    cross_nic: int
    channels: int
    """The number of channels before the library doubles them."""
    bw_intra: float
    bw_inter: float
    type_intra: str
    type_inter: str
    same_channels: int
    rows: tuple[tuple[str, ...], ...] = ()
    """The nodes of each channel in order: "GPU/0-60", "NET/0-0"."""
    ranks: tuple[int, ...] = ()
    """Ranks that printed it."""
    line: int


NVL, XGMI, PCI, LOC, C2C = "NVL", "XGMI", "PCI", "LOC", "C2C"
"""The library's words for links."""


class LoggedLink(msgspec.Struct, frozen=True):
    """One link in the System block."""

    kind: str
    """NCCL's word for what it is: "NVL", "PCI"."""
    gbs: float
    to: str

    @property
    def nvlink(self) -> bool:
        """Whether it is an NVLink, or what an AMD GPU has for that."""
        return self.kind in (NVL, XGMI)

    @property
    def pci(self) -> bool:
        """Whether it is one of PCIe."""
        return self.kind == PCI


class LoggedNode(msgspec.Struct, frozen=True, kw_only=True):
    """One node of the System block."""

    name: str
    """"GPU/0-60"."""
    detail: str = ""
    """The text in parentheses: rank of a GPU, arch/vendor/model of a CPU."""
    parent: str | None = None
    """The node that it hangs under; None for a CPU."""
    links: tuple[LoggedLink, ...] = ()
    line: int


class LoggedSystem(msgspec.Struct, frozen=True, kw_only=True):
    """A `=== System` block and the path table after it."""

    max_bandwidth_gbs: float
    total_bandwidth_gbs: float
    nodes: tuple[LoggedNode, ...] = ()
    paths: dict[str, dict[str, PathCell]] = {}
    """From node -> to node -> path."""
    ranks: tuple[int, ...] = ()
    """Ranks that printed it."""
    complete: bool = False
    """Whether the log has the last line of the block."""
    line: int


class LoggedRing(msgspec.Struct, frozen=True, kw_only=True):
    """The order of ranks of some channels."""

    order: tuple[int, ...]
    channels: tuple[int, ...]
    line: int


class TreeNode(msgspec.Struct, frozen=True, kw_only=True):
    """A rank's place in the trees of some channels; -1 is none."""

    rank: int
    parent: int
    children: tuple[int, ...]
    channels: tuple[int, ...]


class Neighbours(msgspec.Struct, frozen=True, kw_only=True):
    """A rank's neighbours in the rings of some channels."""

    rank: int
    before: int
    after: int
    channels: tuple[int, ...]


class LoggedChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Algorithm and protocol of one collective and size."""

    collective: str
    bytes: int
    algorithm: str
    protocol: str
    channels: tuple[int, int] | None = None
    """First and last channel; None where the version does not print them."""
    count: int = 1
    line: int


class P2pType(msgspec.Struct, frozen=True, kw_only=True):
    """The `Check P2P Type` line."""

    all_direct: bool
    """Whether every local pair uses P2P under the level in force."""
    direct_mode: bool
    """Whether some ranks share a process."""
    all_cuda: bool | None
    """Whether CUDA could do P2P between every pair at any level; None where it is not said."""
    line: int


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """The `coll channels` line."""

    coll: int
    collnet: int
    nvls: int
    p2p: int
    p2p_per_peer: int
    line: int


Tuning = dict[str, dict[str, dict[str, tuple[float, float]]]]
"""Collective -> algorithm -> protocol -> (latency us, algorithm bandwidth GB/s), as printed."""


class Communicator(msgspec.Struct, frozen=True, kw_only=True):
    """One communicator with everything that its ranks said."""

    ident: str
    """commId in hexadecimal, or "parent/split/color" of a split one."""
    line: int
    nranks: int
    size_seen_only: bool = False
    """No line gives the size: `nranks` is the highest rank seen plus one; there may be more."""
    nodes: int | None = None
    local_ranks: int | None = None
    mnnvl: bool | None = None
    shape: Proof | None = None
    """The line that counts nodes and local ranks."""
    parent: str | None = None
    ranks: tuple[RankSeen, ...] = ()
    transports: tuple[Transport, ...] = ()
    graphs: tuple[LoggedGraph, ...] = ()
    systems: tuple[LoggedSystem, ...] = ()
    rings: tuple[LoggedRing, ...] = ()
    neighbours: tuple[Neighbours, ...] = ()
    trees: tuple[TreeNode, ...] = ()
    counts: Counts | None = None
    p2p_type: P2pType | None = None
    tuning: Tuning = {}
    tuning_line: int | None = None
    choices: tuple[LoggedChoice, ...] = ()
    network: str | None = None
    use_pxn: bool | None = None
    use_gdr: bool | None = None

    def rank(self, number: int) -> RankSeen | None:
        """Find the rank with that number; None when the log does not introduce it."""
        return next((rank for rank in self.ranks if rank.rank == number), None)

    def labels(self, src: int, dst: int) -> tuple[str, ...]:
        """The labels of an ordered pair, each once; those of rings and trees come first."""
        return self.all_labels((src, dst)).get((src, dst), ())

    def all_labels(self, *only: tuple[int, int]) -> dict[tuple[int, int], tuple[str, ...]]:
        """The same of every ordered pair, or of these; one pass, as there may be many pairs."""
        found = [
            transport
            for transport in self.transports
            if not only or (transport.src, transport.dst) in only
        ]
        found.sort(key=lambda transport: (transport.connection, transport.line))
        labels: dict[tuple[int, int], dict[str, None]] = {}
        for transport in found:
            labels.setdefault((transport.src, transport.dst), {})[transport.label] = None
        return {pair: tuple(labels[pair]) for pair in sorted(labels)}

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts of its ranks, in order of rank."""
        return tuple(dict.fromkeys(rank.host for rank in self.ranks if rank.host is not None))
