"""A probe's process: how it ends, and that nothing of it stays."""

from __future__ import annotations

import json
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

from gputop.probes.protocol.messages import Message, Note, Progress, WorkerRequest
from gputop.probes.protocol.outcome import Outcome
from gputop.probes.protocol.status import Status
from tests.support.places import ROOT
from tests.support.probe_runs import run_probe
from tests.support.worker_scripts import HANGS, HANGS_IN_C, WORKER, Script, SkippingClock, progress

GONE_SECONDS = 60.0


def run(
    script: Script,
    *,
    deadline_seconds: float = 60.0,
    on_event: Callable[[Message], None] = lambda message: None,
    cancel: threading.Event | None = None,
) -> Outcome:
    outcome = run_probe(
        WorkerRequest("x", params={"script": script}), sys.executable, on_event, deadline_seconds,
        cancel or threading.Event(), worker=WORKER,
    )  # fmt: skip
    assert isinstance(outcome.status, Status)
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


def test_a_worker_that_hangs_meets_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    before = children()
    late = SkippingClock(monkeypatch).skipping({"GPU a to GPU b": 600})
    outcome = run(HANGS, deadline_seconds=600, on_event=late)
    assert outcome.status == "timed-out"
    assert "GPU a to GPU b" in outcome.message
    assert children() == before


def test_a_cancel_ends_it_at_once() -> None:
    cancel = threading.Event()

    def on_event(message: Message) -> None:
        cancel.set()

    outcome = run(HANGS, on_event=on_event, cancel=cancel)
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

    outcome = run(HANGS_IN_C, on_event=on_event)
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

    assert run(HANGS_IN_C, on_event=on_event, cancel=cancel).status == "cancelled"
    assert not any(is_running(pid) for pid in pids.values())


APP = """
import json, sys, threading
from pathlib import Path
from tests.support.probe_runs import run_probe
from gputop.probes.protocol.messages import WorkerRequest

def hear(message):
    print(*message.details.values(), flush=True)

def probe():
    request = WorkerRequest("x", params={"script": json.loads(sys.argv[2])})
    run_probe(request, sys.executable, hear, 60, threading.Event(), worker=Path(sys.argv[1]))

thread = threading.Thread(target=probe)
thread.start()
thread.join()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_app_is_killed_and_nothing_stays(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", APP, str(WORKER), json.dumps(HANGS_IN_C)],
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


RUBBISH: dict[str, Script] = {
    "binary": (("write", "".join(map(chr, range(256))), 64), ("write", "\n"), ("hang",)),
    "endless": (("write", "x", 3_000_000), ("hang",)),
    "escape": (("write", "\x1b]0;owned\x07\x1b[2Jhello [bold]\n"), ("exit", 0)),
    "late": (progress(0, 1, "w"), ("write", "\x1b[31mSegfault\n"), ("hang",)),
    "version": (("say", {"v": 99, "kind": "done"}), ("hang",)),
}


@pytest.mark.parametrize("what", RUBBISH)
def test_rubbish_is_named_and_ended(what: str) -> None:
    before = children()
    outcome = run(RUBBISH[what])
    assert outcome.status == "garbled"
    assert outcome.message.isprintable()
    assert len(outcome.message) < 300
    assert children() == before


def test_a_line_printed_by_a_start_up_file_is_borne() -> None:
    outcome = run((("write", "site says hello\n"), ("finish",)))
    assert outcome.status == "finished"
    assert outcome.message == f"Finished in {outcome.elapsed_seconds:.1f} s.", "two clocks"


@pytest.mark.parametrize("how", ["7", "SIGSEGV", "SIGKILL"])
def test_a_worker_that_dies_says_how(how: str) -> None:
    death = ("exit", int(how)) if how.isdigit() else ("die", how)
    outcome = run((("complain", "\x1b[31mlast words\x1b[0m\x00"), death))
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
    outcome = run_probe(WorkerRequest("p2p"), str(path), lambda m: None, 10, threading.Event())
    assert outcome.status in ("failed", "died")
    assert str(path) in outcome.message


def test_what_a_listener_raises_comes_through_and_nothing_stays() -> None:
    before = children()

    def on_event(message: Message) -> None:
        assert isinstance(message, Progress)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(HANGS, on_event=on_event)
    assert children() == before
