"""The quantities of NCCL or RCCL itself, and what its debug log says."""

from ...protocol.quantity import DEVICE, PAIR, RANKS, Quantity

_BROKEN = ("wrong-data", "failed", "timed-out")

COMMUNICATOR = Quantity(
    "communicator_init",
    "communicator init",
    unit="s",
    per=DEVICE,
    more_is_better=False,
    in_check=True,
)
FINISHES = Quantity(
    "collective_finishes",
    "collective finishes",
    unit="",
    per=RANKS,
    broken=_BROKEN,
    in_check=True,
)
ALGBW = Quantity("all_reduce_algbw", "all reduce algbw", per=RANKS, over_sizes=True, in_check=True)
BUSBW = Quantity(
    "all_reduce_busbw", "all reduce", per=RANKS, over_sizes=True, headline=True, in_check=True
)
SEND_RECEIVE = Quantity(
    "send_receive",
    "send receive",
    per=PAIR,
    heading="send and receive, compared, GB/s: row sends, column receives",
    broken=_BROKEN,
    on_pairs=None,
)
TRANSPORT = Quantity("transport", "transport", unit="", per=PAIR, in_check=True)
"""A word from the debug log; the app reads it from the log itself."""
QUANTITIES = (COMMUNICATOR, FINISHES, ALGBW, BUSBW, SEND_RECEIVE, TRANSPORT)
