"""Ranks of other machines and in containers: their PIDs are no processes here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
from tests.topology.jobs.ras.service import document, missing, rank
from tests.topology.jobs.test_activity import process

OTHER = "192.0.2.7"
HERE = range(41000, 41006)


@pytest.fixture(scope="module")
def snapshot() -> NodeSnapshot:
    """Six ranks of twelve: the others are on another machine."""
    node = replace(DemoFeed("hgx-h100-8", version="test").at(0), source=("live",))
    ranks = tuple(replace(each, world_size=12) for each in node.readings.processes)
    return replace(node, readings=replace(node.readings, processes=ranks))


def asked(
    snapshot: NodeSnapshot, root: Path, *lost: dict[str, Any], inside: bool = False
) -> list[JobState]:
    """Twelve ranks, whose PIDs are the same on both machines; `inside`: in a container each."""
    for pid in HERE:
        process(root, pid, "R", 100)
        inner = f"\t{pid - 40900}" if inside else ""
        (root / f"proc/{pid}/status").write_text(f"State:\tR\nNSpid:\t{pid}{inner}\n")
    gone = {each["rank"] for each in lost}
    own = 100 if inside else 41000
    ranks = [rank(n, own + n % 6, 9) for n in range(12) if n not in gone]
    for each in [*ranks, *lost]:
        each["host"] = "127.0.0.1" if each["rank"] < 6 else OTHER
    data = document(ranks, lost)

    def reply(place: RasPlace, seconds: float) -> RasReply:
        return RasReply(place=place, answers=(parse(data),))

    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    asker = Asker(FolderTree(root), sleep, lambda: now[0], reply, lambda _: None)
    return list(ask_live(snapshot, ras=True, asker=asker).jobs)


@pytest.mark.parametrize("pid", [41002, 41999])
def test_a_rank_elsewhere_accuses_no_process_here(
    snapshot: NodeSnapshot, tmp_path: Path, pid: int
) -> None:
    (job,) = asked(snapshot, tmp_path, missing(8, pid))
    assert job.verdict == JobVerdict.HANGS
    assert job.sentence.endswith(
        f"11 wait in all-reduce 9, rank 8 (pid {pid}, GPU8 of {OTHER}) does not answer RAS: its "
        "process is stopped, ended, cut off or starved of CPU time"
    )
    (accused,) = [each for each in job.ranks if each.trouble]
    assert (accused.rank, accused.pid, accused.gpus) == (8, None, ())
    assert job.steps[0] == f"py-spy dump --pid {pid}  # at {OTHER}"


def test_ranks_in_a_container_are_known_by_the_pids_that_they_have_there(
    snapshot: NodeSnapshot, tmp_path: Path
) -> None:
    (job,) = asked(snapshot, tmp_path, missing(2, 102), inside=True)
    (accused,) = [each for each in job.ranks if each.trouble]
    assert (accused.rank, accused.pid) == (2, 41002)
    assert "does not answer RAS, though its process is there" in job.sentence
    assert len(job.ranks) == 6


def test_a_process_that_a_container_hides_has_not_ended(
    snapshot: NodeSnapshot, tmp_path: Path
) -> None:
    process(tmp_path, 177, "S", 1, name="sshd")
    (job,) = asked(snapshot, tmp_path, missing(2, 999), inside=True)
    assert "has ended" not in job.sentence
    assert "rank 2 (pid 41002, GPU2) does not answer RAS" in job.sentence
