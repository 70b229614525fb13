from __future__ import annotations

import os
import signal
import sys
import threading
import time

import pytest

from gputop.checking.deadline import (
    FAILED,
    LATE,
    Relay,
    Supervised,
    ends_of,
    late_diagnosis,
    supervised,
)
from gputop.exits import CANNOT_TELL, OWN_ERROR, Exit
from gputop.topology.fleet.section import NodeOrigin

UNHEARD = ("ends_of", "run")

FAR = 60.0
"""Seconds; no test waits that long."""


def run(work: object, seconds: float = FAR) -> Supervised:
    return supervised(work, time.monotonic() + seconds)  # type: ignore[arg-type]


def test_an_answer_comes_back_whole(capfd: pytest.CaptureFixture[str]) -> None:
    def work(relay: Relay) -> int:
        relay.stage("reading the node")
        relay.hand_over("x" * 300_000)
        sys.stdout.write("y" * 200_000)
        os.write(1, b"printed by a library\n")
        os.write(2, b"said\n")
        return 2

    ended = run(work)
    assert (ended.code, ended.problem, ended.timed_out) == (2, "", False)
    assert ended.stages == ["reading the node"]
    assert len(ended.document) == 300_000
    assert len(ended.output) == 200_000
    assert "printed by a library\nsaid\n" in capfd.readouterr().err


def test_who_hangs_is_left_behind_at_the_deadline() -> None:
    began = threading.Event()

    def work(relay: Relay) -> int:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        relay.stage("measuring")
        began.wait()  # for ever: nobody sets the child's copy
        return 0

    ended = run(work, 0.3)
    assert ended.timed_out
    assert ended.code is None
    diagnosis, _, fleet = late_diagnosis(NodeOrigin(host="g7", job="4"), ended, 5.0)
    assert diagnosis.verdict.exit_code == CANNOT_TELL
    (finding,) = diagnosis.findings
    assert finding.id == LATE
    assert finding.title == "the check did not end within 5 s: it was measuring"
    assert (fleet.host, fleet.job) == ("g7", "4")


def test_a_child_that_forgets_a_thread_and_a_process_ends_at_once() -> None:
    def work(relay: Relay) -> int:
        threading.Thread(target=threading.Event().wait).start()
        if os.fork() == 0:
            signal.pause()  # it holds all pipes of its parent
        return 0

    assert run(work).code == 0


def test_what_fails_says_why() -> None:
    def refuses(relay: Relay) -> int:
        raise Exit("no such file", 64)

    def breaks(relay: Relay) -> int:
        raise ValueError("odd")

    def dies(relay: Relay) -> int:
        relay.stage("judging")
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    assert (run(refuses).code, run(refuses).problem) == (64, "no such file")
    broken = run(breaks)
    assert broken.code == OWN_ERROR
    assert broken.problem.startswith("ValueError: odd")
    ended = run(dies)
    assert (ended.code, ended.timed_out) == (None, False)
    (finding,) = late_diagnosis(NodeOrigin(host="g7"), ended, 5.0)[0].findings
    assert finding.id == FAILED
    assert "ended while judging" in finding.title


def test_it_never_returns_into_the_parent() -> None:
    def leaves(relay: Relay) -> int:
        sys.exit(5)

    here = os.getpid()
    assert run(leaves).code is None
    assert os.getpid() == here


@pytest.mark.parametrize(("seconds", "kept"), [(3.0, 1.0), (20.0, 4.0), (600.0, 10.0)])
def test_a_share_of_the_time_is_kept_for_the_end(seconds: float, kept: float) -> None:
    measuring, _ = ends_of(seconds)
    assert measuring - time.monotonic() == pytest.approx(seconds - kept, abs=0.5)
