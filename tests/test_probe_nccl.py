"""The probe nccl with real processes, on the CPU: how a run ends, and that nothing of it stays."""

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
from typing import Any

import psutil
import pytest

from gputop.probes import leftovers
from gputop.probes.client import run_probe
from gputop.probes.outcome import Outcome
from gputop.probes.protocol import Log, Measurement, Message, Note, Progress, Request
from gputop.probes.rank_logs import HEAD_BYTES, TAIL_BYTES

ROOT = Path(__file__).resolve().parents[1]
RANKS = Path(__file__).parent / "probe_ranks"
GONE_SECONDS = 5.0
MARK = f"{os.getpid()}x"
"""Part of the names that ranks of this process give their files."""


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Private folders are made here, so that a test sees its own alone."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)


def shared_files() -> list[str]:
    """Files in shared memory that ranks of these tests made; other runs have their own."""
    return [name for name, _ in leftovers.shared_files() if name.startswith(f"nccl-{MARK}")]


def private_folders() -> list[Path]:
    return list(Path(os.environ["TMPDIR"]).iterdir())


def request(
    count: int = 2,
    seconds: float = 60,
    changes: dict[str, str] | None = None,
    *,
    loopback: bool = False,
) -> Request:
    params = {"device": "cpu", "count": count, "seconds": seconds, "loopback": loopback}
    return Request("nccl", params={**params, "set": changes or {}})


def fake(**wish: Any) -> dict[str, str]:
    """Variables that make each rank do as told before it does its work."""
    return {"PYTHONPATH": str(RANKS), "FAKE_RANK": json.dumps(wish)}


def run(
    asked: Request,
    on_event: Callable[[Message], None] = lambda message: None,
    cancel: threading.Event | None = None,
    deadline_seconds: float = 90.0,
) -> Outcome:
    outcome = run_probe(
        asked, sys.executable, on_event, deadline_seconds,
        cancel or threading.Event(), private_folder=True,
    )  # fmt: skip
    assert private_folders() == []
    assert shared_files() == []
    assert not rank_processes()
    return outcome


def rank_processes() -> list[psutil.Process]:
    """Ranks below this process; the worker is not one of them."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if process.status() != psutil.STATUS_ZOMBIE and "NCCL_DEBUG_FILE" in process.environ():
                found.append(process)
        except psutil.Error:
            continue
    return found


def wait_until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def ready(count: int) -> bool:
    """Whether so many ranks hold their files in /dev/shm."""
    return len(list(Path(os.environ["TMPDIR"]).glob("gputop-probe-*/ready*"))) == count


def figures(outcome: Outcome, name: str) -> list[Measurement]:
    return [m for m in outcome.latest() if m.name == name]


def test_a_run_reaches_its_end(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text("vm:1:1 [0] NCCL INFO the first rank\n")
    (tmp_path / "rank1.log").write_text("vm:2:2 [1] NCCL INFO the second rank\n")
    modes: list[int] = []

    def on_event(message: Message) -> None:
        modes.extend(folder.stat().st_mode & 0o777 for folder in private_folders())

    changes = fake(logs=str(tmp_path), shared_memory=MARK)
    outcome = run(request(changes=changes, loopback=True), on_event)
    assert (outcome.status, outcome.exit_code) == ("finished", 0), outcome
    assert set(modes) == {0o700}
    assert outcome.hello is not None
    assert [d.key for d in outcome.hello.devices] == ["cpu:0", "cpu:1"]
    (collective,) = figures(outcome, "collective")
    assert (collective.verdict, collective.wrong_bytes) == ("finished", 0)
    assert len(figures(outcome, "init")) == 2
    moved = {(m.src, m.dst): m for m in figures(outcome, "send-receive")}
    assert moved.keys() == {("cpu:0", "cpu:1"), ("cpu:1", "cpu:0")}
    assert {m.verdict for m in moved.values()} == {"verified"}
    for alg, bus in zip(
        figures(outcome, "all-reduce-algbw"), figures(outcome, "all-reduce-busbw"), strict=True
    ):
        assert alg.value is not None
        # Of two ranks the bus bandwidth is the algorithm's: 2 * (2 - 1) / 2.
        assert bus.value == pytest.approx(alg.value, rel=0.01)
    assert outcome.ranks_logged() == (0, 1)
    assert "the second rank" in outcome.log_of(1)
    (note,) = (note for note in outcome.notes if note.topic == "environment")
    assert note.details["own"]["NCCL_DEBUG"] == "INFO"
    assert note.details["set"]["NCCL_SOCKET_IFNAME"] == "lo"
    assert "loopback" in note.text


def test_a_library_that_fails_is_an_answer(tmp_path: Path) -> None:
    long = b"\xff\xfe\x1b[2J rubbish\n" * ((HEAD_BYTES + TAIL_BYTES) // 13 + 50_000)
    last = b"vm:1:1 [0] misc/socket.cc:1 NCCL WARN no \x1b[31minterface\n"
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.log").write_bytes(long + last)
    changes = {**fake(logs=str(tmp_path)), "GLOO_SOCKET_IFNAME": "no-such-interface"}
    outcome = run(request(changes=changes))
    assert outcome.status == "failed"
    assert "no-such-interface" in outcome.message
    (collective,) = figures(outcome, "collective")
    assert collective.verdict == "failed"
    assert collective.why == outcome.message
    (warned,) = (note for note in outcome.notes if note.topic == "warnings")
    assert "no interface" in warned.text
    assert "\x1b" not in warned.text + outcome.message
    text = outcome.log_of(0)
    assert HEAD_BYTES < len(text.encode()) < 4 * (HEAD_BYTES + TAIL_BYTES)
    assert f"[gputop left out {len(long + last) - HEAD_BYTES - TAIL_BYTES} bytes here]" in text
    assert text.endswith("interface\n")


def test_a_rank_that_hangs_meets_the_deadline() -> None:
    outcome = run(request(seconds=3.0, changes=fake(pauses=1, shared_memory=MARK)))
    assert outcome.status == "failed", "it never got as far as a GPU"
    assert "rank 1" in outcome.message
    assert outcome.elapsed_seconds < 8
    assert figures(outcome, "collective") == [], "the library was never asked"


def test_a_rank_that_is_killed_is_named() -> None:
    def on_event(message: Message) -> None:
        wait_until(lambda: ready(2))
        next(p for p in rank_processes() if p.environ()["NCCL_DEBUG_FILE"][-5] == "1").kill()

    outcome = run(request(changes=fake(pauses="all", shared_memory=MARK)), on_event_once(on_event))
    assert outcome.status == "failed"
    assert "rank 1" in outcome.message
    assert "SIGKILL" in outcome.message


def on_event_once(listener: Callable[[Message], None]) -> Callable[[Message], None]:
    heard: list[Message] = []

    def hear(message: Message) -> None:
        if not heard:
            heard.append(message)
            listener(message)

    return hear


@pytest.mark.parametrize("victim", ["worker", "keeper"])
def test_kill_9_of_the_worker_or_its_keeper_leaves_nothing(victim: str) -> None:
    ranks: list[psutil.Process] = []

    def on_event(message: Message) -> None:
        wait_until(lambda: ready(2))
        ranks.extend(rank_processes())
        worker = ranks[0].parent()
        assert worker is not None
        keeper = worker.parent()
        assert keeper is not None
        (worker if victim == "worker" else keeper).kill()

    started = time.monotonic()
    outcome = run(request(changes=fake(pauses="all", shared_memory=MARK)), on_event_once(on_event))
    assert outcome.status == "died"
    assert len(ranks) == 2
    assert not any(rank.is_running() and rank.status() != "zombie" for rank in ranks)
    assert time.monotonic() - started < 10


def test_a_cancel_ends_every_rank() -> None:
    cancel = threading.Event()

    def on_event(message: Message) -> None:
        wait_until(lambda: ready(3))
        cancel.set()

    asked = request(3, changes=fake(pauses="all", shared_memory=MARK))
    assert run(asked, on_event_once(on_event), cancel).status == "cancelled"


APP = """
import json, sys, threading
from gputop.probes import leftovers
from gputop.probes.client import run_probe
from gputop.probes.protocol import Request

def probe():
    run_probe(Request("nccl", params=json.loads(sys.argv[1])), sys.executable,
              lambda message: print(flush=True), 60, threading.Event(), private_folder=True)

thread = threading.Thread(target=probe)
thread.start()
thread.join()
"""


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_the_app_is_killed_and_nothing_stays(number: signal.Signals) -> None:
    params = request(changes=fake(pauses="all", shared_memory=MARK)).params
    with subprocess.Popen(
        [sys.executable, "-c", APP, json.dumps(params)], stdout=subprocess.PIPE, cwd=ROOT
    ) as app:
        wait_until(lambda: ready(2))
        assert len(shared_files()) == 6
        below = psutil.Process(app.pid).children(recursive=True)
        assert len(below) == 4
        app.send_signal(number)
        app.wait()
        wait_until(
            lambda: not any(p.is_running() and p.status() != "zombie" for p in below),
            GONE_SECONDS,
        )
        wait_until(lambda: shared_files() == [] and private_folders() == [], GONE_SECONDS)


def test_an_answer_that_is_none_is_named() -> None:
    outcome = run(request(changes=fake(prints=1)))
    assert outcome.status == "failed"
    assert "rank 1" in outcome.message
    assert "its answer is none" in outcome.message
    assert "\x1b" not in outcome.message


def test_one_device_is_too_few() -> None:
    outcome = run(request(1))
    assert outcome.status == "refused"
    assert "2 GPUs" in outcome.message


def test_without_a_private_folder_nothing_starts() -> None:
    outcome = run_probe(request(), sys.executable, lambda m: None, 30, threading.Event())
    assert outcome.status == "refused"
    assert "private folder" in outcome.message


@pytest.mark.slow
def test_a_rank_that_stops_in_a_transfer_is_found_with_its_pair() -> None:
    stopped: list[psutil.Process] = []

    def on_event(message: Message) -> None:
        if isinstance(message, Progress) and "rank 1 sends, rank 0" in message.what and not stopped:
            found = [p for p in rank_processes() if p.environ()["NCCL_DEBUG_FILE"][-5] == "1"]
            stopped.extend(found)
            found[0].suspend()

    outcome = run(request(seconds=15.0), on_event)
    assert stopped
    assert outcome.status == "timed-out"
    (collective,) = figures(outcome, "collective")
    assert collective.verdict == "finished"
    late = [m for m in figures(outcome, "send-receive") if m.verdict == "timed-out"]
    # Rank 0 goes on while rank 1 still looks at what it received, so either may be the late one.
    assert [{m.src, m.dst} for m in late] == [{"cpu:0", "cpu:1"}]


@pytest.mark.slow
@pytest.mark.parametrize("place", range(1, 8))
def test_kill_9_of_the_worker_at_every_step(place: int) -> None:
    killed: list[int] = []

    def on_event(message: Message) -> None:
        if isinstance(message, Progress) and message.done >= place and not killed:
            worker = rank_processes()[0].parent()
            assert worker is not None
            killed.append(worker.pid)
            worker.kill()

    changes = fake(shared_memory=MARK)
    outcome = run(request(3, changes=changes), on_event)
    assert killed
    assert outcome.status == "died"


@pytest.mark.slow
def test_eight_ranks_exchange_in_every_direction() -> None:
    outcome = run(request(8))
    assert outcome.status == "finished", outcome
    assert len(figures(outcome, "send-receive")) == 56
    assert not [note for note in outcome.notes if isinstance(note, Note) and "wrong" in note.text]
    assert all(isinstance(piece, Log) for piece in outcome.logs)
