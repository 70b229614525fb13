"""Threads of ranks that sleep uninterruptibly: in both looks, and held up or not."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gputop.topology.jobs.asking import Asker, ask_live
from gputop.topology.jobs.ras.answer import parse
from gputop.topology.jobs.ras.client import RasReply
from gputop.topology.jobs.ras.places import RasPlace
from gputop.topology.jobs.standing import JobState
from gputop.topology.model.severity import JobVerdict
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.sources.files.tree import FolderTree
from tests.topology.jobs.ras.service import document, rank
from tests.topology.jobs.test_activity import process

PIDS = tuple(range(41000, 41006))


@pytest.fixture
def snapshot() -> NodeSnapshot:
    return replace(DemoFeed("hgx-h100-8", version="test").at(0), source=("live",))


class Machine:
    """Six ranks, of which one has a thread that sleeps; their counts at each answer of RAS."""

    def __init__(self, root: Path, *counts: list[int]) -> None:
        self.root, self.counts, self.now, self.asked = root, counts, 0.0, 0
        for pid in PIDS:
            process(root, pid, "S", 100)

    def thread(self, pid: int, letter: str, switches: int) -> None:
        folder = self.root / f"proc/{pid}/task/{pid + 500}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "stat").write_text(f"{pid + 500} (pt_save) {letter}{' 1' * 18} 9 1\n")
        lines = f"State:\t{letter} (x)\nvoluntary_ctxt_switches:\t{switches}\n"
        (folder / "status").write_text(f"{lines}nonvoluntary_ctxt_switches:\t0\n")
        (folder / "wchan").write_text("nfs_wait")

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def reply(self, place: RasPlace, seconds: float) -> RasReply:
        launched = self.counts[min(self.asked, len(self.counts) - 1)]
        self.asked += 1
        ranks = [rank(number, PIDS[number], count) for number, count in enumerate(launched)]
        return RasReply(place=place, answers=(parse(document(ranks)),))

    def told(self, snapshot: NodeSnapshot, pause: float = 0.4) -> JobState:
        asker = Asker(FolderTree(self.root), self.sleep, lambda: self.now, self.reply)
        (job,) = ask_live(snapshot, ras=bool(self.counts), pause=pause, asker=asker).jobs
        return job


def test_a_thread_of_the_rank_that_all_wait_for(tmp_path: Path, snapshot: NodeSnapshot) -> None:
    machine = Machine(tmp_path, [7, 7, 6, 7, 7, 7])
    machine.thread(41002, "D", 5)
    job = machine.told(snapshot)
    assert job.verdict == JobVerdict.WAITS
    assert (
        "rank 2 (pid 41002, GPU2) has a thread, pt_save (41502), that stays in one uninterruptible "
        "sleep (D) in nfs_wait, for 0.4 s at least" in job.sentence
    )
    assert "whether rank 2 (pid 41002, GPU2) still comes" in str(job.unknown)
    assert "sudo cat /proc/41002/task/41502/stack" in job.steps
    # A file that is written on a busy file system may take a while.
    assert machine.told(snapshot, 60).verdict == JobVerdict.WAITS
    assert machine.told(snapshot, 125).verdict == JobVerdict.HANGS


def test_a_job_that_runs_is_not_blamed_for_a_thread_that_writes(
    tmp_path: Path, snapshot: NodeSnapshot
) -> None:
    machine = Machine(tmp_path, [7] * 6, [8] * 6)
    machine.thread(41002, "D", 5)
    job = machine.told(snapshot)
    assert job.verdict == JobVerdict.RUNS
    assert not any(rank.trouble for rank in job.ranks)
    assert "pt_save (41502), that stays" in str(job.findings)
    assert "nothing shows that others wait for it" in str(job.findings)


def test_a_thread_alone_is_a_fact_and_a_rank_itself_a_fault(
    tmp_path: Path, snapshot: NodeSnapshot
) -> None:
    machine = Machine(tmp_path)
    machine.thread(41002, "D", 5)
    assert machine.told(snapshot).verdict != JobVerdict.FAULTY
    process(tmp_path, 41003, "D", 100)
    lines = "State:\tD (disk sleep)\nvoluntary_ctxt_switches:\t1\nnonvoluntary_ctxt_switches:\t1\n"
    (tmp_path / "proc/41003/status").write_text(lines)
    job = machine.told(snapshot)
    assert job.verdict == JobVerdict.FAULTY
    assert "rank 3 (pid 41003, GPU3) stays in one uninterruptible sleep" in job.sentence


@pytest.mark.parametrize("later", [("D", 6), ("S", 5)])
def test_a_thread_that_ran_in_between_is_none(
    tmp_path: Path, snapshot: NodeSnapshot, later: tuple[str, int]
) -> None:
    machine = Machine(tmp_path, [7, 7, 6, 7, 7, 7])
    machine.thread(41002, "D", 5)
    real = machine.sleep

    def sleep(seconds: float) -> None:
        real(seconds)
        machine.thread(41002, *later)

    machine.sleep = sleep  # type: ignore[method-assign]
    job = machine.told(snapshot)
    assert "pt_save" not in f"{job.sentence}{job.findings}"
    assert "has not launched it" in job.sentence
