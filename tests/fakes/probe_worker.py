"""Stands in for the worker of the probes: plays the script in each request.

The script is the request's parameter `script`: a list of steps, each a verb of `VERBS` followed by
what belongs to it. Without a script the worker measures one figure and finishes.
tests/support/worker_scripts.py holds the scripts that tests share.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

HOURS = 3600
"""What hangs does so for longer than any test lasts, and not for ever if a test is killed."""


def say(message: dict[str, Any]) -> None:
    """A message of the protocol."""
    write(json.dumps({"v": 1, **message}) + "\n")


def write(text: str, times: int = 1) -> None:
    """Any bytes, as characters of Latin-1."""
    sys.stdout.buffer.write(text.encode("latin-1") * times)
    sys.stdout.buffer.flush()


def complain(text: str) -> None:
    """A line on the standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def name_itself() -> None:
    """Progress with the process id, which tells one worker from another."""
    say({"kind": "progress", "done": 1, "total": 2, "what": f"by {os.getpid()}"})


def measure() -> None:
    """A figure that was measured on the CPU."""
    figure = {
        "kind": "measurement", "name": "gemm", "src": "cpu:0", "dst": "", "method": "made/1",
        "device_kind": "cpu", "engine": "none", "direction": "none", "value": 1.0,
        "unit": "TFLOP/s",
    }  # fmt: skip
    say(figure)


def finish() -> None:
    """The last message of a probe; the worker waits for the next request."""
    say({"kind": "done"})


def start_children() -> None:
    """Start two children, the second in a session of its own; a note says the process ids."""
    sleep = ["sleep", str(HOURS)]
    near = subprocess.Popen(sleep)
    far = subprocess.Popen(sleep, start_new_session=True)
    pids = {"worker": os.getpid(), "near": near.pid, "far": far.pid}
    say({"kind": "note", "topic": "pids", "text": "", "details": pids})


def hang() -> None:
    """Sleep; a signal ends it."""
    time.sleep(HOURS)


def hang_in_c() -> None:
    """Sleep in C code that holds the interpreter lock: no signal handler of Python runs."""
    ctypes.PyDLL(None).sleep(HOURS)


def die(signal_name: str) -> None:
    """Die of a signal, without a core file."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.kill(os.getpid(), getattr(signal, signal_name))


VERBS: dict[str, Callable[..., object]] = {
    "say": say,
    "write": write,
    "complain": complain,
    "name itself": name_itself,
    "measure": measure,
    "finish": finish,
    "start children": start_children,
    "hang": hang,
    "hang in C": hang_in_c,
    "exit": os._exit,
    "die": die,
}
FINISHES = [["name itself"], ["measure"], ["finish"]]

if __name__ == "__main__":
    for line in sys.stdin:
        for verb, *rest in json.loads(line)["params"].get("script", FINISHES):
            VERBS[verb](*rest)
