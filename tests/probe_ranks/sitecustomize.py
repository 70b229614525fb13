"""Run by every rank that is started with this folder in PYTHONPATH: does as FAKE_RANK says.

What it does stands for what the library in a real rank does: write a log, open files in /dev/shm,
hang.
"""

import json
import os
import signal
import tempfile

_log = os.environ.get("NCCL_DEBUG_FILE")
_asked = json.loads(os.environ.get("FAKE_RANK", "{}"))
if _log is not None:
    _rank = int(os.path.basename(_log)[len("rank") : -len(".log")])
    if "logs" in _asked:
        with open(os.path.join(_asked["logs"], f"rank{_rank}.log"), "rb") as _file:
            _text = _file.read()
        with open(_log, "wb") as _file:
            _file.write(_text)
    if _asked.get("shared_memory"):
        _prefix = f"nccl-{_asked['shared_memory']}"
        _held = [tempfile.mkstemp(prefix=_prefix, dir="/dev/shm") for _ in range(3)]
        for _descriptor, _ in _held[:2]:
            os.posix_fallocate(_descriptor, 0, 4096)
        with open(os.path.join(os.path.dirname(_log), f"ready{_rank}"), "w"):
            pass
    if _asked.get("prints") == _rank:
        os.write(1, b"\x1b[31mthis is no answer\n")
    if _asked.get("pauses") in (_rank, "all"):
        signal.pause()
