"""Jobs and ranks that end between the reading of the GPUs and the last look, and what follows."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from gputop.topology.jobs.asking import Asker, ask_live
from gputop.topology.jobs.ras.answer import RasAnswer, RasJob, parse
from gputop.topology.jobs.ras.client import RasReply
from gputop.topology.jobs.ras.places import RasPlace
from gputop.topology.jobs.ras.text import parse as parse_text
from gputop.topology.jobs.standing import JobState
from gputop.topology.jobs.troubles import GONE
from gputop.topology.model.severity import JobVerdict, Severity
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.sources.files.tree import FolderTree
from tests.topology.jobs.ras.service import document, rank
from tests.topology.jobs.ras.test_text import BEHIND, HEALTHY
from tests.topology.jobs.test_activity import process

PIDS = tuple(range(41000, 41006))
ENDED = "torchrun demo: its 6 processes here have ended"
FIRST = parse(document([rank(number, pid, 7) for number, pid in enumerate(PIDS)]))
SECOND = parse(document([rank(number, 51000 + number, 3) for number in range(6)], name="0xb"))


@pytest.fixture(scope="module")
def snapshot() -> NodeSnapshot:
    return replace(DemoFeed("hgx-h100-8", version="test").at(0), source=("live",))


def looked(
    node: NodeSnapshot,
    root: Path,
    answers: Sequence[RasAnswer] = (),
    *,
    begin: Sequence[int] = PIDS,
    end: Sequence[int] = PIDS,
) -> tuple[JobState, ...]:
    """Six ranks, of which `begin` are there at the first look, and `end` go before the second."""
    for pid in begin:
        process(root, pid, "R", 100)
    now, told = [0.0], iter(answers)

    def sleep(seconds: float) -> None:
        now[0] += seconds
        for pid in set(end) & set(begin):
            shutil.rmtree(root / f"proc/{pid}")

    def reply(place: RasPlace, seconds: float) -> RasReply:
        return RasReply(place=place, answers=(next(told),))

    asker = Asker(FolderTree(root), sleep, lambda: now[0], reply, lambda _: None)
    return ask_live(node, ras=bool(answers), asker=asker).jobs


@pytest.mark.parametrize("begin", [PIDS, ()])
def test_a_job_that_ended_is_no_fault(
    snapshot: NodeSnapshot, tmp_path: Path, begin: tuple[int, ...]
) -> None:
    (job,) = looked(snapshot, tmp_path, begin=begin)
    assert (job.sentence, job.verdict) == (ENDED, JobVerdict.UNKNOWN)
    assert (job.findings, job.steps) == ((), ())
    assert {rank.trouble for rank in job.ranks} == {GONE}


def test_a_rank_that_ended_while_others_go_on_is_named(
    snapshot: NodeSnapshot, tmp_path: Path
) -> None:
    (job,) = looked(snapshot, tmp_path, end=PIDS[3:4])
    assert job.verdict == JobVerdict.FAULTY
    assert "6 ranks, rank 3 (pid 41003, GPU3) has ended: no such process; what" in job.sentence
    assert not any("41003" in step for step in job.steps)


def test_a_worker_without_a_rank_may_end_while_others_go_on(
    snapshot: NodeSnapshot, tmp_path: Path
) -> None:
    """As of a server, or of a search for parameters."""
    workers = tuple(replace(each, rank=None) for each in snapshot.readings.processes)
    node = replace(snapshot, readings=replace(snapshot.readings, processes=workers))
    (job,) = looked(node, tmp_path, end=PIDS[3:4])
    assert job.verdict == JobVerdict.UNKNOWN
    assert "6 ranks, none is known to be stopped" in job.sentence
    (fact,) = (fact for fact in job.findings if "(GPU3) has ended" in fact.title)
    assert fact.severity is Severity.NOTICE


def test_processes_that_were_never_seen_here_have_not_ended(
    snapshot: NodeSnapshot, tmp_path: Path
) -> None:
    """Inside a container the driver names those of the host."""
    strange = replace(snapshot, readings=replace(snapshot.readings, processes=()))
    found = looked(strange, tmp_path, begin=())
    assert "ended" not in str([job.sentence for job in found])


def test_the_answer_of_the_job_that_began_meanwhile_is_not_that_of_the_first(
    snapshot: NodeSnapshot, tmp_path: Path
) -> None:
    first, second = looked(snapshot, tmp_path, [FIRST, SECOND])
    assert first.sentence == ENDED
    assert second.sentence.startswith("a job that RAS names: 6 ranks, all have launched as many")
    assert second.verdict == JobVerdict.UNKNOWN


def test_texts_of_two_jobs_are_not_compared(snapshot: NodeSnapshot, tmp_path: Path) -> None:
    six = RasJob(nodes=1, processes=6, gpus=6, processes_per_node=6)
    behind, healthy = (replace(parse_text(text.encode()), job=six) for text in (BEHIND, HEALTHY))
    first, second = looked(snapshot, tmp_path, [behind, healthy])
    assert (first.sentence, first.verdict) == (ENDED, JobVerdict.UNKNOWN)
    assert second.verdict == JobVerdict.UNKNOWN, "of the first job nothing was launched since"
    (same,) = looked(snapshot, tmp_path, [behind, healthy], end=())
    assert same.verdict == JobVerdict.RUNS
