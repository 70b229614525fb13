"""The gate runs wherever it is started from."""

from __future__ import annotations

import signal
import subprocess
import sys

from tests.support.places import ROOT

SENDERS = (
    "tests/gputop/test_cli.py::test_ctrl_c_ends_the_worker_and_says_so",
    "tests/gputop/test_interrupted_start.py::test_an_interrupted_import_is_130_without_a_word"
    "[module-8]",
    "tests/gputop/terminal/test_terminal_signals.py::test_a_signal_leaves_in_order_with_its_own_code"
    "[SIGQUIT]",
)
IGNORING = f"""
import os, signal, sys
for number in {[int(n) for n in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)]}:
    signal.signal(number, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, "-m", "pytest", "-q", *sys.argv[1:]])
"""


def test_signals_that_the_starter_ignores_reach_what_the_tests_start() -> None:
    """As under `nohup ... &`; what is ignored stays so in all that a process starts."""
    done = subprocess.run(
        [sys.executable, "-c", IGNORING, "-p", "no:cacheprovider", *SENDERS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert f"{len(SENDERS)} passed" in done.stdout
