"""The quantities of ordered pairs of GPUs."""

from ...protocol.quantity import PAIR, RANKS, OnPairs, Quantity

_ONCE = "bytes copied, once"

ACCESS = Quantity(
    "can_access",
    "driver grants P2P",
    unit="",
    per=PAIR,
    heading="peer access granted by the driver (not a data test)",
    on_pairs=None,
)
ARRIVAL = Quantity(
    "bytes_arrive",
    "data verified",
    unit="",
    per=PAIR,
    heading="data verified: stored by a kernel of the row, read back and compared by the column",
    broken=("wrong-bytes",),
    on_pairs=OnPairs("Data verified", "stored by the source, read back by the owner", 1),
)
WRITE = Quantity(
    "write_bandwidth",
    "write, one way",
    per=PAIR,
    counted=_ONCE,
    heading="one way, GB/s: row writes into the memory of the column",
    main_variant="",
    on_pairs=OnPairs("One way", ", the row writes", 2, signs=True),
    on_map="",
)
READ = Quantity(
    "read_bandwidth",
    "read, one way",
    per=PAIR,
    counted=_ONCE,
    heading="one way, GB/s: row reads out of the memory of the column",
    on_pairs=OnPairs("Read", ", the row reads", 3),
)
BOTH_WAYS = Quantity(
    "both_ways_bandwidth",
    "both ways, each",
    per=PAIR,
    counted=_ONCE,
    heading="both ways at once, GB/s of the direction row to column",
    on_pairs=OnPairs("Both ways", " of this direction while the other runs too", 5),
)
TOGETHER = Quantity(
    "together_bandwidth",
    "total both ways",
    per=PAIR,
    counted=_ONCE,
    heading="both ways at once, both directions added, GB/s",
    on_pairs=OnPairs("Total both ways", ", both directions at once, added", 6),
)
KERNEL_WRITE = Quantity(
    "kernel_write_bandwidth",
    "kernel writes",
    per=PAIR,
    counted=_ONCE,
    heading="a kernel of the row writes into the memory of the column, GB/s",
    on_pairs=OnPairs("Kernel write", ", stores of a kernel of the row, not the copy engine", 4),
)
KERNEL_READ = Quantity(
    "kernel_read_bandwidth",
    "kernel reads",
    per=PAIR,
    counted=_ONCE,
    heading="a kernel of the row reads out of the memory of the column, GB/s",
    on_pairs=None,
)
THROUGH_HOST = Quantity(
    "staged_bandwidth",
    "staged through the host",
    per=PAIR,
    counted=_ONCE,
    heading="through the memory of the host instead, GB/s: row to column",
    on_pairs=OnPairs("Via host", ", through the host's memory, without P2P", 7),
)
SWEEP = Quantity(
    "write_sweep",
    "write by size",
    per=PAIR,
    counted=_ONCE,
    over_sizes=True,
    heading="one way by size of a copy, GB/s, over all pairs",
)
LATENCY = Quantity(
    "latency",
    "latency, small copy",
    unit="us",
    per=PAIR,
    more_is_better=False,
    heading="latency, us",
    on_pairs=OnPairs("Latency", place=8),
)
KERNEL_LATENCY = Quantity(
    "kernel_latency",
    "latency, pointer chase",
    unit="us",
    per=PAIR,
    more_is_better=False,
    counted="one load that the next waits for",
    heading="a kernel of the row chases pointers in the memory of the column, us",
    on_pairs=None,
)
ALONE = (
    ACCESS, ARRIVAL, WRITE, READ, BOTH_WAYS, TOGETHER, KERNEL_WRITE, KERNEL_READ, THROUGH_HOST,
    SWEEP, LATENCY, KERNEL_LATENCY,
)  # fmt: skip
"""Quantities of the probe p2p, in which no other pair copies."""

CONCURRENT = Quantity(
    "concurrent_bandwidth",
    "at once",
    per=PAIR,
    counted=_ONCE,
    heading="copies at once, GB/s: row to column",
    on_pairs=None,
)
CONCURRENT_TOTAL = Quantity(
    "concurrent_total",
    "at once, total",
    per=RANKS,
    counted="bytes copied, once, all pairs added",
    headline=True,
    total_of=CONCURRENT.key,
)
CROWDED = (CONCURRENT, CONCURRENT_TOTAL)
"""Quantities of the probe p2p-concurrent."""
