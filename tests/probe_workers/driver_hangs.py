"""Imports torch at once, and waits for ever for the driver."""

import json
import sys
import time

sys.stdin.readline()
for what, seconds in (("importing torch", 0), ("asking the driver for its GPUs", 300)):
    line = {"v": 1, "kind": "progress", "done": 0, "total": 1, "what": what}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
    time.sleep(seconds)
