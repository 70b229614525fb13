"""The quantities of the network between nodes."""

from ...protocol.quantity import RANKS, Quantity

SEND_RECEIVE = Quantity(
    "net_send_receive", "send and receive between nodes", per=RANKS,
    counted="bytes that one node sends, one way",
)  # fmt: skip
LATENCY = Quantity(
    "net_latency", "half a round trip of 8 bytes", unit="us", per=RANKS, more_is_better=False
)
ALL_REDUCE = Quantity(
    "net_all_reduce_busbw", "all-reduce over nodes", per=RANKS, headline=True,
    counted="bytes of one rank's buffer x 2(n-1)/n",
)  # fmt: skip
ALL_TO_ALL = Quantity(
    "net_all_to_all_busbw", "all-to-all over nodes", per=RANKS,
    counted="bytes of all ranks' parts together x (n-1)/n",
)  # fmt: skip
VERBS = Quantity(
    "net_ib_write_bw", "ib_write_bw between nodes", per=RANKS,
    counted="bytes written into the other host's memory, one way",
)  # fmt: skip
"""What perftest says, without a GPU and without NCCL."""
QUANTITIES = (ALL_REDUCE, SEND_RECEIVE, LATENCY, ALL_TO_ALL, VERBS)
