"""What NCCL's own code connects (tests/recordings/nccl-hosts), and graphs for it."""

from __future__ import annotations

import gzip
import json
from functools import cache
from typing import Any

from gputop.topology.nccl.hosts.node import HostView, JobNode
from gputop.topology.nccl.prediction import DomainView, Graphs, SearchGraph
from tests.support.places import RECORDINGS


@cache
def recording(name: str) -> Any:
    """One of the recordings, read once."""
    path = RECORDINGS / "nccl-hosts" / f"{name}.json.gz"
    return json.loads(gzip.decompress(path.read_bytes()))


def graph(
    pattern: int, orders: list[list[int]], cross_nic: int = 0, gbs: float = 24.0
) -> SearchGraph:
    """A graph whose channels have a NIC for each end: 2 c and 2 c + 1."""
    return SearchGraph(
        pattern=pattern,
        channels=len(orders),
        bw_intra=gbs,
        bw_inter=gbs,
        type_intra="NVL",
        type_inter="PIX",
        same_channels=0,
        cross_nic=cross_nic,
        orders=tuple(map(tuple, orders)),
        nets=tuple((2 * channel, 2 * channel + 1) for channel in range(len(orders))),
    )


def host(case: dict[str, Any]) -> HostView:
    """A host of a recorded case."""
    ranks = tuple(range(len(case["ring"][0])))
    heads = [[head] for head in case["heads"]]
    graphs = Graphs(
        ring=graph(4, case["ring"], case["cross_nic"], case["bw_intra"]),
        tree=graph(case["pattern"], case["tree"]),
        nvls=graph(5, heads) if heads else None,
    )
    view = DomainView(ranks=ranks, graphs=graphs)
    return HostView(view, dict(enumerate(ranks)))


def nodes_of(case: dict[str, Any]) -> list[JobNode]:
    """All hosts of a recorded case in their order."""
    kinds = [host(kind) for kind in case["kinds"]]
    each = len(kinds[0].view.ranks)
    return [JobNode(place, place * each, kinds[kind]) for place, kind in enumerate(case["nodes"])]
