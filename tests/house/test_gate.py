"""The gate runs wherever it is started from."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.places import ROOT
from tests.workers import send_less

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


def test_a_worker_asks_at_once_how_often_a_test_failed(request: pytest.FixtureRequest) -> None:
    counts = getattr(request.config, "failures_db", None)
    if counts is None or not hasattr(request.config, "workerinput"):
        pytest.skip("no worker, or no reruns")
    assert counts.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_worker_sends_whatever_is_no_mere_success() -> None:
    sent = []
    worker = SimpleNamespace(sendevent=lambda name, **given: sent.append((name, given)))
    config: Any = SimpleNamespace(
        pluginmanager=SimpleNamespace(get_plugins=lambda: [worker, object()])
    )
    send_less(config)

    def report(when: str, outcome: str, *sections: str) -> dict[str, Any]:
        return {"data": {"when": when, "outcome": outcome, "sections": sections}}

    read = [
        ("workerready", {"workerinfo": {}}),
        *(
            ("testreport", report(when, outcome))
            for when in ("setup", "call", "teardown")
            for outcome in ("passed", "failed", "skipped", "rerun")
            if (when, outcome) not in {("setup", "passed"), ("teardown", "passed")}
        ),
        ("testreport", report("teardown", "passed", "said")),
        ("collectreport", {"data": {"outcome": "failed"}}),
        ("runtest_protocol_complete", {"item_index": 1, "duration": 0.1}),
    ]
    unread: list[tuple[str, dict[str, Any]]] = [
        ("logstart", {"nodeid": "a"}),
        ("logfinish", {"nodeid": "a"}),
        ("testreport", report("setup", "passed")),
        ("testreport", report("teardown", "passed")),
    ]
    for name, given in (*unread, *read, *unread):
        worker.sendevent(name, **given)
    assert sent == read
