"""A probe's process: how it ends, and that nothing of it stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from gputop.probes.protocol.messages import Message, Note, Progress, Request
from gputop.probes.protocol.outcome import STATUSES, Outcome
from tests.support.places import ROOT, TESTS
from tests.support.probe_runs import run_probe

WORKERS = TESTS / "probe_workers"
GONE_SECONDS = 30.0


def run(
    name: str,
    probe: str = "x",
    *,
    deadline_seconds: float = 20.0,
    on_event: Callable[[Message], None] = lambda message: None,
    cancel: threading.Event | None = None,
) -> Outcome:
    outcome = run_probe(
        Request(probe), sys.executable, on_event, deadline_seconds,
        cancel or threading.Event(), worker=WORKERS / name,
    )  # fmt: skip
    assert outcome.status in STATUSES
    assert "\n" not in outcome.message
    assert "\x1b" not in outcome.message + outcome.stderr_tail
    return outcome


def is_running(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def wait_until_gone(pids: list[int]) -> float:
    """Seconds until none of them runs; fails after GONE_SECONDS."""
    started = time.monotonic()
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() - started < GONE_SECONDS, [p for p in pids if is_running(p)]
        time.sleep(0.01)
    return time.monotonic() - started


def children() -> list[int]:
    return [child.pid for child in psutil.Process().children(recursive=True)]


def test_a_worker_that_hangs_meets_its_deadline() -> None:
    before = children()
    outcome = run("hangs.py", deadline_seconds=0.6)
    assert outcome.status == "timed-out"
    assert "GPU a to GPU b" in outcome.message
    assert children() == before


def test_a_cancel_ends_it_at_once() -> None:
    cancel = threading.Event()

    def on_event(message: Message) -> None:
        cancel.set()

    outcome = run("hangs.py", on_event=on_event, cancel=cancel)
    assert outcome.status == "cancelled"
    assert "GPU a to GPU b" in outcome.message


def pids_of(message: Message) -> dict[str, int]:
    assert isinstance(message, Note)
    return dict(message.details)


@pytest.mark.parametrize("victim", ["worker", "keeper"])
def test_kill_9_in_the_middle(victim: str) -> None:
    pids: dict[str, int] = {}

    def on_event(message: Message) -> None:
        pids.update(pids_of(message))
        worker = psutil.Process(pids["worker"])
        keeper = worker.parent()
        assert keeper is not None
        pids["keeper"] = keeper.pid
        os.kill(pids[victim], signal.SIGKILL)

    outcome = run("hangs_in_c.py", on_event=on_event)
    assert outcome.status == "died"
    assert outcome.signal_name == "SIGKILL"
    assert "SIGKILL" in outcome.message
    if victim == "keeper":
        # With the keeper gone nobody can find a child that left the process group.
        os.kill(pids.pop("far"), signal.SIGKILL)
    wait_until_gone(list(pids.values()))


def test_cancel_takes_the_children_along_while_c_code_blocks() -> None:
    cancel = threading.Event()
    pids: dict[str, int] = {}

    def on_event(message: Message) -> None:
        pids.update(pids_of(message))
        cancel.set()

    assert run("hangs_in_c.py", on_event=on_event, cancel=cancel).status == "cancelled"
    assert not any(is_running(pid) for pid in pids.values())


APP = """
import sys, threading
from pathlib import Path
from tests.support.probe_runs import run_probe
from gputop.probes.protocol.messages import Request

def told(message):
    print(*message.details.values(), flush=True)

def probe():
    run_probe(Request("x"), sys.executable, told, 60, threading.Event(), worker=Path(sys.argv[1]))

thread = threading.Thread(target=probe)
thread.start()
thread.join()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_app_is_killed_and_nothing_stays(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", APP, str(WORKERS / "hangs_in_c.py")],
        stdout=subprocess.PIPE, cwd=ROOT, text=True,
    ) as app:  # fmt: skip
        assert app.stdout is not None
        pids = [int(word) for word in app.stdout.readline().split()]
        assert len(pids) == 3
        below = [p.pid for p in psutil.Process(app.pid).children(recursive=True)]
        assert set(below) >= set(pids)
        app.send_signal(number)
        app.wait()
        wait_until_gone(below)


@pytest.mark.parametrize("what", ["binary", "endless", "escape", "late", "version"])
def test_rubbish_is_named_and_ended(what: str) -> None:
    before = children()
    outcome = run("rubbish.py", what)
    assert outcome.status == "garbled"
    assert outcome.message.isprintable()
    assert len(outcome.message) < 300
    assert children() == before


def test_a_line_printed_by_a_start_up_file_is_borne() -> None:
    assert run("rubbish.py", "preface").status == "finished"


@pytest.mark.parametrize("how", ["7", "SIGSEGV", "SIGKILL"])
def test_a_worker_that_dies_says_how(how: str) -> None:
    outcome = run("dies.py", how)
    assert outcome.status == "died"
    assert (outcome.exit_code, outcome.signal_name) == ((7, None) if how == "7" else (None, how))
    assert "last words" in outcome.message
    assert outcome.stderr_tail == "last words"


@pytest.mark.parametrize("kind", ["absent", "folder", "no program"])
def test_an_interpreter_that_cannot_run(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "python"
    if kind == "folder":
        path.mkdir()
    elif kind == "no program":
        path.write_bytes(b"\x7fELF but no more")
        path.chmod(0o755)
    outcome = run_probe(Request("p2p"), str(path), lambda m: None, 10, threading.Event())
    assert outcome.status in ("failed", "died")
    assert str(path) in outcome.message


def test_what_a_listener_raises_comes_through_and_nothing_stays() -> None:
    before = children()

    def on_event(message: Message) -> None:
        assert isinstance(message, Progress)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run("hangs.py", on_event=on_event)
    assert children() == before
