"""Predictions over many equal hosts; nothing here asks a machine.

One host is searched, and one more for each set of missing NICs: equal hosts are alike.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ...model.snapshot import NodeSnapshot
from ..decide.predict import predict, untuned_of
from ..decide.timing import Hardware, input_of, timing_of
from ..decide.untuned import UntunedDecision
from ..prediction import AlgorithmChoice, DomainView, Graphs, Prediction, SearchGraph
from ..settings import Settings
from ..tuning.channels import kept_channels, nvls_channels
from ..tuning.inputs import TuningInput
from ..tuning.merging import merge
from ..versions import Version
from .bound import bound_of
from .missing import lacking_nics, without_nics
from .node import HostView, JobNode, nic_name
from .rails import aligned, rails
from .records import (
    GdrUse,
    Head,
    HostRing,
    HostTree,
    MultiNode,
    NicLoss,
    NvlsTree,
    NvlsTrees,
    RingStop,
    SendRoute,
    TreePlace,
)
from .spread import Spread, bus_gbs

LIMIT = 1024
"""Hosts; the answer has a line for each of them and channel."""
SOCKET = "eth0"
"""The interface that is assumed where no NIC is named."""

PAIRS = 2
"""The cross_nic of a ring whose channels come in pairs, each leaving by the NIC of the other."""

NONE = -1


class TreePosition(NamedTuple):
    """Where a node stands in one tree: node numbers, -1 for none."""

    parent: int
    children: tuple[int, int]
    """The one below it in number, then the one above; a root has only the second."""
    second: bool
    """Whether it is its parent's second child."""


def binary_tree(count: int, node: int) -> TreePosition:
    """The place of a node among `count` of them: odd numbers are leaves, 0 is the root."""
    low = node & -node
    if node == 0:
        only = 1 << ((count - 1).bit_length() - 1) if count > 1 else NONE
        return TreePosition(NONE, (NONE, only), False)
    parent = (node ^ low) | (low << 1)
    if parent >= count:
        parent = node ^ low
    step = low >> 1
    if not step:
        return TreePosition(parent, (NONE, NONE), node > parent)
    second = step
    while second and node + second >= count:
        second >>= 1
    return TreePosition(parent, (node - step, node + second if second else NONE), node > parent)


def double_tree(count: int) -> tuple[tuple[TreePosition, ...], tuple[TreePosition, ...]]:
    """Both trees over `count` nodes, each a place for every node.

    The second tree is the first one mirrored, for an even count, or shifted by one node, so that
    who is a leaf in one has children in the other.
    """
    first = [binary_tree(count, node) for node in range(count)]
    if count % 2:
        moved = [_renamed(first[node - 1], lambda of: (of + 1) % count) for node in range(count)]
    else:
        moved = [_renamed(place, lambda of: count - 1 - of) for place in reversed(first)]
    return tuple(first), tuple(moved)


def _renamed(place: TreePosition, name: Callable[[int], int]) -> TreePosition:
    below, above = (NONE if child == NONE else name(child) for child in place.children)
    parent = NONE if place.parent == NONE else name(place.parent)
    return TreePosition(parent, (below, above), place.second)


def exchanged(nodes: Sequence[JobNode], version: Version, channels: int) -> frozenset[int]:
    """Nodes that take the other channel of each pair, so that rings stay on their rails."""
    rule = version.ring_exchange
    crossing = [ring.cross_nic for node in nodes if (ring := node.kind.graph("ring")) is not None]
    worst = max(crossing, default=0)
    if rule == "never" or channels % 2 or (rule == "even" and len(nodes) % 2):
        return frozenset()
    if rule in ("even", "crossing") and not worst:
        return frozenset()
    if rule == "pairs" and worst != PAIRS:
        return frozenset()
    return frozenset(
        place
        for place, node in enumerate(nodes)
        if place % 2 and (rule != "own" or _graph(node, "ring").cross_nic == PAIRS)
    )


def rings(nodes: Sequence[JobNode], version: Version, spread: Spread) -> list[HostRing]:
    """One ring for each searched channel, and each copy of one that takes other NICs."""
    others = exchanged(nodes, version, spread.searched)
    found = []
    for (channel, nics), channels in spread.of_rings().items():
        stops = []
        for place, node in enumerate(nodes):
            ring = _graph(node, "ring")
            order = ring.orders[channel ^ 1 if place in others else channel]
            stops.append(
                RingStop(
                    node=place,
                    receives=node.port(ring, nics, order[0], sends=False),
                    sends=node.port(ring, nics, order[-1], sends=True),
                    ranks=tuple([node.rank(rank) for rank in order]),
                )
            )
        found.append(HostRing(channels=channels, stops=tuple(stops)))
    return found


def trees(nodes: Sequence[JobNode], spread: Spread) -> list[HostTree]:
    """Two trees for each searched channel, and for each copy of one that takes other NICs."""
    found = []
    for which, both in enumerate(double_tree(len(nodes))):
        for ways, channels in spread.of_trees(which).items():
            places = tuple(
                _tree_place(nodes, place, both[place], *ways) for place in range(len(nodes))
            )
            found.append(HostTree(channels=channels, places=places))
    return found


def _tree_place(
    nodes: Sequence[JobNode], number: int, place: TreePosition, channel: int, nics: int
) -> TreePlace:
    node = nodes[number]
    tree = _graph(node, "tree")
    down = [
        (child, node.down_rank(tree, channel, second=bool(which)))
        for which, child in enumerate(place.children)
        if child != NONE
    ]
    # A connection carries both ways; what is sent over it is what may take a relay.
    return TreePlace(
        node=number,
        parent=None if place.parent == NONE else place.parent,
        children=tuple(child for child, _ in down),
        up=None
        if place.parent == NONE
        else node.port(tree, nics, node.up_rank(tree, channel), sends=True),
        down=tuple(node.port(tree, nics, rank, sends=True) for _, rank in down),
    )


def nvls_trees(nodes: Sequence[JobNode], channels: int) -> NvlsTrees | None:
    """The trees between the heads; None where a node has no NVLS graph."""
    graphs = [node.kind.graph("nvls") for node in nodes]
    if not channels or any(graph is None or not graph.channels for graph in graphs):
        return None
    heads = [_heads(node, _graph(node, "nvls")) for node in nodes]
    fewest = min(map(len, heads))
    return NvlsTrees(
        trees=tuple(
            NvlsTree(
                channels=tuple(range(which, channels, 2)),
                parents=tuple(None if place.parent == NONE else place.parent for place in tree),
            )
            for which, tree in enumerate(double_tree(len(nodes)))
        ),
        heads=tuple(own[:fewest] for own in heads),
    )


def _heads(node: JobNode, nvls: SearchGraph) -> tuple[Head, ...]:
    """Each head once, with the NICs of all channels that it leads."""
    nics: dict[int, list[str]] = {}
    for channel, order in enumerate(nvls.orders[: nvls.channels]):
        port = node.port(nvls, channel, order[0], sends=False)
        nics.setdefault(order[0], []).append(port.nic)
    return tuple(Head(rank=node.rank(rank), nics=tuple(names)) for rank, names in nics.items())


def _graph(node: JobNode, name: str) -> SearchGraph:
    graph = node.kind.graph(name)
    if graph is None:
        raise ValueError(f"a node without a graph for a {name}")
    return graph


def predict_hosts(
    snapshot: NodeSnapshot,
    settings: Settings | None = None,
    *,
    library: str | None = None,
    gpus: Sequence[str] | None = None,
    hosts: int,
    missing: Sequence[tuple[int, str]] = (),
) -> MultiNode:
    """The prediction for `hosts` hosts like this one, 2 to LIMIT.

    `missing`: (host, NIC) for each NIC that a host lacks. Raises NoGpusError,
    UnknownVersionError, UnknownNicError; ValueError for another number of hosts.
    """
    if not 2 <= hosts <= LIMIT:
        raise ValueError(f"{hosts} hosts: 2 to {LIMIT} can be predicted")
    settings = Settings.of(snapshot) if settings is None else settings
    whole = predict(snapshot, settings, library=library, gpus=gpus, nodes=hosts)
    alone = predict(snapshot, settings, library=library, gpus=gpus)
    untuned = untuned_of(snapshot, settings, library, gpus, hosts)
    known = {nic_name(net) for view in untuned.views for net in view.nets}
    lacking = lacking_nics(known, hosts, missing)
    decisions = {frozenset[str](): untuned}
    for names in dict.fromkeys(lacking.values()):
        # Each is a snapshot of its own, and would take the place of one that is asked for again.
        lacks = without_nics(snapshot, names, fuses=untuned.version.fuses)
        decisions[names] = untuned_of(lacks, settings, library, gpus, hosts)
    made = _EqualHosts(decisions, lacking, hosts, settings)
    assumed = (*made.assumptions(), *_linked(snapshot), *whole.assumptions)
    return made.result(whole, alone.views, tuple(missing), assumed)


def _linked(snapshot: NodeSnapshot) -> Iterator[str]:
    """Hosts of one rack may share an NVLink domain, which changes everything."""
    fabrics = (gpu.fabric for gpu in snapshot.machine.gpus if gpu.fabric is not None)
    if any((fabric.cluster_uuid or "").strip("0-") for fabric in fabrics):
        yield (
            "no NVLink leads from host to host (MNNVL), though the GPUs are in an NVLink cluster "
            "that may hold other hosts"
        )


class _EqualHosts:
    """The nodes of one communicator, in the order of their ranks."""

    def __init__(
        self,
        decisions: dict[frozenset[str], UntunedDecision],
        lacking: dict[int, frozenset[str]],
        hosts: int,
        settings: Settings,
    ) -> None:
        self.hosts, self.lacking, self.settings = hosts, lacking, settings
        self.decisions = decisions
        self.whole = decisions[frozenset()]
        self.kinds = {names: _kinds(untuned) for names, untuned in decisions.items()}
        self.nodes = [
            JobNode(host, host * self.whole.ranks, kind)
            for host in range(hosts)
            for kind in self.kinds[lacking.get(host, frozenset())]
        ]

    @property
    def present(self) -> list[frozenset[str]]:
        """The sets of missing NICs that occur."""
        every = len(self.lacking) == self.hosts
        return [names for names in self.decisions if names or not every]

    def failure(self) -> str | None:
        """Why hosts that differ in their NICs would not start together."""
        for host, names in sorted(self.lacking.items()):
            untuned = self.decisions[names]
            if untuned.failure:
                return f"host {host}: {untuned.failure}"
            if untuned.network.name != self.whole.network.name or untuned.nic_assumed:
                return (
                    f"host {host} has no NIC left for {self.whole.network.name} and would take "
                    f"{untuned.network.name}; hosts with different networks do not connect"
                )
        return None

    def comm(self, graphs: Sequence[Graphs]) -> TuningInput | None:
        """The input of NCCL's tuning model; None for RCCL, which has another."""
        untuned = self.whole
        if untuned.version.is_rccl:
            return None
        return input_of(
            self.hardware(),
            graphs,
            self.settings,
            number=untuned.library.rpartition("-")[2],
            ranks=untuned.ranks * self.hosts,
            nodes=len(self.nodes),
        )

    def result(
        self,
        whole: Prediction,
        alone: tuple[DomainView, ...],
        missing: tuple[tuple[int, str], ...],
        assumptions: tuple[str, ...],
    ) -> MultiNode:
        """The answer; `whole`: with all NICs, `alone`: in a job of one host."""
        untuned, nodes = self.whole, self.nodes
        graphs = [node.kind.view.graphs for node in nodes]
        # Equal nodes are alike: every kind counts once.
        distinct = list({id(one): one for one in graphs}.values())
        merged = merge(distinct)
        comm = self.comm(distinct)
        timing = timing_of(
            self.hardware(),
            distinct,
            untuned.version,
            self.settings,
            asked=untuned.library,
            ranks=untuned.ranks * self.hosts,
            nodes=len(nodes),
        )
        searched = _searched(merged)
        total = 2 * searched if timing.coll_channels is None else timing.coll_channels
        kept = total if comm is None else min(total, kept_channels(comm))
        spread = Spread(searched, total, kept)
        ring_list = rings(nodes, untuned.version, spread)
        tree_list = trees(nodes, spread)
        largest = timing.choices[-1] if timing.choices else None
        ring = merged.ring
        ring_gbs = 0.0 if ring is None else round(searched * ring.bw_inter, 3)
        kinds = [kind for names in self.present for kind in self.kinds[names]]
        failure = whole.failure or self.failure() or timing.failure
        return MultiNode(
            library=whole.library,
            hosts=self.hosts,
            nodes=len(nodes),
            ranks=untuned.ranks * self.hosts,
            network=untuned.network.name,
            gdr=_gdr(ring_list),
            bound=bound_of(
                kinds,
                alone[0] if len(alone) == 1 else None,
                comm,
                largest,
                "host" if len(nodes) == self.hosts else "node",
            ),
            ring_gbs=ring_gbs,
            aligned=aligned(ring_list, tree_list),
            rings=tuple(ring_list),
            trees=tuple(tree_list),
            nvls_trees=nvls_trees(nodes, 0 if comm is None else nvls_channels(comm)),
            rails=rails(self.kinds[frozenset()], ring_list, tree_list, missing),
            send_routes=_routes(untuned, self.kinds[frozenset()]),
            graphs=merged,
            coll_channels=timing.coll_channels,
            choices=timing.choices,
            tuning=timing.tuning,
            failure=failure,
            missing=missing,
            change=self.change(whole, searched, ring_gbs, largest)
            if missing and not failure
            else None,
            assumptions=assumptions,
        )

    def hardware(self) -> Hardware:
        """The figures of the narrowest host."""
        found = [self.decisions[names].hardware for names in self.present]
        speeds = [one.net_gbs for one in found if one.net_gbs is not None]
        return found[0]._replace(net_gbs=min(speeds, default=None))

    def change(
        self,
        whole: Prediction,
        channels: int,
        ring_gbs: float,
        largest: AlgorithmChoice | None,
    ) -> NicLoss:
        """The cost of the missing NICs."""
        before = merge([view.graphs for view in whole.views])
        searched = _searched(before)
        rate = 0.0 if before.ring is None else searched * before.ring.bw_inter
        reduced = None
        if whole.choices and largest is not None:
            ranks = self.whole.ranks * self.hosts
            reduced = bus_gbs(whole.choices[-1], ranks), bus_gbs(largest, ranks)
        return NicLoss(
            ring_channels=(searched, channels),
            ring_gbs=(round(rate, 3), ring_gbs),
            all_reduce_gbs=reduced,
        )

    def assumptions(self) -> Iterator[str]:
        """Assumptions that only several hosts need."""
        yield "all hosts are equal, and ranks count host by host in the order of the launcher"
        if self.whole.nic_assumed:
            yield f"each host has the interface {SOCKET} of 10 Gbit/s"
        else:
            yield "the switches let every NIC reach every other: a job tells, no host can"
        if self.lacking:
            yield "a missing NIC is missing from the start of the job"
        if self.whole.version.is_rccl:
            yield (
                "rings and trees between hosts follow RCCL's source of 2.21.5; no recording of "
                "them was at hand, and where trees keep to one NIC (2.26.6 and later) hosts are "
                "joined otherwise"
            )


def _searched(graphs: Graphs) -> int:
    """Channels that ring and tree have both."""
    return min((one.channels for one in (graphs.ring, graphs.tree) if one is not None), default=0)


def _kinds(untuned: UntunedDecision) -> list[HostView]:
    """The domains of a host in the order in which the library numbers nodes."""
    assumed = SOCKET if untuned.nic_assumed else ""
    # A path over an NVSwitch has two links, or four where each GPU has a node of its own beside it.
    switched = all(pair.path == "NVL" and (pair.hops or 1) % 2 == 0 for pair in untuned.pairs)
    views = sorted(untuned.views, key=lambda view: view.ranks)
    ranks = sorted(rank for view in views for rank in view.ranks)
    places = {rank: place for place, rank in enumerate(ranks)}
    return [HostView(view, places, assumed, switched) for view in views]


def _gdr(found: Sequence[HostRing]) -> GdrUse:
    """Whether the ends of rings use GPUDirect RDMA, sending and receiving."""
    known = {
        port.gdr
        for ring in found
        for stop in ring.stops
        for port in (stop.sends, stop.receives)
        if port.gdr is not None
    }
    if not known:
        return GdrUse.UNKNOWN
    if len(known) == 2:
        return GdrUse.SOME
    return GdrUse.ALL if known == {True} else GdrUse.NONE


def _routes(untuned: UntunedDecision, kinds: Sequence[HostView]) -> tuple[SendRoute, ...]:
    names = {number: name for kind in kinds for number, name in kind.names.items()}
    places = kinds[0].places
    return tuple(
        SendRoute(
            src=places[use.src],
            dst=places[use.dst],
            nic=names.get(use.net, f"NIC {use.net}"),
            relay=None if use.relay < 0 else places[use.relay],
        )
        for use in untuned.sends
    )
