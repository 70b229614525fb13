"""Run by a worker that is started with this folder in PYTHONPATH: its ranks do as FAKE_RANK says.

What it does stands for what the library in a real rank does: write a log, open files in /dev/shm,
hang.
"""

import json
import os
import signal
import sys
import tempfile
import time

_asked = json.loads(os.environ.get("FAKE_RANK", "{}"))
_held: "list[tuple[int, str]]" = []


def _began(event: str, values: "tuple[bytes, ...]") -> None:
    """A rank is a fork that sets the path of its log first of all its work."""
    if event == "os.putenv" and values[0] == b"NCCL_DEBUG_FILE":
        _act(values[1].decode())


def _act(_log: str) -> None:
    _rank = int(os.path.basename(_log)[len("rank") : -len(".log")])
    if "logs" in _asked:
        with open(os.path.join(_asked["logs"], f"rank{_rank}.log"), "rb") as _file:
            _text = _file.read()
        with open(_log, "wb") as _file:
            _file.write(_text)
    if _asked.get("shared_memory"):
        _prefix = f"nccl-{_asked['shared_memory']}"
        _held.extend(tempfile.mkstemp(prefix=_prefix, dir="/dev/shm") for _ in range(3))
        for _descriptor, _ in _held[:2]:
            os.posix_fallocate(_descriptor, 0, 4096)
        with open(os.path.join(os.path.dirname(_log), f"ready{_rank}"), "w"):
            pass
    if _asked.get("prints") == _rank:
        os.write(1, b"\x1b[31mthis is no answer\n")
    if _asked.get("pauses") in (_rank, "all"):
        if "skips" in _asked:
            with open(_asked["skips"], "w"):
                pass
        signal.pause()


if "skips" in _asked:
    _monotonic = time.monotonic
    # Ten minutes go by at once when a rank that pauses has made the file.
    time.monotonic = lambda: _monotonic() + 600.0 * os.path.exists(_asked["skips"])
sys.addaudithook(_began)
