"""What a command that only reads leaves behind on this machine: no file, not even for a moment."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.grid import share
from tests.support.places import ROOT

WATCHED = """
import os, sys

CHANGES = ("os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.link")

def hook(event, arguments):
    made = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT
    if made or event in CHANGES:
        os.write(2, f"CHANGED {event} {arguments!r}\\n".encode())

sys.addaudithook(hook)
from gputop.__main__ import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.parametrize("command", share(["topo", "snapshot", "check --quick", "flags"], 2))
def test_reading_this_machine_makes_no_file(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-B", "-c", WATCHED, *command.split()],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode in (0, 3), done.stderr
    assert "CHANGED" not in done.stderr
