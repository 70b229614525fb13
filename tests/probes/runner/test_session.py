"""One worker for several requests: kept while probes finish, replaced when one does not."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import psutil
import pytest

from gputop.probes.protocol.messages import Message, Progress, WorkerRequest
from gputop.probes.runner.client import Session
from tests.support.worker_scripts import HANGS, WORKER, Step

CPU = WorkerRequest("p2p", params={"device": "cpu", "count": 2, "level": "quick"})
SECONDS = 60.0


def workers() -> set[int]:
    """Processes below this one, the keeper's child included."""
    return {child.pid for child in psutil.Process().children(recursive=True)}


def gone(pids: set[int]) -> bool:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if not {p for p in pids if psutil.pid_exists(p)}:
            return True
        time.sleep(0.02)
    return False


def test_two_requests_share_a_worker() -> None:
    seen: list[set[int]] = []
    with Session(sys.executable, threading.Event()) as session:
        before = workers()
        for _ in range(2):
            outcome = session.run(CPU, lambda message: None, SECONDS)
            assert outcome.status == "finished"
            assert outcome.measurements
            assert session.alive
            seen.append(workers() - before)
    assert seen[0] == seen[1] != set()
    assert gone(seen[0])


def test_a_worker_whose_driver_is_started_answers_like_any_other() -> None:
    with Session(sys.executable, threading.Event(), driver=True) as session:
        session.begin()
        assert session.run(CPU, lambda message: None, SECONDS).status == "finished"


def asked(*script: Step) -> WorkerRequest:
    """What the made-up worker does; one that is not told finishes."""
    return WorkerRequest("x", params={"script": script} if script else {})


def made_session(cancel: threading.Event | None = None) -> Session:
    return Session(sys.executable, cancel or threading.Event(), worker=WORKER)


def test_after_a_kill_the_next_request_gets_another_worker() -> None:
    pids: set[int] = set()

    def kill(message: Message) -> None:
        if isinstance(message, Progress):
            assert session._process is not None
            mine = psutil.Process(session._process.pid).children()[0].pid
            pids.add(mine)
            os.kill(mine, signal.SIGKILL)

    with made_session() as session:
        died = session.run(asked(*HANGS), kill, SECONDS)
        assert died.status == "died"
        assert died.signal_name == "SIGKILL"
        assert not session.alive
        assert session.run(asked(), lambda message: None, SECONDS).status == "finished"
    assert gone(pids)


def test_a_refusal_ends_the_worker_and_not_the_session() -> None:
    refuse = ("say", {"kind": "failure", "error": "refused", "text": "99 are too many"})
    with made_session() as session:
        refused = session.run(asked(refuse, ("exit", 1)), lambda message: None, SECONDS)
        assert refused.status == "refused"
        assert not session.alive
        assert session.run(asked(), lambda message: None, SECONDS).status == "finished"


def test_what_the_listener_raises_takes_the_worker_along() -> None:
    def stumble(message: Message) -> None:
        if isinstance(message, Progress):
            raise KeyError("ours")

    before = workers()
    session = made_session()
    with pytest.raises(KeyError):
        session.run(asked(*HANGS), stumble, SECONDS)
    assert gone(workers() - before)


def test_cancel_between_requests_ends_the_next_one() -> None:
    cancel = threading.Event()
    with made_session(cancel) as session:
        session.run(asked(), lambda message: None, SECONDS)
        cancel.set()
        assert session.run(asked(), lambda message: None, SECONDS).status == "cancelled"
