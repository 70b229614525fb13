"""The collectives, and how many bytes of each the busiest rank puts on its link."""

from __future__ import annotations

from ...model import quantities
from ...model.severity import Word


class CollectiveKind(Word):
    """What is done; the size is that of the whole array, of a send that of its message."""

    ALL_REDUCE = "all-reduce"
    ALL_GATHER = "all-gather"
    REDUCE_SCATTER = "reduce-scatter"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    ALL_TO_ALL = "all-to-all"
    """The size is what one rank sends, its own share included."""
    SEND = "send"
    """From the first rank to the second."""
    EXCHANGE = "exchange"
    """Every rank sends to the next one at the same time; the size is that of one message."""
    GATHER = "gather"
    """To the first rank; the size is what it holds at the end."""
    SCATTER = "scatter"
    """From the first rank; the size is what it holds at the start."""


WHOLE = (
    CollectiveKind.BROADCAST, CollectiveKind.REDUCE, CollectiveKind.SEND, CollectiveKind.EXCHANGE,
)  # fmt: skip
"""Collectives that put the whole size on a link."""
QUANTITIES = {
    CollectiveKind.ALL_REDUCE: quantities.ALL_REDUCE,
    CollectiveKind.ALL_GATHER: quantities.ALL_GATHER,
    CollectiveKind.REDUCE_SCATTER: quantities.REDUCE_SCATTER,
    CollectiveKind.BROADCAST: quantities.BROADCAST,
    CollectiveKind.ALL_TO_ALL: quantities.ALL_TO_ALL,
    CollectiveKind.EXCHANGE: quantities.SEND_RECEIVE_ALL,
}
"""Collectives that probes and tables know, by the key of the quantity."""


def bus_share(collective: CollectiveKind, ranks: int) -> float:
    """Bytes on the wire of one rank for each byte of the size, as nccl-tests counts busbw."""
    if collective in WHOLE:
        return 1.0
    return (2.0 if collective is CollectiveKind.ALL_REDUCE else 1.0) * (ranks - 1) / ranks
