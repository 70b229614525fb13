"""The first limit that a large all-reduce over several hosts meets."""

import dataclasses
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from ..prediction import AlgorithmChoice, DomainView, Graphs, NetDecision, SearchGraph
from ..tuning.bandwidths import bandwidth
from ..tuning.inputs import TuningInput
from ..wording import gbs
from .node import HostView
from .records import Bound, MultiNode
from .spread import bus_gbs

FEW, MANY = 1 / 128, 1e6
"""So narrow that no ceiling of the model counts, so wide that it does not count itself."""
ASSUMED_GBS = 1.25
"""Of the interface that is taken for granted where no NIC is named."""
LINKED = ("NVL", "NVB", "XGMI")


def bound_of(
    kinds: Sequence[HostView],
    alone: DomainView | None,
    comm: TuningInput | None,
    choice: AlgorithmChoice | None,
    word: str = "host",
) -> Bound:
    """Compare the NICs of the narrowest node with what joins its GPUs.

    `alone`: the same node in a job of one host, where its rings know no NIC. `comm`: what the
    tuning model looked at for `choice`, the largest all-reduce; None where there is no model.
    `word`: what a node is to the reader.
    """
    narrowest = min(kinds, key=nics_gbs)
    nics, inside = nics_gbs(narrowest), inside_gbs(narrowest, alone)
    ring = narrowest.graph("ring")
    link, count = _link(ring), len(_used(narrowest, ring))
    every = max(1, len(narrowest.names))
    which = f"{count} of {every}" if count < every else f"{count}"
    because = f"{which} NIC{'s' * (every != 1)} a {word}, together {gbs(nics)} GB/s one way"
    crossing, ceiling = nics, None
    if choice is not None and comm is not None:
        ceiling = _ceiling(comm, choice)
    if choice is not None and comm is not None and choice.algorithm == "NVLS_TREE":
        # Only here does the model itself hold links and NICs against each other.
        crossing = round(_figure(comm, choice, MANY, FEW) / FEW, 1)
        inside = round(_figure(comm, choice, FEW, MANY) / FEW, 1)
        because += f"; NVLS trees could do {gbs(crossing)} GB/s bus with them and "
        because += f"{gbs(inside)} GB/s with NVLink, by NCCL's model"
    else:
        tree = choice is not None and choice.algorithm == "TREE"
        if tree and comm is not None and comm.nodes == 2:
            # A ring takes every byte over twice: to be reduced, and back.
            crossing = 2 * nics
            because += ", of which a tree between two hosts needs half as much as a ring"
        if inside is not None:
            because += f"; {link} inside the {word} about {gbs(inside)} GB/s"
    what = "NICs" if inside is None or crossing <= inside else link
    if choice is not None and choice.limited_us is not None:
        first, last = choice.channels
        count = last - first + 1
        what = f"{count} channel{'s' * (count > 1)}"
        because += f"; variables leave {what}"
    return Bound(
        what=what,
        because=because,
        nics_gbs=round(nics, 3),
        inside_gbs=inside,
        ceiling_gbs=ceiling,
    )


def all_reduce_gbs(found: MultiNode) -> tuple[float, float]:
    """The least and the most bus bandwidth of a large all-reduce.

    NCCL's own figure is both. RCCL counts its rings, and others measured more than they: 341 to
    356 GB/s on two hosts of MI300X, 349 to 350 on two to eight of MI325X, 364 to 369 on two of
    MI355X (hisohara/ai-scripts), where it counts 240 to 260 and the NICs carry 400.
    """
    rate = bus_gbs(found.choices[-1], found.ranks) if found.choices else found.ring_gbs
    if not found.library.is_rccl:
        return rate, rate
    return rate, max(rate, found.bound.nics_gbs)


def _link(ring: SearchGraph | None) -> str:
    if ring is None or ring.type_intra not in LINKED:
        return "PCIe"
    return "xGMI" if ring.type_intra == "XGMI" else "NVLink"


def _used(kind: HostView, ring: SearchGraph | None) -> set[int]:
    return set() if ring is None else {number for pair in ring.nets for number in pair}


def nics_gbs(kind: HostView) -> float:
    """The bandwidth of all NICs of its rings, each by the fastest path from a GPU."""
    if kind.assumed:
        return ASSUMED_GBS
    return sum(fastest(kind.view.nets, number) for number in _used(kind, kind.graph("ring")))


def fastest(nets: Iterable[NetDecision], number: int) -> float:
    """The best path from any GPU to a NIC; 0 where none is known."""
    return max((net.to[1] for net in nets if net.net == number), default=0.0)


def inside_gbs(kind: HostView, alone: DomainView | None) -> float | None:
    """The bandwidth of rings inside a host; None for one GPU.

    Behind an NVSwitch it is what a GPU has, less the ends: a GPU that begins or ends a ring there
    uses the NIC instead. Otherwise it is what the rings of the host alone carry.
    """
    view, ring = kind.view, kind.graph("ring")
    if len(view.ranks) < 2 or ring is None:
        return None
    ends = len({order[0] for order in ring.orders})
    if kind.switched and view.total_bandwidth_gbs and ends > 1:
        return round(view.total_bandwidth_gbs * ends / (ends - 1), 1)
    rings = alone.graphs.ring if alone is not None else ring
    return None if rings is None else round(rings.channels * rings.bw_intra, 1)


def _ceiling(comm: TuningInput, choice: AlgorithmChoice) -> float | None:
    """The bus bandwidth that the model grants the algorithm at most, where nothing else counts."""
    most = _figure(comm, choice, MANY, MANY)
    return round(most, 1) if most <= _figure(comm, choice) else None


def _figure(
    comm: TuningInput, choice: AlgorithmChoice, intra: float = 1.0, inter: float = 1.0
) -> float:
    """Bus bandwidth if the links inside or between nodes were that much faster."""
    graphs = comm.graphs

    def scaled(graph: SearchGraph | None) -> SearchGraph | None:
        if graph is None:
            return None
        return replace(graph, bw_intra=graph.bw_intra * intra, bw_inter=graph.bw_inter * inter)

    changed = Graphs(ring=scaled(graphs.ring), tree=scaled(graphs.tree), nvls=scaled(graphs.nvls))
    other = dataclasses.replace(comm, graphs=changed)
    rate = bandwidth(other, choice.collective, choice.algorithm, choice.protocol)
    return rate * 2 * (comm.ranks - 1) / comm.ranks
