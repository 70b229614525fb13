"""Times every collective on two GPUs or more, alone and two communicators at the same time.

    torchrun --nproc-per-node 2 -m tests.harness.collectives OUT.json [--only NAME ...]

A size is the larger buffer of a rank, as nccl-tests counts it. Of each the mean of a row of calls,
in microseconds, the largest over the ranks. Needs PyTorch and the standard library alone.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

KIB, MIB = 1 << 10, 1 << 20
SIZES = (64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB)
CALLS, LARGE_CALLS, WARM_CALLS = 40, 8, 4
LARGE = 64 * MIB
UNEVEN = 3
"""One rank gets so many times as much of an uneven all-to-all as another."""

torch: Any = import_module("torch")
dist: Any = import_module("torch.distributed")
Call = Callable[[], object]


class Collectives:
    """What one rank calls; all its buffers are bytes."""

    def __init__(self, group: Any = None) -> None:
        self.group = group
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()

    def buffer(self, size: int) -> Any:
        return torch.zeros(max(size, 1) // 2, dtype=torch.bfloat16, device="cuda")

    def parts(self, size: int) -> list[Any]:
        return list(self.buffer(size).chunk(self.ranks))

    def all_reduce(self, size: int) -> Call:
        given = self.buffer(size)
        return lambda: dist.all_reduce(given, group=self.group)

    def all_gather(self, size: int) -> Call:
        whole, part = self.buffer(size), self.buffer(size // self.ranks)
        return lambda: dist.all_gather_into_tensor(whole, part, group=self.group)

    def reduce_scatter(self, size: int) -> Call:
        whole, part = self.buffer(size), self.buffer(size // self.ranks)
        return lambda: dist.reduce_scatter_tensor(part, whole, group=self.group)

    def broadcast(self, size: int) -> Call:
        given = self.buffer(size)
        return lambda: dist.broadcast(given, 0, group=self.group)

    def reduce(self, size: int) -> Call:
        given = self.buffer(size)
        return lambda: dist.reduce(given, 0, group=self.group)

    def all_to_all(self, size: int) -> Call:
        taken, given = self.buffer(size), self.buffer(size)
        return lambda: dist.all_to_all_single(taken, given, group=self.group)

    def uneven_all_to_all(self, size: int) -> Call:
        """Rank 0 gets UNEVEN times as much of everybody as each other rank; `size` is sent."""
        one = size // 2 // (UNEVEN + self.ranks - 1)
        counts = [UNEVEN * one, *[one] * (self.ranks - 1)]
        mine = counts[self.rank]
        given = self.buffer(2 * sum(counts))
        taken = self.buffer(2 * mine * self.ranks)
        return lambda: dist.all_to_all_single(
            taken, given, [mine] * self.ranks, counts, group=self.group
        )

    def gather(self, size: int) -> Call:
        part = self.buffer(size // self.ranks)
        whole = self.parts(size) if self.rank == 0 else None
        return lambda: dist.gather(part, whole, 0, group=self.group)

    def scatter(self, size: int) -> Call:
        part = self.buffer(size // self.ranks)
        whole = self.parts(size) if self.rank == 0 else None
        return lambda: dist.scatter(part, whole, 0, group=self.group)

    def send(self, size: int) -> Call:
        """From rank 0 to rank 1; the others do nothing."""
        given = self.buffer(size)
        if self.rank == 0:
            return lambda: dist.send(given, 1, group=self.group)
        return (lambda: dist.recv(given, 0, group=self.group)) if self.rank == 1 else lambda: None

    def send_both_ways(self, size: int) -> Call:
        """To the next rank and from the one before, in one group of calls."""
        given, taken = self.buffer(size), self.buffer(size)
        after, before = (self.rank + 1) % self.ranks, (self.rank - 1) % self.ranks

        def call() -> None:
            ops = [
                dist.P2POp(dist.isend, given, after, group=self.group),
                dist.P2POp(dist.irecv, taken, before, group=self.group),
            ]
            for work in dist.batch_isend_irecv(ops):
                work.wait()

        return call


NAMES = (
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all",
    "uneven_all_to_all", "gather", "scatter", "send", "send_both_ways",
)  # fmt: skip
TOGETHER = ("all_reduce", "all_to_all", "send_both_ways")
"""Called in two communicators at the same time as well."""


def microseconds(calls: list[Call], size: int) -> float:
    """The mean time of a call in each of these communicators, all at the same time."""
    streams = [torch.cuda.Stream() for _ in calls]
    count = LARGE_CALLS if size >= LARGE else CALLS
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def run(times: int) -> None:
        for _ in range(times):
            for call, stream in zip(calls, streams, strict=True):
                with torch.cuda.stream(stream):
                    call()

    run(WARM_CALLS)
    torch.cuda.synchronize()
    dist.barrier()
    begin.record()
    for stream in streams:
        stream.wait_event(begin)
    run(count)
    for stream in streams:
        torch.cuda.current_stream().wait_stream(stream)
    end.record()
    torch.cuda.synchronize()
    told = torch.tensor([1000 * begin.elapsed_time(end) / count], device="cuda")
    dist.all_reduce(told, op=dist.ReduceOp.MAX)
    return float(round(told.item(), 2))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.harness.collectives")
    parser.add_argument("out")
    parser.add_argument("--only", nargs="*", default=NAMES, choices=NAMES)
    parser.add_argument("--alone", action="store_true", help="no two communicators")
    given = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    first = Collectives()
    second = Collectives(dist.new_group())
    told: dict[str, Any] = {
        "gpu": torch.cuda.get_device_name(),
        "ranks": first.ranks,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        "variables": {k: v for k, v in os.environ.items() if k.startswith("NCCL_")},
        "alone_us": {},
        "two_at_once_us": {},
    }
    for name in given.only:
        for size in SIZES:
            one = getattr(first, name)(size)
            told["alone_us"].setdefault(name, {})[size] = microseconds([one], size)
            if name in TOGETHER and not given.alone:
                both = [one, getattr(second, name)(size)]
                told["two_at_once_us"].setdefault(name, {})[size] = microseconds(both, size)
            torch.cuda.empty_cache()
    if first.rank == 0:
        with open(given.out, "w", encoding="utf-8") as out:
            json.dump(told, out, indent=1)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
