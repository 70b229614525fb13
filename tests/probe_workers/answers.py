"""Answers one request after the other; what it does is in the request's probe name or params."""

import json
import os
import signal
import sys
import time


def say(**message: object) -> None:
    sys.stdout.write(json.dumps({"v": 1, **message}) + "\n")
    sys.stdout.flush()


for line in sys.stdin:
    request = json.loads(line)
    how = request["params"].get("how", "well")
    say(kind="progress", done=1, total=2, what=f"by {os.getpid()}")
    figure = {
        "kind": "measurement", "name": "gemm", "src": "cpu:0", "dst": "", "method": "made/1",
        "device_kind": "cpu", "engine": "none", "direction": "none", "value": 1.0,
        "unit": "TFLOP/s",
    }  # fmt: skip
    say(**figure)
    if how == "notes":
        say(kind="note", topic="environment", text="", details={})
        say(kind="note", topic="kernels", text="read by [bold]a kernel\x1b[31m\n  \ntwo lines")
        for number in range(500):
            say(kind="note", topic="many", text=f"{number} " + 5000 * "x")
    if how == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "hangs":
        time.sleep(300)
    if how == "rubbish":
        sys.stdout.write("\x1b[31mSegfault\n")
        sys.stdout.flush()
        time.sleep(300)
    if how == "refuses":
        say(kind="failure", error="refused", text="too little memory on 0000:02:00.0")
        sys.exit(1)
    say(kind="done", elapsed_seconds=0.01)
