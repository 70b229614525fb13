"""Twenty runs that went well, recorded or in the words that programs print."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from gputop.topology.logs.reading.read import read_log
from gputop.topology.logs.report.milestones import PROGRESS
from tests.support.places import RECORDINGS, ROOT

START = tuple(
    f"n1:{7 + rank}:9 [{rank}] NCCL INFO ncclCommInitRank comm 0x{rank}a rank {rank} nranks 2 "
    f"cudaDev {rank} nvmlDev {rank} busId {rank + 6}0 commId 0xc - Init START"
    for rank in (0, 1)
)
READY = tuple(line.replace("START", "COMPLETE") for line in START)
ROW = "     1048576        262144     float     sum      -1    50.1   20.93   36.63      0"
RECORDED = (
    *(
        RECORDINGS / "real-faults" / f"{name}.txt"
        for name in (
            "healthy", "healthy_bench", "slow_start", "buffsize_both", "topo_other_machine",
            "tuner_missing", "family_ipv6", "p2p_off",
        )
    ),
    RECORDINGS / "nccl-public" / "a100-2.log",
    ROOT / "tests/threads/pytorch-73790-iommu-hang/twin.txt",
    ROOT / "tests/threads/pyxis-116-no-mpi/material.txt",
)  # fmt: skip
MADE = {
    "nccl-tests": (ROW, ROW, "# Avg bus bandwidth    : 33.3227"),
    "Transformers": (
        "{'loss': 1.4, 'grad_norm': 0.3, 'learning_rate': 1e-5, 'epoch': 0.1}",
        " 33%|###  | 1/3 [00:01<00:02,  1.0it/s]",
        "{'train_runtime': 61.2, 'train_samples_per_second': 4.2, 'epoch': 3.0}",
    ),
    "Megatron-LM": (
        " iteration       10/     100 | consumed samples: 40 | lm loss: 9.1E+00 |",
        " iteration       20/     100 | consumed samples: 80 | lm loss: 8.7E+00 |",
    ),
    "DeepSpeed": (
        "[INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[1e-05]",
        "[INFO] [launch.py:351:main] Process 4711 exits successfully.",
        "[INFO] [launch.py:351:main] Process 4712 exits successfully.",
    ),
    "vLLM": (
        "(APIServer pid=7) INFO:     Application startup complete.",
        '(APIServer pid=7) INFO:     10.0.0.1:7 - "POST /v1/completions HTTP/1.1" 200 OK',
    ),
    "SGLang": (
        "[2026-11-22 09:00:00] The server is fired up and ready to roll!",
        "[2026-11-22 09:00:09 TP0] Decode batch. #running-req: 1, gen throughput (token/s): 120.1",
    ),
    "Slurm": ("step 40 | loss 2.1", "Job 4711 completed successfully"),
    "a test": ("training step 4, loss=0.7", "============ 4 passed in 61.20s ============"),
    "rccl-tests": (ROW, ROW, "# Avg bus bandwidth    : 33.3227"),
}
RCCL = "n1:7:9 [0] NCCL INFO RCCL version : 2.22.3-HEAD:d380693 HIP version : 6.4.43482"
_PREFIX = re.compile(rb"^(?:\S+ +\| )?\S+:\d+:\d+ \[\d+\] (?=NCCL INFO)", re.MULTILINE)
_READY = re.compile(rb"Init COMPLETE")
_ENDS = re.compile(rb"Destroy COMPLETE")


@dataclass(frozen=True)
class Run:
    """The lines of a run, how its library begins a line, and where a warning may stand."""

    lines: tuple[bytes, ...]
    prefix: bytes
    places: tuple[int, ...]
    """Before the first line, before and behind the first ready rank, before the last progress
    or, without any, before the first communicator is destroyed."""

    def with_warnings(self, *texts: bytes, at: int) -> list[bytes]:
        """The lines with warnings ("file.cc:12 NCCL WARN ...") before the line of a number."""
        return [*self.lines[:at], *(self.prefix + text for text in texts), *self.lines[at:]]


@cache
def runs() -> dict[str, Run]:
    """The runs by their names."""
    found = {
        f"{path.parent.name}/{path.name}": _run(path.read_bytes().splitlines()) for path in RECORDED
    }
    for name, lines in MADE.items():
        head = (RCCL,) if name == "rccl-tests" else ()
        found[name] = _run([line.encode() for line in (*head, *START, *READY, *lines)])
    return found


def _run(lines: list[bytes]) -> Run:
    begins = _PREFIX.search(b"\n".join(lines))
    reached = [one.lines[-1] for one in read_log(lines).milestones if one.what in PROGRESS]
    ends = [at for at, line in enumerate(lines, 1) if _ENDS.search(line)]
    last = max(reached, default=0) or ends[0]
    ready = next((at for at, line in enumerate(lines) if _READY.search(line)), 0)
    places = (0, ready, min(ready + 2, last - 1), last - 1)
    return Run(tuple(lines), begins.group() if begins else b"n1:7:9 [0] ", tuple(sorted({*places})))
