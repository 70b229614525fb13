"""Starts two children, one in its own session, then sits in C code with the interpreter lock."""

import ctypes
import json
import os
import subprocess
import sys

sys.stdin.readline()
sleep = ["sleep", "300"]
near = subprocess.Popen(sleep)
far = subprocess.Popen(sleep, start_new_session=True)
pids = {"worker": os.getpid(), "near": near.pid, "far": far.pid}
line = {"v": 1, "kind": "note", "topic": "pids", "text": "", "details": pids}
sys.stdout.write(json.dumps(line) + "\n")
sys.stdout.flush()
ctypes.PyDLL(None).sleep(300)
