"""Prints what is no message: the kind is in the request's probe name."""

import json
import sys
import time

what = json.loads(sys.stdin.readline())["probe"]
out = sys.stdout.buffer
if what == "binary":
    out.write(bytes(range(256)) * 64 + b"\n")
elif what == "endless":
    out.write(b"x" * 3_000_000)
elif what == "escape":
    out.write(b"\x1b]0;owned\x07\x1b[2Jhello [bold]\n")
elif what == "late":
    out.write(b'{"v":1,"kind":"progress","done":0,"total":1,"what":"w"}\n\x1b[31mSegfault\n')
elif what == "version":
    out.write(b'{"v":99,"kind":"done","elapsed_seconds":1.0}\n')
elif what == "preface":
    out.write(b'site says hello\n{"v":1,"kind":"done","elapsed_seconds":1.0}\n')
out.flush()
if what not in ("escape", "preface"):
    time.sleep(300)
