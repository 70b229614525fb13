"""One set of graphs made from those of all views, as the ranks agree on one (init.cc)."""

from collections.abc import Iterable, Sequence

import msgspec

from ..nodes import PathType
from ..prediction import Graphs, SearchGraph


def merge(views: Iterable[Graphs]) -> Graphs:
    """The graphs that every rank tunes with (init.cc:initTransportsRank, after its gathering).

    Fewest channels, lowest bandwidths and worst path types of all; orders and the NIC's latency
    stay those of the first view. A graph that one view lacks is lacking.
    """
    found = tuple(views)
    if not found:
        return Graphs()
    return Graphs(
        ring=merged([view.ring for view in found]),
        tree=merged([view.tree for view in found]),
        nvls=merged([view.nvls for view in found]),
    )


def merged(graphs: Sequence[SearchGraph | None]) -> SearchGraph | None:
    """One graph merged from those of every view."""
    known = [graph for graph in graphs if graph is not None]
    if len(known) < len(graphs) or not known:
        return None
    return msgspec.structs.replace(
        known[0],
        channels=min(graph.channels for graph in known),
        same_channels=min(graph.same_channels for graph in known),
        bw_intra=min(graph.bw_intra for graph in known),
        bw_inter=min(graph.bw_inter for graph in known),
        type_intra=max((graph.type_intra for graph in known), key=nearness),
        type_inter=max((graph.type_inter for graph in known), key=nearness),
        cross_nic=max(graph.cross_nic for graph in known),
        estimate=next((graph.estimate for graph in known if graph.estimate), None),
    )


def nearness(name: str) -> int:
    """Place of a path type, nearest first; an unknown name counts as the farthest."""
    return PathType[name].value if name in PathType.__members__ else PathType.DIS.value
