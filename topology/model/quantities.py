"""The quantities that gputop reasons about, by the keys that snapshots hold.

Probes declare their quantities, with titles and units; this package knows no probe, and names here
the keys that its rules and references ask for. A test compares them with the declarations.
"""

from __future__ import annotations

CAN_ACCESS = "can_access"
"""Whether the driver grants peer access to an ordered pair."""
BYTES_ARRIVE = "bytes_arrive"
"""Whether bytes that a kernel on the source stores arrive in the memory of the destination."""
WRITE = "write_bandwidth"
READ = "read_bandwidth"
BOTH_WAYS = "both_ways_bandwidth"
"""One direction while the other one runs too."""
TOGETHER = "together_bandwidth"
"""The sum of both directions."""
KERNEL_WRITE = "kernel_write_bandwidth"
KERNEL_READ = "kernel_read_bandwidth"
STAGED = "staged_bandwidth"
"""A copy through the memory of the host."""
WRITE_SWEEP = "write_sweep"
LATENCY = "latency"
"""The latency of a small copy."""
KERNEL_LATENCY = "kernel_latency"
"""The latency of one load by a kernel."""
CONCURRENT = "concurrent_bandwidth"
"""The bandwidth of one pair while others copy."""
CONCURRENT_TOTAL = "concurrent_total"

HOST_TO_DEVICE = "h2d_bandwidth"
DEVICE_TO_HOST = "d2h_bandwidth"
MEMORY_COPY = "memory_copy"
MEMORY_READ = "memory_read"
MEMORY_WRITE = "memory_write"
MEMORY_TRIAD = "memory_triad"
GEMM = "gemm"
TRAIN_STEP = "train_step"

ALL_REDUCE = "all_reduce_busbw"
ALL_REDUCE_ALGBW = "all_reduce_algbw"
ALL_GATHER = "all_gather_busbw"
REDUCE_SCATTER = "reduce_scatter_busbw"
ALL_TO_ALL = "all_to_all_busbw"
SEND_RECEIVE_ALL = "send_receive_busbw"
"""Every rank sends to the next rank at the same time."""
BROADCAST = "broadcast_busbw"

COLLECTIVE_FINISHES = "collective_finishes"
SEND_RECEIVE = "send_receive"
"""One ordered pair, with the data compared."""
TRANSPORT = "transport"
"""The transport of an ordered pair according to the library's log, as the verdict."""
