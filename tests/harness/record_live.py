"""Records a node of two GPUs through a job, kills the recorder, and looks whether all is there.

    python -m tests.harness.record_live [--out FOLDER] [--torch PYTHON] [--seconds 12]

`gputop record` runs at 1 Hz; beside it another process reads alike and keeps nothing, so that the
difference is what recording costs. A torchrun job starts and ends; then the recorder gets SIGKILL.
What has to be seen in the file: the job's start, its traffic, its end, and every second up to the
kill. Printed: bytes an hour, CPU of both, how long opening and jumping takes. Takes a minute; exit
code 1 where something is not seen.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from gputop.topology.recorded.sessions.frames import HEAD, WHOLE
from gputop.topology.recorded.sessions.session_file import SessionFile, clock
from tests.support.places import ROOT

IDLE_SECONDS, AFTER_SECONDS, JOB_SECONDS = 6.0, 5.0, 90.0
BUSY_BYTES = 1e9
"""A second over NVLink, or PCIe where the GPUs have no other way."""
MOST_CORE, MOST_HOUR = 0.005, 2e6
"""What a recorder may take beyond reading, and bytes of 8 GPUs in an hour."""
READS = """
import time
from gputop.topology.sources.live import LiveFeed
feed = LiveFeed(interval=1.0)
due = time.monotonic()
while True:
    feed.snapshot()
    due += 1.0
    time.sleep(max(due - time.monotonic(), 0.0))
"""
JOB = """
import os, time, torch, torch.distributed as dist
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
data = torch.ones(64 << 20, device="cuda")
end = time.time() + {seconds}
more = torch.ones(1, device="cuda")
while more.item():
    for _ in range(20):
        dist.all_reduce(data)
    more.fill_(float(time.time() < end))
    dist.broadcast(more, 0)
torch.cuda.synchronize()
dist.destroy_process_group()
"""


def cpu_seconds(pid: int) -> float:
    """CPU that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_job(python: str, folder: Path, seconds: float) -> tuple[float, float]:
    """When a job of two ranks began and ended. Raises SystemExit where it fails."""
    (program := folder / "job.py").write_text(JOB.format(seconds=seconds))
    command = [python, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    begun = time.time()
    done = subprocess.run(
        [*command, "--master-port", "29761", str(program)], timeout=JOB_SECONDS, check=False
    )
    if done.returncode:
        raise SystemExit(f"the job failed with {done.returncode}")
    return begun, time.time()


def traffic(session: SessionFile, begun: float, ended: float) -> float:
    """The most that a GPU sent over its links, or PCIe, from one time to another."""
    names = ("nvlink_tx_bytes_per_second", "pcie_tx_bytes_per_second")
    return max(
        (
            reading[name] or 0.0
            for one in session.readings()
            if begun <= one.at <= ended
            for reading in one.tree["readings"]["gpus"]
            for name in names
        ),
        default=0.0,
    )


def costs(session: SessionFile) -> dict[str, float]:
    """Bytes an hour with a whole reading every ten minutes; seconds that a jump takes."""
    frames = session.frames
    sizes = [HEAD.size + length for length in frames.lengths]
    later = [size for size, flags in zip(sizes, frames.flags, strict=True) if not flags & WHOLE]
    whole = max(size for size, flags in zip(sizes, frames.flags, strict=True) if flags & WHOLE)
    hour = sum(later) / max(len(later), 1) * 3600
    jumps = []
    for frame in (len(session) - 1, 0, len(session) // 2):
        begun = time.perf_counter()
        session.snapshot(frame)
        jumps.append(time.perf_counter() - begun)
    return {"bytes_an_hour": hour + 6 * whole, "whole_bytes": whole, "jump_seconds": max(jumps)}


def looked_at(path: Path, begun: float, ended: float, killed: float) -> tuple[dict[str, Any], bool]:
    """What is in the file of what has to be there."""
    opening = time.perf_counter()
    session = SessionFile(path)
    opened = time.perf_counter() - opening
    notes = [(one.at, one.note) for one in session.notes()]
    for at, note in notes:
        print(f"  {clock(at)} {note.kind:<9} {note.text}")
    came = [at for at, note in notes if note.kind == "process" and " began " in note.text]
    went = [at for at, note in notes if note.kind == "process" and " ended " in note.text]
    gaps = [later - one for one, later in zip(session.times, session.times[1:], strict=False)]
    idle, busy = traffic(session, 0.0, begun), traffic(session, begun, ended)
    seen = {
        "start": bool(came) and begun <= min(came) <= ended,
        "end": bool(went) and begun < max(went) <= killed,
        "traffic": busy > max(BUSY_BYTES, 10 * idle),
        "last_second": killed - session.last < 2.0,
        "every_second": max(gaps, default=0.0) < 2.5,
    }
    figures = {
        "readings": len(session),
        "seconds_before_the_kill": round(killed - session.last, 2),
        "longest_gap_seconds": round(max(gaps, default=0.0), 2),
        "idle_gbs": round(idle / 1e9, 3),
        "busy_gbs": round(busy / 1e9, 1),
        "open_seconds": round(opened, 4),
        "odd": session.remarks(),
        **costs(session),
    }
    return {"seen": seen, **figures}, all(seen.values())


def main() -> int:
    """Record, kill, look."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=Path("record-live"))
    parser.add_argument("--torch", default=sys.executable, help="a Python that has torch")
    parser.add_argument("--seconds", type=float, default=12.0, help="how long the job computes")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    path = asked.out.resolve() / "live.gtrec"
    path.unlink(missing_ok=True)
    gputop = [sys.executable, "-m", "gputop"]
    recorder = subprocess.Popen([*gputop, "record", "-o", str(path)], cwd=ROOT)
    reader = subprocess.Popen([sys.executable, "-c", READS], cwd=ROOT)
    try:
        time.sleep(IDLE_SECONDS)
        before = cpu_seconds(recorder.pid), cpu_seconds(reader.pid), time.monotonic()
        begun, ended = run_job(asked.torch, asked.out, asked.seconds)
        time.sleep(AFTER_SECONDS)
        spent = time.monotonic() - before[2]
        cpu = cpu_seconds(recorder.pid) - before[0], cpu_seconds(reader.pid) - before[1]
        os.kill(recorder.pid, signal.SIGKILL)
        killed = time.time()
        recorder.wait()
    finally:
        for process in (recorder, reader):
            process.kill()
            process.wait()
    found, well = looked_at(path, begun, ended, killed)
    for name, value in found.items():
        print(f"{name:>24}: {value}")
    more = (cpu[0] - cpu[1]) / spent
    print(f"CPU of a core: recorder {cpu[0] / spent:.2%}, reading alone {cpu[1] / spent:.2%}, "
          f"more {more:.2%} (at most {MOST_CORE:.1%})")  # fmt: skip
    at = str(round((begun + ended) / 2, 1))
    for command in (["replay", str(path), "--list"],
                    ["replay", str(path), "--export", str(asked.out / "live.csv")],
                    ["replay", str(path), "--export", str(asked.out / "live.json")],
                    ["-1", "--from", str(path), "--at", at]):  # fmt: skip
        print(f"$ gputop {' '.join(command)}", flush=True)
        well = subprocess.run([*gputop, *command], cwd=ROOT, check=False).returncode == 0 and well
    well = well and more < MOST_CORE and found["bytes_an_hour"] < MOST_HOUR
    print("all is seen" if well else "NOT all is as it should be")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
