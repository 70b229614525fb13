"""One rank: `torchrun --nproc-per-node 2 job.py KIND FOLDER`.

It says that it has imported PyTorch (`ready0`), waits for the file `GO`, writes when each step
ended until it is killed, and profiles ten steps once there is a file `PROFILE`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

WIDTH, ROWS, LAYERS = 4096, 4096, 8
STUCK_AT, ALONE_EVERY, PROFILED = 200, 250, 10

torch: Any = import_module("torch")
dist: Any = import_module("torch.distributed")
Step = Callable[[int], None]


def spin(seconds: float) -> None:
    """Keep the core busy."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


class Rank:
    """What one rank does in each step."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder, self.rank = kind, folder, int(os.environ["RANK"])
        torch.cuda.set_device(self.rank)
        self.device = torch.device("cuda", self.rank)
        dist.init_process_group("nccl", device_id=self.device)
        torch.manual_seed(0)
        self.rows = self.random(ROWS, WIDTH)
        self.square = self.random(2 * WIDTH, 2 * WIDTH)
        self.model: Any = None
        self.products = 0
        makers = {
            "fsdp": self._sharded,
            "pp": self._pipeline,
            "tp": self._parallel,
            "tplaunch": self._tiny,
        }
        self.step: Step = makers.get(kind, self._replicated)()

    def random(self, *shape: int, scale: float = 1.0) -> Any:
        return torch.randn(*shape, device=self.device, dtype=torch.bfloat16) * scale

    def layers(self, count: int) -> Any:
        nn = torch.nn
        made = ((nn.Linear(WIDTH, WIDTH, bias=False), nn.GELU()) for _ in range(count))
        parts = [part for pair in made for part in pair]
        return nn.Sequential(*parts).to(self.device, torch.bfloat16)

    def backward(self, rows: Any) -> None:
        self.model(rows).float().square().mean().backward()

    def update(self) -> None:
        """Plain gradient descent: torch.optim would import half of PyTorch."""
        with torch.no_grad():
            changed = [one for one in self.model.parameters() if one.grad is not None]
            torch._foreach_add_(changed, [one.grad for one in changed], alpha=-1e-6)
            for one in changed:
                one.grad = None

    def _replicated(self) -> Step:
        self.model = torch.nn.parallel.DistributedDataParallel(
            self.layers(LAYERS), device_ids=[self.rank]
        )
        if self.kind in ("gpu1.3", "gpu5") and self.rank == 1:
            self.products = self._products(0.3 if self.kind == "gpu1.3" else 4.0)
        late: dict[str, Step] = {
            "cpu10": lambda _: spin(0.010),
            "cpu50": lambda _: spin(0.050),
            "busycore": lambda _: spin(0.004),
            "loader30": lambda _: time.sleep(0.030),
            "lockslow": lambda _: self._take_lock(),
            "lock": lambda number: self._take_lock() if number == STUCK_AT else None,
            "gpu1.3": lambda _: self._multiply(self.products),
            "gpu5": lambda _: self._multiply(self.products),
        }
        if self.kind == "busycore" and self.rank == 1:
            os.sched_setaffinity(0, {5})
        before = late.get(self.kind) if self.rank == 1 else None
        alone = {"eval0": self._evaluate, "ckpt0": self._write}.get(self.kind)

        def step(number: int) -> None:
            if before is not None:
                before(number)
            if self.kind == "crossed" and number == STUCK_AT:
                self._cross()
            for _ in range(7 if self.kind == "accum" else 0):
                with self.model.no_sync():
                    self.backward(self.rows)
            self.backward(self.rows)
            self.update()
            if alone is not None and number and number % ALONE_EVERY == 0:
                if self.rank == 0:
                    alone()
                dist.barrier()

        return step

    def _multiply(self, count: int) -> None:
        for _ in range(count):
            torch.mm(self.square, self.square)

    def _products(self, share: float) -> int:
        """How many products take this share of a step."""

        def seconds(work: Callable[[], object], count: int) -> float:
            work()
            torch.cuda.synchronize()
            begun = time.perf_counter()
            for _ in range(count):
                work()
            torch.cuda.synchronize()
            return (time.perf_counter() - begun) / count

        def alone() -> None:
            with self.model.no_sync():
                self.backward(self.rows)

        seconds(alone, 5)
        return max(1, round(share * seconds(alone, 20) / seconds(lambda: self._multiply(1), 20)))

    def _take_lock(self) -> None:
        with (self.folder / "lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)

    def _cross(self) -> None:
        given = torch.ones(1 << 20, device=self.device)
        if self.rank == 0:
            dist.all_reduce(given)
        else:
            dist.broadcast(given, 0)

    def _evaluate(self) -> None:
        end = time.time() + 4
        with torch.no_grad():
            while time.time() < end:
                self.model.module(self.rows)
                torch.cuda.synchronize()

    def _write(self) -> None:
        for _ in range(3):
            torch.save([self.square.float() for _ in range(8)], self.folder / "checkpoint")

    def _sharded(self) -> Step:
        shard = import_module("torch.distributed.fsdp").fully_shard
        self.model = self.layers(LAYERS)
        for part in self.model:
            if isinstance(part, torch.nn.Linear):
                shard(part)
        shard(self.model)

        def step(_: int) -> None:
            self.backward(self.rows)
            for one in self.model.parameters():
                one.grad = None

        return step

    def _pipeline(self) -> Step:
        self.model = self.layers(4 if self.rank == 0 else 12)

        def first() -> None:
            out = self.model(self.rows)
            dist.send(out.detach(), 1)
            back = torch.empty_like(out)
            dist.recv(back, 1)
            out.backward(back)

        def last() -> None:
            rows = torch.empty_like(self.rows)
            dist.recv(rows, 0)
            rows.requires_grad_()
            self.backward(rows)
            dist.send(rows.grad, 0)

        def step(_: int) -> None:
            for _micro in range(4):
                (first if self.rank == 0 else last)()
            self.update()

        return step

    def _parallel(self) -> Step:
        ups = [self.random(WIDTH, 2 * WIDTH, scale=0.01) for _ in range(LAYERS)]
        downs = [self.random(2 * WIDTH, WIDTH, scale=0.01) for _ in range(LAYERS)]

        def step(_: int) -> None:
            rows = self.rows
            for up, down in zip(ups, downs):  # noqa: B905 - both have LAYERS
                rows = torch.relu(rows @ up) @ down
                dist.all_reduce(rows)
                rows = rows * 0.01

        return step

    def _tiny(self) -> Step:
        few = self.random(32, 1024)
        squares = [self.random(1024, 1024, scale=0.01) for _ in range(16)]

        def step(_: int) -> None:
            rows = few
            for square in squares * 8:
                rows = (torch.relu(rows @ square) + few) * 0.5
                dist.all_reduce(rows)

        return step

    def profile(self, number: int) -> None:
        """Write the kernels of some steps: begin and end in microseconds, and the name."""
        profiler = import_module("torch.profiler")
        profile = profiler.profile(activities=[profiler.ProfilerActivity.CUDA])
        self.step(number)
        torch.cuda.synchronize()
        profile.start()
        self.step(number)
        dist.barrier()
        torch.cuda.synchronize()
        torch.cumsum(torch.zeros(7, device=self.device), 0)  # what is before it does not count
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(PROFILED):
            self.step(number)
        torch.cuda.synchronize()
        wall = time.perf_counter() - begun
        profile.stop()
        found = [
            (event.time_range.start, event.time_range.end, event.name)
            for event in profile.events()
            if "CUDA" in str(event.device_type)
        ]
        cut = max((end for _, end, name in found if "scan" in name.lower()), default=0)
        kernels = [kernel for kernel in found if kernel[0] >= cut]
        text = json.dumps({"wall": wall, "steps": PROFILED, "kernels": kernels})
        (self.folder / f"profile{self.rank}.json").write_text(text)
        (self.folder / f"profiled{self.rank}").touch()

    def profile_wanted(self) -> bool:
        """Whether both ranks see the file, so that both profile the same steps."""
        seen = torch.tensor([int((self.folder / "PROFILE").exists())], device=self.device)
        dist.all_reduce(seen)
        return bool(seen.item() == 2)


def main() -> None:
    kind, folder, number = sys.argv[1], Path(sys.argv[2]), os.environ["RANK"]
    (folder / f"ready{number}").touch()
    while not (folder / "GO").exists():
        time.sleep(0.02)
    rank, profiled, step = Rank(kind, folder), False, 0
    dist.barrier()
    torch.cuda.synchronize()
    with (folder / f"steps{number}").open("w", buffering=1) as log, contextlib.suppress(OSError):
        while True:
            rank.step(step)
            if step % 2 == 0 or kind == "pp":
                torch.cuda.synchronize()
            log.write(f"{time.time():.4f}\n")
            step += 1
            if step % 20 == 0 and not profiled and rank.profile_wanted():
                rank.profile(step)
                profiled = True


if __name__ == "__main__":
    main()
