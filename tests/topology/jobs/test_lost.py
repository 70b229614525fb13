"""Ranks that ended, and those that only report it, as real jobs showed them."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gputop.topology.jobs.asking import Asker, ask_live
from gputop.topology.jobs.flight.files import named, read
from gputop.topology.jobs.from_files import of_files
from gputop.topology.jobs.ras.answer import parse
from gputop.topology.jobs.ras.client import RasReply
from gputop.topology.jobs.ras.places import RasPlace
from gputop.topology.jobs.standing import JobState
from gputop.topology.model.severity import JobVerdict
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.sources.files.tree import FolderTree
from tests.support.places import RECORDINGS
from tests.topology.jobs.test_activity import process

KILLED = (RECORDINGS / "ras/killed.json.txt").read_bytes()
"""Rank 0 is pid 623 and reports a remote process error, rank 1 was pid 624: kill -9."""


@pytest.fixture(scope="module")
def alone() -> NodeSnapshot:
    """Rank 0 of two is left on GPU0."""
    node = replace(DemoFeed("hgx-h100-8", version="test").at(0), source=("live",))
    first = node.readings.processes[0]
    left = replace(first, pid=623, rank=0, local_rank=0, world_size=2)
    gpus = tuple(
        replace(gpu, processes=(replace((gpu.processes or ())[0], pid=623),) if not at else ())
        for at, gpu in enumerate(node.readings.gpus)
    )
    return replace(node, readings=replace(node.readings, gpus=gpus, processes=(left,)))


def asked(node: NodeSnapshot, root: Path, *, ras: bool, environ: str = "") -> JobState:
    process(root, 623, "R", 100)
    (root / "proc/623/cmdline").write_text("python3\0train.py\0")
    (root / "proc/623/environ").write_text(environ)

    def reply(place: RasPlace, seconds: float) -> RasReply:
        return RasReply(place=place, answers=(parse(KILLED),))

    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    asker = Asker(FolderTree(root), sleep, lambda: now[0], reply, lambda _: None)
    (job,) = ask_live(node, ras=ras, asker=asker).jobs
    return job


@pytest.mark.parametrize(
    ("state", "said"),
    [(None, "has ended: no such process"), ("Z", "has ended and waits for its parent (Z)")],
)
def test_who_ended_is_the_cause_and_who_reports_it_waits(
    alone: NodeSnapshot, tmp_path: Path, state: str | None, said: str
) -> None:
    if state is not None:
        process(tmp_path, 624, state, 100)
        (tmp_path / "proc/624/status").write_text(f"State:\t{state} (zombie)\n")
    job = asked(alone, tmp_path, ras=True)
    assert job.verdict == JobVerdict.HANGS
    assert job.sentence.startswith("train.py: 2 ranks, 1 waits in all-reduce 24, rank 1 (pid 624")
    assert job.sentence.endswith(said)
    assert not any("624" in step for step in job.steps)
    (report,) = [fact for fact in job.findings if "reports remote process error" in fact.title]
    assert report.severity == "notice"


def test_a_report_of_a_lost_rank_stands_alone_where_nobody_says_who_is_lost(
    alone: NodeSnapshot, tmp_path: Path
) -> None:
    process(tmp_path, 624, "R", 100)
    job = asked(alone, tmp_path, ras=True)
    assert "rank 1 (pid 624, GPU0) does not answer RAS" in job.sentence


def test_who_is_left_need_not_wait_for_those_that_ended(
    alone: NodeSnapshot, tmp_path: Path
) -> None:
    """Rank 0 saves the model at the end, long after the others are done."""
    idle = tuple(replace(gpu, utilization_percent=0.0) for gpu in alone.readings.gpus)
    quiet = replace(alone, readings=replace(alone.readings, gpus=idle))
    job = asked(quiet, tmp_path, ras=True)
    assert job.verdict == JobVerdict.FAULTY
    assert job.sentence == (
        "train.py: 2 ranks, rank 1 (pid 624, GPU0) has ended: no such process; the GPUs of the "
        "others idle, so they need not wait in a collective"
    )


@pytest.mark.parametrize(("busy", "waits"), [(58.0, False), (94.0, False), (100.0, True)])
def test_a_gpu_that_is_not_busy_all_the_time_waits_in_no_kernel(
    alone: NodeSnapshot, tmp_path: Path, busy: float, waits: bool
) -> None:
    """As seen on two H100: rank 1 had ended, and rank 0 computed on by itself, 58 % of the time."""
    gpus = tuple(replace(gpu, utilization_percent=busy) for gpu in alone.readings.gpus)
    found = replace(alone, readings=replace(alone.readings, gpus=gpus))
    job = asked(found, tmp_path, ras=True)
    assert job.verdict == (JobVerdict.HANGS if waits else JobVerdict.FAULTY)
    assert ("1 waits in all-reduce 24" in job.sentence) is waits
    free = f"are busy at most {busy:.0f} % of the time, so they need not wait in a"
    assert (free in job.sentence) is not waits


def test_without_ras_the_ranks_that_were_started_here_are_counted(
    alone: NodeSnapshot, tmp_path: Path
) -> None:
    job = asked(alone, tmp_path, ras=False, environ="LOCAL_WORLD_SIZE=2\0")
    assert "train.py: 1 of 2 ranks that were started here holds a GPU, none is" in job.sentence
    assert "local rank 1 of the 2 that were started here holds no GPU" in str(job.findings)
    whole = asked(alone, tmp_path, ras=False, environ="LOCAL_WORLD_SIZE=1\0")
    assert "1 of 2 ranks on this GPU node" in whole.sentence
    assert "holds no GPU" not in str(whole.findings)


def test_dumps_of_ranks_with_other_sizes_as_torch_2_11_wrote_them() -> None:
    dumps, others, _ = named([str(RECORDINGS / "flight")])
    assert others == ()
    (job,) = of_files(None, read(dumps)).jobs
    assert job.verdict == JobVerdict.HANGS
    assert job.sentence == (
        "flight recorder: 2 ranks, collective 41 has other sizes on some ranks: 1048576 on rank 0; "
        "16777216 on rank 1 (default group)"
    )
    assert "rank 1 in all-reduce 41, called at /srv/trainer/srcs/loop.py:61" in str(job.findings)


def test_a_sleep_counts_only_where_it_was_the_same_one(
    alone: NodeSnapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switches = iter("5556")
    monkeypatch.setattr(
        "gputop.topology.jobs.activity.sleep_of", lambda tree, pid: (next(switches), "0")
    )
    process(tmp_path, 623, "D", 100)
    (tmp_path / "proc/623/wchan").write_text("nfs_wait_bit_killable")
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    asker = Asker(FolderTree(tmp_path), sleep, lambda: now[0])
    (same,) = ask_live(alone, asker=asker).jobs
    assert same.verdict == JobVerdict.FAULTY
    stays = "stays in one uninterruptible sleep (D) in nfs_wait_bit_killable, for 2 s at least"
    assert stays in same.sentence
    assert "sudo cat /proc/623/stack" in same.steps
    (ran,) = ask_live(alone, asker=asker).jobs
    assert ran.verdict != JobVerdict.FAULTY
    assert "in uninterruptible sleep (D) in both readings and ran in between" in str(ran.findings)
