"""The way that a group of GPUs takes: its own links, the slots, the host's memory or the network.

What takes P2P away (a variable, a refusal by the driver, the distance) is in the library's
decisions, so the way is read off these alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from ..model.severity import Word
from ..nccl.prediction import P2P, PairDecision, Prediction

PCIE_TYPES = ("PIX", "PXB", "PHB", "SYS")
"""Types of a ring whose hops go over PCIe."""
SOCKET = "Socket"
"""In the label of a pair that goes by TCP."""


class TakenWay(Word):
    """What the slowest hop goes over."""

    LINKS = "links"
    """NVLink or xGMI."""
    PCIE = "PCIe"
    """From GPU to GPU."""
    HOST = "host memory"
    NETWORK = "network"
    """NICs or sockets, although both GPUs are in this host."""


def way_of_rings(made: Prediction) -> TakenWay:
    """The way of collectives that go by rings."""
    ring = made.graphs.ring
    if made.nodes > 1:  # rings cross from one group of the host to another
        return TakenWay.NETWORK
    pairs = {(pair.src, pair.dst): pair for pair in made.pairs}
    orders = () if ring is None else ring.orders
    hops = [
        pairs[hop] for order in orders for hop in pairwise([*order, *order[:1]]) if hop in pairs
    ]
    return _way(hops or made.pairs, made)


def way_of_pairs(made: Prediction) -> TakenWay:
    """The way of collectives in which every pair talks."""
    return _way(made.pairs, made)


def _way(pairs: Iterable[PairDecision], made: Prediction) -> TakenWay:
    used = list(pairs)
    if any(pair.by_net for pair in used):
        return TakenWay.NETWORK
    if any(pair.transport != P2P for pair in used):
        return TakenWay.HOST
    ring = made.graphs.ring
    return TakenWay.PCIE if ring is not None and ring.type_intra in PCIE_TYPES else TakenWay.LINKS


def by_sockets(made: Prediction) -> bool:
    """Whether some pair goes by TCP."""
    return any(SOCKET in label for pair in made.pairs for label in (pair.label, *pair.labels))
