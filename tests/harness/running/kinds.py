"""The jobs: what each does, and what is right to say of it."""

from __future__ import annotations

from typing import NamedTuple


class RunningJob(NamedTuple):
    """One kind of job."""

    does: str
    """What is special about it."""
    says: str = ""
    """What the sentence has to hold; "" for a job of which nobody may be accused."""
    rank: int | None = None
    """The rank that is late."""
    hangs: bool = False
    variables: tuple[tuple[str, str], ...] = ()
    """More of its ranks' environment."""


KINDS: dict[str, RunningJob] = {
    "ddp": RunningJob("eight layers of 4096 x 4096 under DDP"),
    "fsdp": RunningJob("the same layers, sharded"),
    "tp": RunningJob("tensor parallelism by hand: products as large as the all-reduces"),
    "pp": RunningJob("a pipeline of four and twelve layers"),
    "accum": RunningJob("gradients summed over eight micro-steps"),
    "eval0": RunningJob("rank 0 evaluates for 4 s after every 250 steps"),
    "ckpt0": RunningJob("rank 0 writes 6 GB after every 250 steps"),
    "cpu10": RunningJob("rank 1 spins 10 ms a step", "keeps a core busy", 1),
    "cpu50": RunningJob("rank 1 spins 50 ms a step", "keeps a core busy", 1),
    "gpu1.3": RunningJob("rank 1 computes 1.3 times as much", "computes for longer than all;", 1),
    "gpu5": RunningJob("rank 1 computes five times as much", "computes for longer than all;", 1),
    "loader30": RunningJob("rank 1 sleeps 30 ms a step", "sleeps by a timer", 1),
    "lockslow": RunningJob("rank 1 takes a lock that another holds often", "a lock on a file", 1),
    "lock": RunningJob("rank 1 takes a lock that another keeps", "a lock on a file", 1, hangs=True),
    "crossed": RunningJob("one all-reduces, one broadcasts", "in another order", 0, hangs=True),
    "othergpu": RunningJob("another program computes on GPU1", "another program is on its GPU", 1),
    "busycore": RunningJob("rank 1 shares its core with a loop", "waits for a CPU", 1),
    "p2poff": RunningJob(
        "no P2P", "NCCL_P2P_DISABLE=1 is set", variables=(("NCCL_P2P_DISABLE", "1"),)
    ),
    "tplaunch": RunningJob("tensor parallelism of tiny products", "starting kernels"),
}
SAME_WORK = ("p2poff", "othergpu")
"""These do what `ddp` does; what is wrong with them is around them."""
