"""Ranks whose processes have one PID: in containers of one machine, or of several."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gputop.answers.jobs import JobsRequest, answer
from gputop.topology.jobs.standing import JobState
from gputop.topology.model.severity import JobVerdict
from tests.support.places import RECORDINGS

LATE = 5
PLACES = {
    "one address": ("192.0.2.2", "{}"),
    "one GPU each": ("192.0.2.2", "0"),
    "several hosts": ("192.0.2.{}", "0"),
    "two to a host": ("192.0.2.2{}", "{}"),
}
"""Host and GPU of each rank, by its number."""


def place(kind: str, rank: int) -> dict[str, object]:
    host, gpu = PLACES[kind]
    at, own = divmod(rank, 2) if kind == "two to a host" else (rank, rank)
    return {"host": host.format(at), "pid": 7, "nvml_dev": int(gpu.format(own))}


def told(tmp_path: Path, kind: str, *, groups: bool = False) -> JobState:
    """What two answers say, 14 min apart, of which rank 5 of 8 is behind."""
    document = json.loads((RECORDINGS / "ras" / "behind.json").read_text())
    world = document["communicators"][0]
    one = world["ranks"][0]
    world["ranks"] = [
        one
        | place(kind, rank)
        | {"rank": rank, "collective_counts": {"AllReduce": 41 - (rank == LATE)}}
        for rank in range(8)
    ]
    world |= {"size": 8, "ranks_count": 8}
    parts = []
    for moment in ("14:16:56", "14:30:56"):
        document["timestamp"] = f"2026-11-24 {moment}"
        pair = {"hash": "0x2", "size": 2, "ranks_count": 2}
        pair["ranks"] = [
            rank | {"rank": at, "collective_counts": {"AllReduce": int(moment[3:5])}}
            for at, rank in enumerate(world["ranks"][:2])
        ]
        document["communicators"] = [world, world | pair] if groups else [world]
        parts.append(json.dumps(document))
    (tmp_path / "ras.txt").write_text("\n".join(parts))
    (job,) = answer(JobsRequest(sources=(str(tmp_path / "ras.txt"),))).report.jobs
    return job


@pytest.mark.parametrize("kind", PLACES)
def test_each_number_is_a_rank(kind: str, tmp_path: Path) -> None:
    job = told(tmp_path, kind)
    assert job.verdict is JobVerdict.HANGS
    assert sorted(rank.rank or 0 for rank in job.ranks) == list(range(8))
    assert [rank.rank for rank in job.accused] == [LATE]
    assert "7 wait in all-reduce 41" in job.sentence
    lasts = {rank.rank: rank.last.name for rank in job.ranks if rank.last is not None}
    assert lasts == {rank: f"all-reduce {41 - (rank == LATE)}" for rank in range(8)}
    assert "others have this PID too" in job.steps[0]
    assert not any("only a second answer" in line for line in job.unknown)


@pytest.mark.parametrize("kind", PLACES)
def test_who_launches_elsewhere_does_not_wait(kind: str, tmp_path: Path) -> None:
    """Where ranks cannot be told apart between communicators, none is said to hang."""
    job = told(tmp_path, kind, groups=True)
    known = kind != "one GPU each"
    assert ("5 wait in all-reduce 41" in job.sentence) is known
    assert [rank.rank for rank in job.accused] == [LATE] * known
