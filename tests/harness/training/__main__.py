"""Trains two Llama-like models on two GPUs under five layouts, with P2P on and off.

    python -m tests.harness.training --out measured.json [--seconds 290] [--only tp,pp]

It needs PyTorch and the standard library alone. Each layout is a start of its own, so that one that
fails or hangs costs no other. The document holds a row for each run: seconds of a step (median of
ten), peak memory, and what the profiler saw of computing and of communication.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from .plans import LAYOUTS, SHAPES, TrainingRun, starts

LONGEST = 75.0
"""Seconds of one start."""


def _machine() -> dict[str, Any]:
    torch: Any = import_module("torch")
    nccl = suppress(Exception)
    found: dict[str, Any] = {"torch": torch.__version__, "cuda": torch.version.cuda}
    with nccl:
        found["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    with suppress(RuntimeError, AssertionError):
        found["gpus"] = [torch.cuda.get_device_name(at) for at in range(torch.cuda.device_count())]
    return found


def _start(runs: list[TrainingRun], folder: Path, seconds: float) -> tuple[list[Any], str]:
    """The rows of one start, and why there are not all."""
    plan, out = folder / "plan.json", folder / "out.jsonl"
    plan.write_text(json.dumps([run.document() for run in runs]), encoding="utf-8")
    out.write_text("", encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "NCCL_P2P_DISABLE"}
    if not runs[0].p2p:
        environment["NCCL_P2P_DISABLE"] = "1"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(runs[0].ranks), "-m", "tests.harness.training.rank"]
    with subprocess.Popen(
        [*command, str(plan), str(out)],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            said = process.communicate(timeout=seconds)[1].decode("utf-8", "replace")
            why = "" if process.returncode == 0 else said[-1500:]
        except subprocess.TimeoutExpired:
            # torchrun gives each rank a session of its own.
            subprocess.run(["pkill", "-9", "-f", f"training.rank {plan}"], check=False)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            why = f"not done after {seconds:.0f} s"
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    return rows, why


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=290.0)
    parser.add_argument("--only", default=",".join(LAYOUTS))
    asked = parser.parse_args()
    end = time.monotonic() + asked.seconds
    found: dict[str, Any] = {
        "machine": _machine(),
        "parameters": {shape.name: shape.parameters for shape in SHAPES},
        "runs": [],
        "failures": [],
    }
    with tempfile.TemporaryDirectory() as folder:
        for runs in starts():
            if runs[0].layout not in asked.only.split(","):
                continue
            left = end - time.monotonic()
            began = time.monotonic()
            rows, why = ([], "no time left") if left < 15 else _start(
                runs, Path(folder), min(left, LONGEST)
            )  # fmt: skip
            found["runs"] += rows
            if why:
                keys = [run.key for run in runs[len(rows) :]]
                found["failures"].append({"runs": keys, "why": why})
                print(f"FAILED {keys}: {why}", flush=True)
            for row in rows:
                print(f"{TrainingRun(*(row[k] for k in runs[0].document())).key}: ", end="")
                print(f"{1e3 * row['step_s']:.1f} ms, {row['peak_bytes'] / 1e9:.2f} GB", flush=True)
            print(f"  ({time.monotonic() - began:.1f} s)", flush=True)
            asked.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 1 if found["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
