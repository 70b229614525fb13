"""The steps of the probe nccl, the same list in every rank and in the process that watches them."""

from dataclasses import dataclass

MIB = 1 << 20
_ALL_REDUCE_BYTES = (4 * MIB, 64 * MIB)
_TRANSFER_BYTES = 16 * MIB
_CPU_BYTES = (MIB, 2 * MIB)
"""Of the self-test's all-reduces; its transfers take the first."""


@dataclass(frozen=True)
class Step:
    """One step; ranks that take no part in it go on to the next."""

    kind: str
    """open, init, all-reduce or transfer."""
    what: str
    """In words."""
    size_bytes: int = 0
    src: int = -1
    dst: int = -1
    """Ranks of a transfer."""
    first: bool = False
    """The all-reduce that answers whether a collective finishes."""


def steps(ranks: int, *, cpu: bool) -> "tuple[Step, ...]":
    """All steps of a run with so many ranks, in order; smaller ones for the self-test."""
    sizes, transfer_bytes = _ALL_REDUCE_BYTES, _TRANSFER_BYTES
    if cpu:
        sizes, transfer_bytes = _CPU_BYTES, _CPU_BYTES[0]
    return (
        Step("open", "importing torch, opening the GPUs"),
        Step("init", "initialising the communicator"),
        *(
            Step("all-reduce", f"all-reduce of {size // MIB} MiB", size, first=place == 0)
            for place, size in enumerate(sizes)
        ),
        *(
            Step("transfer", f"rank {src} sends, rank {dst} receives", transfer_bytes, src, dst)
            for src in range(ranks)
            for dst in range(ranks)
            if src != dst
        ),
    )
