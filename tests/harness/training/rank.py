"""One rank: `torchrun --nproc-per-node 2 -m tests.harness.training.rank PLAN OUT`.

PLAN is a JSON list of runs; rank 0 adds a JSON line for each to OUT as soon as it is done. The
figures are those of the slower, or the fuller, rank.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from .kernels import shares
from .layouts import MAKERS, Step
from .llama import torch
from .plans import TrainingRun, shape_of

WARM_UP, STEPS, LEAST, PROFILED = 3, 10, 4, 2
MOST_SECONDS = 3.0
"""Of the timed steps of one run; never fewer steps than LEAST."""
PROFILES = not os.environ.get("TRAINING_NO_PROFILE")
SMALL_TEST = bool(os.environ.get("TRAINING_ON_CPU"))

dist: Any = import_module("torch.distributed")


class Worker:
    """A rank with its device."""

    def __init__(self) -> None:
        self.rank, self.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        if SMALL_TEST:
            self.device = torch.device("cpu")
            dist.init_process_group("gloo")
        else:
            torch.cuda.set_device(self.rank)
            self.device = torch.device("cuda", self.rank)
            dist.init_process_group("nccl", device_id=self.device)

    def measured(self, run: TrainingRun) -> dict[str, Any]:
        """Train a few steps. Raises what PyTorch raises."""
        torch.manual_seed(0)
        self._reset()
        step = MAKERS[run.layout](shape_of(run.shape), run.batch, self.device)
        for _ in range(WARM_UP):
            step()
        self._wait()
        self._reset()
        began = time.perf_counter()
        self._timed(step, 1)
        once = self._agreed(time.perf_counter() - began)
        count = int(max(LEAST, min(STEPS, MOST_SECONDS / max(once, 1e-6))))
        seconds = self._timed(step, count)
        peak = 0 if SMALL_TEST else torch.cuda.max_memory_allocated()
        reserved = 0 if SMALL_TEST else torch.cuda.max_memory_reserved()
        found = {
            "step_s": self._agreed(median(seconds)),
            "fastest_s": self._agreed(min(seconds)),
            "slowest_s": self._agreed(max(seconds)),
            "steps": count,
            "peak_bytes": int(self._agreed(peak)),
            "reserved_bytes": int(self._agreed(reserved)),
            "peak_bytes_of_ranks": [int(value) for value in self._each(peak)],
        }
        if SMALL_TEST or not PROFILES:
            return found
        profiled = self._profiled(step)
        of_ranks = [self._each(profiled[name]) for name in profiled]
        return found | {"profile_of_ranks": dict(zip(profiled, of_ranks, strict=True))}

    def _reset(self) -> None:
        gc.collect()
        if not SMALL_TEST:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def _wait(self) -> None:
        if not SMALL_TEST:
            torch.cuda.synchronize()

    def _timed(self, step: Step, count: int) -> list[float]:
        """Seconds of each step, waited for at its end."""
        found = []
        for _ in range(count):
            began = time.perf_counter()
            step()
            self._wait()
            found.append(time.perf_counter() - began)
        return found

    def _profiled(self, step: Step) -> dict[str, float]:
        profiler: Any = import_module("torch.profiler")
        with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
            self._timed(step, PROFILED)
        kernels = [
            (event.time_range.start, event.time_range.end, event.name)
            for event in profile.events()
            if "CUDA" in str(event.device_type) and not event.name.startswith("Optimizer")
        ]
        return shares(kernels, PROFILED)

    def _each(self, value: float) -> list[float]:
        mine = torch.tensor([value], dtype=torch.float64, device=self.device)
        found = [torch.empty_like(mine) for _ in range(self.ranks)]
        dist.all_gather(found, mine)
        return [float(one) for one in found]

    def _agreed(self, value: float) -> float:
        """The largest of all ranks."""
        return max(self._each(value))


def main(plan: str, out: str) -> None:
    worker = Worker()
    for document in json.loads(Path(plan).read_text(encoding="utf-8")):
        run = TrainingRun(**document)
        found = worker.measured(run)
        if worker.rank == 0:
            with open(out, "a", encoding="utf-8") as lines:
                lines.write(json.dumps(run.document() | found) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
