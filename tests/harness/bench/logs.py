"""What `gputop log` and `--from` cost on long texts, each in a process of its own.

    python -m tests.harness.bench.logs
    python -m tests.harness.bench.logs --only unknown --runs 5

The texts are made in a temporary folder: logs from the recordings of the tests, each copy with
process ids and addresses of its own, and text that holds nothing from the words of ordinary logs.
Prints the least seconds of a core (user and system) of some runs, the memory, and the limits of
both. Not a test: run it by hand, on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import gzip
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import count, cycle
from pathlib import Path
from typing import NamedTuple

from tests.support.places import ROOT

from .measuring import Cost, of_command

MB = 1_000_000
RECORDINGS = ROOT / "tests" / "recordings"
DULL = (
    "step", "epoch", "loss", "lr", "tokens", "batch", "loaded", "saved", "checkpoint", "dataset",
    "worker", "iteration", "validation", "model", "layer", "optimizer", "gradient", "norm",
    "memory", "allocated", "reserved", "elapsed", "seconds", "samples", "the", "of", "with", "done",
    "shard",
)  # fmt: skip
OURS = (
    "NCCL", "CUDA", "HIP", "torch", "GPU", "cuda", "nccl", "NVLink", "ProcessGroup", "mlx5_0",
    "RCCL", "ROCm", "c10d",
)  # fmt: skip
_PID = re.compile(rb"^[\w.-]+:(\d+):\d+ \[", re.MULTILINE)
_ADDRESS = re.compile(rb"\b0x[0-9a-f]{6,16}\b")


class Text(NamedTuple):
    """A text to be read, and what that may cost."""

    name: str
    command: tuple[str, ...]
    size: int
    pieces: Callable[[], Iterator[bytes]]
    most_seconds: float
    most_mib: float


def unknown(prefix: str = "", words: tuple[str, ...] = ()) -> Iterator[bytes]:
    """Lines that no program of ours prints: no two are equal; each has one of `words`, if any."""
    random_of = random.Random(7)
    ours = cycle(words)
    for step in count():
        said = random_of.choices(DULL, k=8)
        said.insert(random_of.randrange(8), str(step))
        said.insert(random_of.randrange(8), f"{random_of.random() * 100:.4f}")
        if words:
            said.insert(random_of.randrange(8), next(ours))
        moment = f"2026-11-22 10:{step // 60 % 60:02}:{step % 60:02}"
        yield f"{prefix}{moment} {' '.join(said)}\n".encode()


def jobs(*, pure: bool) -> Iterator[bytes]:
    """One job after another; `pure`: long ones, and the library's lines alone."""
    if pure:
        files = [gzip.decompress((RECORDINGS / "nccl-probe/4-gpus-default.log.gz").read_bytes())]
        files = [b"".join(line for line in files[0].splitlines(True) if b" NCCL INFO " in line)]
    else:
        files = [path.read_bytes() for path in sorted(RECORDINGS.glob("real-faults/*.txt"))]
    for number, text in enumerate(cycle(files)):
        yield _of_its_own(text, number)


def _of_its_own(text: bytes, number: int) -> bytes:
    """The same job with other process ids and other addresses."""
    pids = {pid: b"%d" % (int(pid) + 40 * number) for pid in _PID.findall(text)}
    known = re.compile(rb"\b(?:" + b"|".join(pids) + rb")\b") if pids else re.compile(rb"$^")
    text = known.sub(lambda found: pids[found[0]], text)
    return _ADDRESS.sub(lambda found: b"0x%x" % (int(found[0], 16) + 4096 * number), text)


NODE = ("topo", "--from")
TEXTS = (
    Text("unknown", ("log",), 50 * MB, unknown, 5, 100),
    Text("unknown, [rank0]:", ("log",), 50 * MB, lambda: unknown("[rank0]: "), 5, 100),
    Text("unknown, words of ours", ("log",), 50 * MB, lambda: unknown(words=OURS), 5, 100),
    Text("NCCL alone", ("log",), 200 * MB, lambda: jobs(pure=True), 10, 100),
    Text("short jobs", ("log",), 200 * MB, lambda: jobs(pure=False), 10, 100),
    Text("unknown, --from", NODE, 50 * MB, unknown, 5, 150),
)


def main() -> int:
    """Measure what is asked for; 1 where something is over its limit."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.harness.bench.logs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", help="only what has this in its name")
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    over = 0
    print(f"{'':26}{'size':>8}{'CPU':>9}{'limit':>7}{'memory':>11}{'limit':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for text in TEXTS:
            if given.only in text.name:
                over += not _measured(text, Path(folder), given.runs)
    return 1 if over else 0


def _measured(text: Text, folder: Path, runs: int) -> bool:
    """Print one row; whether it is within its limits."""
    path = folder / "text.log"
    with path.open("wb") as file:
        size = 0
        for piece in text.pieces():
            size += file.write(piece)
            if size >= text.size:
                break
    costs: list[Cost] = [of_command((*text.command, str(path))) for _ in range(runs)]
    seconds, mib = min(cost.seconds for cost in costs), max(cost.mib for cost in costs)
    kept = seconds <= text.most_seconds and mib <= text.most_mib
    print(
        f"{text.name:26}{size / MB:5.0f} MB{seconds:7.2f} s{text.most_seconds:5.0f} s"
        f"{mib:7.0f} MiB{text.most_mib:7.0f}{'' if kept else '  over'}",
        flush=True,
    )
    return kept


if __name__ == "__main__":
    sys.exit(main())
