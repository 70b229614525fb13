"""Records of a communicator over many equal hosts. Bandwidths GB/s, one way.

A node is what the library counts as one: a host, or a domain of a host that is split. Nodes, like
ranks, count from 0, host by host.
"""

import msgspec

from ...model.severity import Word
from ...model.versions import Library
from ..prediction import AlgorithmChoice, Graphs, Tuning


class ChannelEnd(msgspec.Struct, frozen=True, kw_only=True):
    """Where the bytes of one channel enter or leave a node."""

    rank: int
    nic: str
    """"" where the library's last resort names none."""
    path: str
    """Path type between the GPU and the NIC; "" where it is not known."""
    gdr: bool | None
    """Whether GPUDirect RDMA is used; None where the NIC is not known."""
    relay: int | None = None
    """Rank of the GPU that hands a send over (PXN); receives never take one."""


class RingStop(msgspec.Struct, frozen=True, kw_only=True):
    """One node on a ring."""

    node: int
    receives: ChannelEnd
    """From the node before it in the ring."""
    sends: ChannelEnd
    ranks: tuple[int, ...]
    """From the one that receives to the one that sends."""


class HostRing(msgspec.Struct, frozen=True, kw_only=True):
    """One ring and the channels that run on it; the last stop sends to the first."""

    channels: tuple[int, ...]
    stops: tuple[RingStop, ...]


class TreePlace(msgspec.Struct, frozen=True, kw_only=True):
    """One node in a tree: it reduces towards its parent, and broadcasts towards its children."""

    node: int
    parent: int | None
    children: tuple[int, ...]
    up: ChannelEnd | None
    """Its side of the connection with its parent; None for the root."""
    down: tuple[ChannelEnd, ...]
    """Its side of the connection with each child."""


class HostTree(msgspec.Struct, frozen=True, kw_only=True):
    """One tree and the channels that run on it."""

    channels: tuple[int, ...]
    places: tuple[TreePlace, ...]


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU that speaks for its node in NVLS trees; head N of a node talks to head N elsewhere."""

    rank: int
    nics: tuple[str, ...]
    """More than one are taken in turn, channel by channel."""


class NvlsTree(msgspec.Struct, frozen=True, kw_only=True):
    """One tree between the nodes; inside each of them NVLink multicast does the work."""

    channels: tuple[int, ...]
    parents: tuple[int | None, ...]
    """Of each node; all heads of a node have their parents there."""


class NvlsTrees(msgspec.Struct, frozen=True, kw_only=True):
    """Both NVLS trees and the heads of each node."""

    trees: tuple[NvlsTree, ...]
    heads: tuple[tuple[Head, ...], ...]


class Rail(msgspec.Struct, frozen=True, kw_only=True):
    """One NIC of every host, by name: what usually hangs on one switch."""

    rail: int
    nic: str
    gbs: float
    """Of the fastest path from a GPU to it, the NIC itself included."""
    ranks: tuple[int, ...]
    """Of host 0: the GPUs that use it for send and receive."""
    ring_channels: tuple[int, ...]
    """Of the rings that leave a node by it."""
    ring_to: tuple[str, ...]
    """NICs at which those rings enter the next node."""
    tree_to: tuple[str, ...]
    """NICs that it reaches in trees, upwards or downwards."""
    missing_on: tuple[int, ...] = ()
    """Hosts without it."""


class SendRoute(msgspec.Struct, frozen=True, kw_only=True):
    """How a send to one GPU of another host leaves this one, on channel 0."""

    src: int
    dst: int
    """Rank on its own host, as if that were host 0."""
    nic: str
    relay: int | None
    """Rank of the GPU next to the NIC that hands it over (PXN)."""


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """The first limit of a large all-reduce."""

    what: str
    """The NICs, or the link that joins the GPUs of a host, by the name of its vendor; "2 channels"
    where variables leave no more."""
    because: str
    nics_gbs: float
    """All NICs of a host that the rings use, one way."""
    inside_gbs: float | None
    """What the links inside a host allow; None on a host of one GPU."""
    ceiling_gbs: float | None
    """Bus bandwidth that the library's model grants at most, where that is what counts."""


class NicLoss(msgspec.Struct, frozen=True, kw_only=True):
    """The same hosts with all their NICs, for comparison with those that lack some."""

    ring_channels: tuple[int, int]
    """Searched channels with all NICs, and here."""
    ring_gbs: tuple[float, float]
    """What all rings carry between nodes."""
    all_reduce_gbs: tuple[float, float] | None
    """Bus bandwidth of an all-reduce of 1 GiB by the library's model; None where there is none."""


class GdrUse(Word):
    """How many ends of rings use GPUDirect RDMA; unknown where no NIC is known."""

    ALL = "all"
    SOME = "some"
    NONE = "none"
    UNKNOWN = "unknown"


class MultiNode(msgspec.Struct, frozen=True, kw_only=True):
    """The prediction over `hosts` equal hosts."""

    library: Library
    hosts: int
    nodes: int
    """As the library counts them: hosts, times the domains of each."""
    ranks: int
    network: str
    """The plugin by the name that logs print: "IB", "Socket"."""
    gdr: GdrUse
    """GPUDirect RDMA where rings cross."""
    bound: Bound
    ring_gbs: float
    """What all rings carry between two nodes."""
    aligned: bool
    """Whether rings and trees join NICs of one name only."""
    rings: tuple[HostRing, ...]
    trees: tuple[HostTree, ...]
    nvls_trees: NvlsTrees | None
    rails: tuple[Rail, ...]
    send_routes: tuple[SendRoute, ...]
    graphs: Graphs
    """Of node 0, with the figures that all nodes agree on."""
    coll_channels: int | None
    choices: tuple[AlgorithmChoice, ...]
    tuning: Tuning
    failure: str | None
    missing: tuple[tuple[int, str], ...] = ()
    """(host, NIC) that was left out."""
    change: NicLoss | None = None
    """What the missing NICs cost; None where none is missing."""
    assumptions: tuple[str, ...] = ()
