"""ib_write_bw of perftest between two nodes, where it is installed and somebody asked for it.

One node serves on a port of its own, the other connects to it by the first one's name, and both end
after one measurement of two seconds. It writes host memory without a GPU and without NCCL, so that
it tells a cable from a library.
"""

import os
import shutil
import subprocess
import time
from typing import Any, Optional

from ...protocol.plaintext import one_line
from ...runner.lifeline import die_with_parent

PROGRAM = "ib_write_bw"
PORT = 18515
"""perftest's own default; each rail takes the next."""
_SECONDS = 2
_LONGEST_SECONDS = 20.0
_TRIES = 20
_PAUSE_SECONDS = 0.25
"""A server takes a moment until it listens."""


def command_of(nic: str, rail: int, server: str = "") -> "list[str]":
    """The command line of one side; `server`: the other's name, "" for the side that serves."""
    seconds, port = str(_SECONDS), str(PORT + rail)
    words = [PROGRAM, "-d", nic, "-p", port, "-D", seconds, "-F", "--report_gbits"]
    return [*words, server] if server else words


def average_gbs(text: str) -> Optional[float]:
    """The average in perftest's table, GB/s (10^9 bytes); None where there is no row."""
    for line in reversed(text.splitlines()):
        words = line.split()
        try:
            numbers = [float(word) for word in words]
        except ValueError:
            continue
        if len(numbers) >= 4 and numbers[3] > 0:
            return numbers[3] / 8
    return None


def start(words: "list[str]") -> "subprocess.Popen[str]":
    """Start one side, which ends with this process."""
    parent = os.getpid()
    return subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", preexec_fn=lambda: die_with_parent(parent),
    )  # fmt: skip


def lack(nic: str) -> str:
    """Why this node cannot take part; "" if it can."""
    if shutil.which(PROGRAM) is None:
        return f"{PROGRAM} is not installed"
    return "" if nic else "no RDMA device is known for this rail"


def ended(process: "subprocess.Popen[str]") -> "tuple[int, str]":
    """Exit code and output, in limited time."""
    try:
        text, _ = process.communicate(timeout=_LONGEST_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        text, _ = process.communicate()
    return process.returncode, text or ""


def written(nic: str, rail: int, server: str) -> "dict[str, Any]":
    """Connect and measure: {"gbs"} or {"why"}."""
    text = ""
    for _ in range(_TRIES):
        code, text = ended(start(command_of(nic, rail, server)))
        found = average_gbs(text) if code == 0 else None
        if found is not None:
            return {"gbs": found}
        if "connect" not in text.lower():
            break
        time.sleep(_PAUSE_SECONDS)
    lines = [line for line in text.splitlines() if line.strip()]
    return {"why": one_line(lines[-1] if lines else "it printed nothing", 200)}
