"""Run by path under a bare Python beside a made-up driver: answers requests as a worker does.

argv: worker.py and the name of the driver. A line on stdin has the words for the driver and a
request; a line on stdout has all messages and what the driver still holds. The driver is loaded by
the engine's own loader, and everything runs in this one process and its forks, so that a test costs
no start. Ten minutes go by at once when the file `skips` of a line has been there for a while.
"""

import ctypes
import importlib
import io
import json
import os
import runpy
import sys
import time
from collections.abc import Callable

HELD = ("memory", "pinned", "streams", "events", "modules", "mapped", "held", "held_late")
LOOKS = 5
"""At the clock: by then a worker has read what its three ranks said before the file was there."""


def skipping(monotonic: "Callable[[], float]", path: str) -> "Callable[[], float]":
    """A clock that goes on by ten minutes once it has seen the file a few times."""
    seen = 0

    def now() -> float:
        nonlocal seen
        seen += os.path.exists(path)
        return monotonic() + 600.0 * (seen >= LOOKS)

    return now


def main() -> None:
    worker, name = sys.argv[1:]
    runpy.run_path(worker)["_load_package"](os.path.dirname(worker))
    answering = importlib.import_module("gputop_probes.answering")
    driver = ctypes.CDLL(name)
    driver.counted.restype = ctypes.c_long
    monotonic = time.monotonic
    for line in sys.stdin:
        asked = json.loads(line)
        driver.made_up(asked["words"].encode())
        time.monotonic = skipping(monotonic, asked["skips"])
        replies = io.BytesIO()
        answering.answer(asked["request"].encode() + b"\n", replies)
        said = replies.getvalue().decode().splitlines()
        names = (*HELD, *asked["counts"])
        counted = {name: driver.counted(name.encode()) for name in names}
        assert "torch" not in sys.modules
        sys.stdout.write(json.dumps({"said": said, "counted": counted}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
