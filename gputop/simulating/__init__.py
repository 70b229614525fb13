"""Probes of a demo: figures from what this hardware should give and from the demo's faults.

Nothing is measured. `NAMES` lists the probes that can be simulated, one file each with `steps`;
`suite` runs them as a real suite would, and every figure says that it is simulated.
"""

NAMES = ("host", "memory", "p2p", "p2p-concurrent", "gemm", "collectives")
"""A probe without a reference (first use, training steps, NCCL's own log) is not simulated: nothing
in the project says what it should find."""
