"""The probe nccl when its processes are killed: nothing of a run stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading

import psutil
import pytest

from gputop.probes.protocol.messages import Message, Progress
from tests.grid import share
from tests.support.nccl.rank_runs import (
    GONE_SECONDS,
    MARK,
    above,
    fake,
    made_up,
    on_event_once,
    private_folders,
    rank_processes,
    ready,
    request,
    run,
    shared_files,
    taken_apart,
    wait_until,
)
from tests.support.places import ROOT

pytestmark = pytest.mark.usefixtures("own_temporary_folder")


def test_a_rank_that_is_killed_is_named() -> None:
    def on_event(message: Message) -> None:
        wait_until(lambda: ready(2))
        next(p for p in rank_processes() if p.name().endswith("rank1")).kill()

    outcome = run(
        request(changes=made_up(pauses="all", shared_memory=MARK)), on_event_once(on_event)
    )
    assert outcome.status == "failed"
    assert "rank 1" in outcome.message
    assert "SIGKILL" in outcome.message


@pytest.mark.parametrize("victim", ["probe", "worker", "keeper"])
def test_kill_9_of_the_worker_or_its_keeper_leaves_nothing(victim: str) -> None:
    ranks: list[psutil.Process] = []

    def on_event(message: Message) -> None:
        wait_until(lambda: ready(2))
        ranks.extend(rank_processes())
        above(ranks[0])[("probe", "worker", "keeper").index(victim)].kill()

    outcome = run(
        request(changes=made_up(pauses="all", shared_memory=MARK)), on_event_once(on_event)
    )
    assert outcome.status == "died"
    assert len(ranks) == 2
    assert not any(rank.is_running() and rank.status() != "zombie" for rank in ranks)


def test_a_cancel_ends_every_rank() -> None:
    cancel = threading.Event()

    def on_event(message: Message) -> None:
        wait_until(lambda: ready(3))
        cancel.set()

    asked = request(3, changes=made_up(pauses="all", shared_memory=MARK))
    assert run(asked, on_event_once(on_event), cancel).status == "cancelled"


APP = """
import json, sys, threading
from gputop.probes.protocol.messages import WorkerRequest
from tests.support.probe_runs import run_probe

def probe():
    run_probe(WorkerRequest("nccl", params=json.loads(sys.argv[1])), sys.executable,
              lambda message: print(flush=True), 60, threading.Event(), torch=True)

thread = threading.Thread(target=probe)
thread.start()
thread.join()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_app_is_killed_and_nothing_stays(number: signal.Signals) -> None:
    asked, worker = taken_apart(request(changes=made_up(pauses="all", shared_memory=MARK)))
    command = [sys.executable, "-c", APP, json.dumps(asked.params)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, cwd=ROOT, env={**os.environ, **worker}
    ) as app:
        wait_until(lambda: ready(2))
        assert len(shared_files()) == 6
        below = psutil.Process(app.pid).children(recursive=True)
        assert len(below) == 5
        app.send_signal(number)
        app.wait()
        wait_until(
            lambda: not any(p.is_running() and p.status() != "zombie" for p in below),
            GONE_SECONDS,
        )
        wait_until(lambda: shared_files() == [] and private_folders() == [], GONE_SECONDS)


KINDS_OF_STEP = {
    "connecting": (2, 1, made_up(shared_memory=MARK, holds="connect")),
    "first all-reduce": (2, 2, made_up(shared_memory=MARK, holds="all-reduce of 262144")),
    "all-reduce": (2, 3, made_up(shared_memory=MARK, holds="all-reduce of 524288")),
    "transfer": (2, 4, made_up(shared_memory=MARK, holds="send to 1")),
    "transfer beside a third": (3, 5, made_up(shared_memory=MARK, holds="send to 2")),
    "first all-reduce of the real library": (2, 2, fake(shared_memory=MARK)),
}
"""Ranks, the step, and what makes them stop there; the real library has a second of work left."""


@pytest.mark.parametrize("kind", share(KINDS_OF_STEP, 2))
def test_kill_9_of_the_worker_at_every_kind_of_step(kind: str) -> None:
    ranks, place, changes = KINDS_OF_STEP[kind]
    killed: list[int] = []

    def on_event(message: Message) -> None:
        if isinstance(message, Progress) and message.done >= place and not killed:
            worker = above(rank_processes()[0])[1]
            killed.append(worker.pid)
            worker.kill()

    outcome = run(request(ranks, changes=changes), on_event)
    assert killed
    assert (outcome.status, outcome.signal_name) == ("died", "SIGKILL")
    assert bool(outcome.measurements) == (place > 1), "what was measured before stands"
