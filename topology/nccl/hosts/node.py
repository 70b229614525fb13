"""One node of a communicator: the graphs and NICs of its host, its ranks moved to their place."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ..prediction import DomainView, NetDecision, SearchGraph
from .records import ChannelEnd

PLAIN_TREE = 3
"""A tree that receives from both children on one GPU (include/graph.h:NCCL_TOPO_PATTERN_TREE)."""
SPLIT_TREE = 2


def nic_name(net: NetDecision) -> str:
    """The name of a NIC, or its number where the source has no name."""
    return net.name or f"NIC {net.net}"


@dataclass(frozen=True, eq=False)
class HostView:
    """One domain of a host as every host of its kind has it."""

    view: DomainView
    places: Mapping[int, int]
    """Rank of each GPU of the host, in whichever domain -> its place among them."""
    assumed: str = ""
    """The name of a NIC that is taken for granted because the source names none."""
    switched: bool = False
    """All its GPUs hang on NVSwitches."""

    @cached_property
    def nets(self) -> dict[tuple[int, int], NetDecision]:
        """The decisions about NICs, by rank and number of the NIC."""
        return {(net.rank, net.net): net for net in self.view.nets}

    @cached_property
    def names(self) -> dict[int, str]:
        """Names of the NICs by number."""
        return {net.net: nic_name(net) for net in self.view.nets}

    @cached_property
    def _ports(self) -> dict[tuple[int, int, int, bool], ChannelEnd]:
        return {}

    def graph(self, name: str) -> SearchGraph | None:
        """The graph "ring", "tree" or "nvls"."""
        found: SearchGraph | None = getattr(self.view.graphs, name)
        return found

    def net_of(self, graph: SearchGraph, channel: int, rank: int) -> int | None:
        """The NIC by which a rank uses a channel (graph/search.cc:ncclTopoGetNetDev).

        The first GPU of the order has the first NIC, whoever else the second.
        """
        if channel >= len(graph.nets):
            return None
        return graph.nets[channel][0 if graph.orders[channel][0] == rank else 1]

    def port(self, graph: SearchGraph, channel: int, rank: int, *, sends: bool) -> ChannelEnd:
        """The end of a connection, as on the first host; equal hosts ask for the same ones."""
        key = graph.pattern, channel, rank, sends
        found = self._ports.get(key)
        if found is None:
            found = self._ports[key] = self._port(graph, channel, rank, sends)
        return found

    def _port(self, graph: SearchGraph, channel: int, rank: int, sends: bool) -> ChannelEnd:
        number = self.net_of(graph, channel, rank)
        net = None if number is None else self.nets.get((rank, number))
        if number is None or net is None:
            place = self.places[rank]
            return ChannelEnd(
                rank=place, nic=self.names.get(number or 0, self.assumed), path="", gdr=None
            )
        return ChannelEnd(
            rank=self.places[rank],
            nic=self.names[number],
            path=(net.to if sends else net.back)[2],
            gdr=(net.gdr_send if sends else net.gdr_recv) != "Disabled",
            relay=self.places[net.pxn_rank] if sends and net.pxn_rank >= 0 else None,
        )


def moved(port: ChannelEnd, first_rank: int) -> ChannelEnd:
    """The same end on another host."""
    relay = None if port.relay is None else port.relay + first_rank
    return ChannelEnd(
        rank=port.rank + first_rank, nic=port.nic, path=port.path, gdr=port.gdr, relay=relay
    )


@dataclass(frozen=True, eq=False)
class JobNode:
    """A node in its place: its GPUs have the ranks from `first_rank` on."""

    host: int
    first_rank: int
    kind: HostView

    def port(self, graph: SearchGraph, channel: int, rank: int, *, sends: bool) -> ChannelEnd:
        """The end of a connection of the rank, which is counted on its own host."""
        return moved(self.kind.port(graph, channel, rank, sends=sends), self.first_rank)

    def rank(self, rank: int) -> int:
        """The rank in the job of what is a rank on its own host."""
        return self.first_rank + self.kind.places[rank]

    def up_rank(self, tree: SearchGraph, channel: int) -> int:
        """The rank that talks with the parent node (graph/connect.cc:ncclTopoPreset)."""
        return tree.orders[channel][0]

    def down_rank(self, tree: SearchGraph, channel: int, *, second: bool) -> int:
        """The rank that talks with the first or the second child node."""
        order = tree.orders[channel]
        if tree.pattern == PLAIN_TREE or (second and tree.pattern != SPLIT_TREE):
            return order[0]
        return order[min(1, len(order) - 1)]
