"""Ends without an answer: by exit code or by signal, as the request's probe name says."""

import json
import os
import resource
import signal
import sys

how = json.loads(sys.stdin.readline())["probe"]
sys.stderr.write("\x1b[31mlast words\x1b[0m\x00\n")
sys.stderr.flush()
if how.isdigit():
    os._exit(int(how))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
os.kill(os.getpid(), getattr(signal, how))
