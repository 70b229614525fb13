"""Types: a test of its own, so that the other workers of the gate go on meanwhile."""

from __future__ import annotations

import subprocess
import sys

from tests.support.places import ROOT


def test_every_type_is_right() -> None:
    """The only long test: some 45 s of one core, without a cache.

    In one process: mypy's own workers come up too late for it on a machine that is busy.
    """
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--num-workers", "0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
