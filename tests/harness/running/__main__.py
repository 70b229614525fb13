"""Runs each job on two GPUs, asks `gputop jobs` five times meanwhile, and profiles ten steps.

    python -m tests.harness.running [KIND ...] --out FOLDER [--asks 5] [--record]

A row for each: how many answers held what is right, the longest of them, the step beside that of
`ddp`, the price that was told, and each rank's share of computing and of NCCL by the profiler. The
next job imports PyTorch while one runs. What a wrong answer says and was given stands in FOLDER,
as wrong-KIND-NUMBER.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from .kinds import KINDS, SAME_WORK, RunningJob

HERE = Path(__file__).parent
SETTLED_SECONDS, READY_SECONDS, PROFILE_SECONDS = 8.0, 90.0, 15.0
FIRST_PORT = 29600
PRICE = re.compile(r"takes (?:about|up to) ([\d.]+) times as long|up to ([\d.]+) times as long")
BURN = """
import os, time, torch
while not os.path.exists({go!r}): time.sleep(0.02)
square = torch.randn(8192, 8192, device="cuda:1", dtype=torch.bfloat16)
while True:
    for _ in range(20): square @ square
    torch.cuda.synchronize()
"""
HOLD = """
import fcntl, time
file = open({lock!r})
while True:
    fcntl.flock(file, fcntl.LOCK_EX); time.sleep({seconds})
    fcntl.flock(file, fcntl.LOCK_UN); time.sleep(0.02)
"""


class Asked(NamedTuple):
    """One answer."""

    seconds: float
    text: str

    def right(self, kind: RunningJob) -> bool:
        """Whether it says what it has to."""
        said = " ".join(self.text.split())
        if not kind.says:
            return "✓" in said.split("job.py")[0][-4:]
        named = kind.rank is None or f"rank {kind.rank}" in said
        return kind.says in said and named


class Run:
    """One job with what runs beside it."""

    def __init__(self, name: str, port: int, folder: Path) -> None:
        self.name, self.kind, self.folder = name, KINDS[name], folder / name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        (self.folder / "lock").touch()
        work = "ddp" if name in SAME_WORK else name
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
        torchrun += ["--master-port", str(port), str(HERE / "job.py"), work, str(self.folder)]
        self._own = [self._start(torchrun)]
        if beside := self._beside():
            self._own.append(self._start(beside))

    def _start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        variables = os.environ | {"OMP_NUM_THREADS": "4"} | dict(self.kind.variables)
        out = (self.folder / "output").open("ab")
        return subprocess.Popen(
            command, env=variables, stdout=out, stderr=out, start_new_session=True
        )

    def _beside(self) -> list[str]:
        lock, go = str(self.folder / "lock"), str(self.folder / "GO")
        programs = {
            "othergpu": BURN.format(go=go),
            "lock": HOLD.format(lock=lock, seconds=1e6),
            "lockslow": HOLD.format(lock=lock, seconds=0.04),
        }
        if self.name == "busycore":
            return ["taskset", "-c", "5", "sh", "-c", "while :; do :; done"]
        program = programs.get(self.name)
        return [] if program is None else [sys.executable, "-c", program]

    def go(self) -> bool:
        """Let it begin; whether it makes steps."""
        files = [self.folder / f"ready{rank}" for rank in (0, 1)]
        ready = _wait(lambda: all(file.exists() for file in files), READY_SECONDS)
        (self.folder / "GO").touch()
        return ready and _wait(lambda: len(self.steps(1)) > 10, READY_SECONDS)

    def steps(self, rank: int) -> list[float]:
        """When each step ended."""
        with suppress(OSError):
            return [float(line) for line in (self.folder / f"steps{rank}").read_text().split()[:-1]]
        return []

    def step_ms(self, begin: float, end: float) -> float | None:
        """The mean of its steps between two moments; None where it made none."""
        ended = [moment for moment in self.steps(0) if begin <= moment <= end]
        gaps = [1000 * (later - earlier) for earlier, later in pairwise(ended)]
        return sum(gaps) / len(gaps) if gaps else None

    def profiled(self) -> list[str]:
        """Of each rank what the profiler sums up: computing and NCCL's rest, in percent."""
        (self.folder / "PROFILE").touch()
        files = [self.folder / f"profiled{rank}" for rank in (0, 1)]
        if not _wait(lambda: all(file.exists() for file in files), PROFILE_SECONDS):
            return []
        return [shares(json.loads((self.folder / f"profile{r}.json").read_text())) for r in (0, 1)]

    def end(self) -> None:
        """Kill it and what runs beside it."""
        subprocess.run(["pkill", "-9", "-f", f"job.py .*{self.folder}$"], check=False)
        for process in self._own:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def shares(profile: dict[str, Any]) -> str:
    """The text "91/6": percent of the time computing, and in NCCL alone."""
    wall = profile["wall"] * 1e6
    kernels = [(begin, end, "nccl" in name.lower()) for begin, end, name in profile["kernels"]]
    computing = _union([(begin, end) for begin, end, ours in kernels if not ours])
    every = _union([(begin, end) for begin, end, _ in kernels])
    return f"{100 * computing / wall:.0f}/{100 * (every - computing) / wall:.0f}"


def _union(spans: Sequence[tuple[float, float]]) -> float:
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(end - max(begin, reached), 0.0)
        reached = max(reached, end)
    return total


def _wait(test: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not (done := test()) and time.monotonic() < end:
        time.sleep(0.05)
    return done


def ask(record: Path) -> Asked:
    """`gputop jobs`, with no option; what it is given is recorded."""
    variables = os.environ | {"RECORD": str(record)}
    begun = time.monotonic()
    command = [sys.executable, "-m", "tests.harness.running.recorder", "jobs"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    return Asked(time.monotonic() - begun, done.stdout)


def row(run: Run, asks: int, record: bool, healthy_ms: float | None) -> tuple[str, float | None]:
    """One row of the table, and the step in milliseconds."""
    begun, told = time.time(), []
    for number in range(asks):
        given = run.folder / f"asked{number}.json"
        told.append(ask(given))
        (run.folder / f"asked{number}.txt").write_text(told[-1].text)
        if not told[-1].right(run.kind):
            with suppress(FileNotFoundError):
                shutil.copy(given, run.folder.parent / f"wrong-{run.name}-{number}.json")
            (run.folder.parent / f"wrong-{run.name}-{number}.txt").write_text(told[-1].text)
        if not record:
            given.unlink(missing_ok=True)
    step = run.step_ms(begun, time.time())
    prices = [
        float(found[1] or found[2]) for one in told if (found := PRICE.search(_flat(one.text)))
    ]
    shown = "" if step is None else f"{step:.1f} ms"
    if step and healthy_ms:
        shown += f", {step / healthy_ms:.1f} times"
    price = f"{median(prices):.2g} times" if prices else "-"
    right = sum(one.right(run.kind) for one in told)
    longest = max(one.seconds for one in told)
    sums = [] if run.kind.hangs else run.profiled()
    profile = ", ".join(f"rank {rank} {text}" for rank, text in enumerate(sums))
    parts = (run.name, f"{right} of {asks}", f"{longest:.2f} s", shown, price, profile)
    return "| " + " | ".join(parts) + " |", step


def _flat(text: str) -> str:
    return " ".join(text.split())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.harness.running")
    parser.add_argument("kinds", nargs="*", metavar="KIND", default=[*KINDS])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--asks", type=int, default=5)
    parser.add_argument(
        "--record", action="store_true", help="keep what `jobs` was given each time"
    )
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # `timeout` must leave no job behind
    runs: list[Run] = []
    try:
        return _asked(given, runs)
    finally:
        for run in runs:
            run.end()


def _asked(given: argparse.Namespace, runs: list[Run]) -> int:
    """Every kind asked and told; `runs` holds what was begun and has not ended."""
    healthy: float | None = None
    wrong = 0
    print("| job | right | longest | step | told | profiler: computing/NCCL |")
    print("| --- | --- | --- | --- | --- | --- |")
    runs.append(Run(given.kinds[0], FIRST_PORT, given.out))
    for place, name in enumerate(given.kinds):
        run, begins = runs[0], runs[0].go()
        if place + 1 < len(given.kinds):
            runs.append(Run(given.kinds[place + 1], FIRST_PORT + place + 1, given.out))
        if begins:
            time.sleep(SETTLED_SECONDS)
            text, step = row(run, given.asks, given.record, healthy)
            healthy = step if name == "ddp" else healthy
            wrong += f"| {given.asks} of {given.asks} |" not in text
        else:
            text, wrong = f"| {name} | did not begin: see {run.folder}/output |", wrong + 1
        print(text, flush=True)
        runs.pop(0).end()
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
