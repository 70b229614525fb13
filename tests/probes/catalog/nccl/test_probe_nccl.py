"""The probe nccl with real processes, on the CPU: how a run ends, and that nothing of it stays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gputop.probes.crew.probe import HEAD_BYTES, TAIL_BYTES
from gputop.probes.protocol.messages import Failure, Log, Message, Note, decode, encode
from gputop.probes.runner.client import WORKER
from tests.support.nccl.rank_runs import (
    MARK,
    fake,
    figures,
    made_up,
    private_folders,
    request,
    run,
)

pytestmark = pytest.mark.usefixtures("own_temporary_folder")


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
    (collective,) = figures(outcome, "collective_finishes")
    assert (collective.verdict, collective.wrong_bytes) == ("finished", 0)
    assert len(figures(outcome, "communicator_init")) == 2
    moved = {(m.src, m.dst): m for m in figures(outcome, "send_receive")}
    assert moved.keys() == {("cpu:0", "cpu:1"), ("cpu:1", "cpu:0")}
    assert {m.verdict for m in moved.values()} == {"verified"}
    for alg, bus in zip(
        figures(outcome, "all_reduce_algbw"), figures(outcome, "all_reduce_busbw"), strict=True
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
    (collective,) = figures(outcome, "collective_finishes")
    assert collective.verdict == "failed"
    assert collective.why == outcome.message
    (warned,) = (note for note in outcome.notes if note.topic == "warnings")
    assert "no interface" in warned.text
    assert "\x1b" not in warned.text + outcome.message
    text = outcome.log_of(0)
    assert HEAD_BYTES < len(text.encode()) < 4 * (HEAD_BYTES + TAIL_BYTES)
    assert f"[gputop left out {len(long + last) - HEAD_BYTES - TAIL_BYTES} bytes here]" in text
    assert text.endswith("interface\n")


def test_a_rank_that_hangs_meets_the_deadline(tmp_path: Path) -> None:
    changes = made_up(pauses=1, skips=str(tmp_path / "skip"))
    outcome = run(request(seconds=500.0, changes=changes))
    assert outcome.status == "failed", "it never got as far as a GPU"
    assert "No end after 500 s" in outcome.message
    assert "rank 1" in outcome.message
    assert outcome.measurements == (), "the library was never asked"


def test_what_a_rank_prints_is_no_answer() -> None:
    outcome = run(request(changes=made_up(prints=1)))
    assert outcome.status == "finished"
    assert "this is no answer" in outcome.stderr_tail
    assert "\x1b" not in outcome.stderr_tail


def test_one_device_is_too_few() -> None:
    outcome = run(request(1, changes=made_up()))
    assert outcome.status == "refused"
    assert "2 GPUs" in outcome.message


def test_without_a_private_folder_nothing_starts() -> None:
    done = subprocess.run(
        [sys.executable, str(WORKER), "--watched", "--torch"],
        input=encode(request()), capture_output=True, check=False, env={**os.environ, **made_up()},
    )  # fmt: skip
    outcome = decode(done.stdout.splitlines()[-1])
    assert isinstance(outcome, Failure)
    assert outcome.error == "refused"
    assert "private folder" in outcome.text


def test_a_rank_that_stops_in_a_transfer_is_found_with_its_pair(tmp_path: Path) -> None:
    changes = made_up(holds="send to 0", skips=str(tmp_path / "skip"))
    outcome = run(request(seconds=500.0, changes=changes))
    assert outcome.status == "timed-out"
    measured = outcome.measurements
    (collective,) = (m for m in measured if m.name == "collective_finishes")
    assert collective.verdict == "finished"
    late = [m for m in measured if m.name == "send_receive" and m.verdict == "timed-out"]
    # Rank 0 goes on while rank 1 still looks at what it received, so either may be the late one.
    assert [{m.src, m.dst} for m in late] == [{"cpu:0", "cpu:1"}]


def test_four_ranks_exchange_in_every_direction() -> None:
    outcome = run(request(4, changes=made_up()))
    assert outcome.status == "finished", outcome
    assert len(figures(outcome, "send_receive")) == 12
    assert not [note for note in outcome.notes if isinstance(note, Note) and "wrong" in note.text]
    assert all(isinstance(piece, Log) for piece in outcome.logs)
