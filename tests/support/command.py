"""The command line as a person runs it: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.places import ROOT


def gputop(
    *arguments: str, seconds: float = 300, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run gputop with these arguments and variables; nothing is checked."""
    return subprocess.run(
        [sys.executable, "-m", "gputop", *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env={**os.environ, **environment},
    )
