"""What somebody kept of a job in one folder, read together: RAS, records and a snapshot."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timezone
from pathlib import Path

import msgspec
import pytest

from gputop.answers.jobs import JobsAnswer, JobsRequest, answer
from gputop.reading import load_snapshot
from gputop.topology.jobs.held_back import most_channels
from gputop.topology.jobs.inspector.blaming import late_for
from gputop.topology.jobs.inspector.comparing import compare
from gputop.topology.jobs.inspector.records import looks_like, read
from gputop.topology.jobs.inspector.telling import unknown
from gputop.topology.jobs.judge import JobFacts, sentence
from gputop.topology.jobs.standing import Sentence
from gputop.topology.model.severity import SLOW, JobVerdict
from tests.support.places import RECORDINGS
from tests.topology.jobs.inspector.made import lines

SAVED = RECORDINGS / "saved-h200x2"
STEP_MS = 6.7


def kept(name: str) -> JobsAnswer:
    return answer(JobsRequest(sources=(str(SAVED / name),)))


@pytest.mark.parametrize(
    ("name", "verdict", "late", "reason", "step_ms"),
    [
        ("cpu50", JobVerdict.SLOW, 1, "its GPU has no work for 88 % of the time", 55.7),
        ("gpu5", JobVerdict.SLOW, 1, "busy for 99 % of the time, with other work", 31.7),
        ("loader30", JobVerdict.SLOW, 1, "its GPU has no work for 83 % of the time", 35.2),
        ("chan1", JobVerdict.SLOW, None, "NCCL_MAX_NCHANNELS=1 is set", 16.6),
        ("p2poff", JobVerdict.SLOW, None, "NCCL_P2P_DISABLE=1", 12.6),
        ("tp", JobVerdict.RUNS, None, "collectives are launched", None),
    ],
)
def test_all_that_was_kept_is_about_one_job(
    name: str, verdict: JobVerdict, late: int | None, reason: str, step_ms: float | None
) -> None:
    (job,) = kept(name).report.jobs
    assert job.verdict is verdict
    assert reason in job.sentence
    assert sum("RAS" in finding.sources for finding in job.findings) == 1
    assert [rank.rank for rank in job.accused] == ([] if late is None else [late])
    if step_ms is None:
        return
    times = float(job.sentence.partition(" times as long")[0].split()[-1])
    if late is None:
        assert times >= 0.9 * step_ms / STEP_MS
        assert "not known how much longer" in job.sentence, "a bound is no price"
        assert f"{times:g} times as long at most" in job.sentence
    else:
        assert f"about {times:g} times as long" in job.sentence
        assert times == pytest.approx(step_ms / STEP_MS, rel=0.3), "the price is what it cost"


def test_a_speed_is_beside_what_the_variables_leave() -> None:
    (job,) = kept("chan1").report.jobs
    (told,) = (one for one in job.findings if one.id == "collective-speed")
    assert told.severity is SLOW
    assert "20.9 GB/s on the bus, 20.8 GB/s predicted" in told.title
    assert "301 GB/s without NCCL_MAX_NCHANNELS=1" in told.title


def test_records_of_another_job_stand_alone(tmp_path: Path) -> None:
    (tmp_path / "node.json.gz").write_bytes((SAVED / "tp/node.json.gz").read_bytes())
    for rank, text in lines(lambda rank, number: 245.0, count=20).items():
        (tmp_path / f"vm-pid{rank + 700}.log").write_bytes(text)
    told = answer(JobsRequest(sources=(str(tmp_path),))).report.jobs
    assert [job.name for job in told] == ["NCCL Inspector", "torchrun 2877"]


def test_a_torn_head_is_still_a_record() -> None:
    text = lines(lambda rank, number: 245.0, count=3)[0]
    assert looks_like(text[40:])
    assert not looks_like(b"some log\nof something\n")


def test_the_more_is_known_the_more_is_said() -> None:
    """The watch names a reason, which records alone do not: records beside it take none away."""
    folder = RECORDINGS / "inspector" / "h100x2-straggler"
    records = read([str(path) for path in sorted(folder.iterdir())])
    inspected = compare(records.operations)
    seen = Sentence("rank 1 is late: it sleeps by a timer", JobVerdict.SLOW)
    alone = sentence("job", "2 ranks", JobFacts(ranks=(), stands_out=seen))
    both = sentence("job", "2 ranks", JobFacts(ranks=(), stands_out=seen, inspected=inspected))
    assert both == alone
    apart = msgspec.structs.replace(JobFacts(ranks=()), inspected=inspected)
    assert sentence("job", "2 ranks", apart).verdict is JobVerdict.SLOW
    left = list(unknown(inspected, records, late=late_for(inspected)))
    assert [text for text in left if text.startswith("why rank 1")]
    assert not [text for text in unknown(inspected, records) if text.startswith("why rank 1")]


@pytest.mark.parametrize(
    ("variables", "channels"),
    [
        ({}, None),
        ({"NCCL_MAX_NCHANNELS": "4"}, 4),
        ({"NCCL_MAX_CTAS": "8", "NCCL_MAX_NRINGS": "2"}, 2),
        ({"NCCL_MAX_NCHANNELS": "0"}, None),
        ({"NCCL_MAX_NCHANNELS": "-1"}, None),
        ({"NCCL_MAX_NCHANNELS": "many"}, None),
    ],
)
def test_the_channels_that_variables_leave(variables: dict[str, str], channels: int | None) -> None:
    job = kept("tp").report.jobs[0].job
    assert job is not None
    users = tuple(
        msgspec.structs.replace(
            user,
            reading=msgspec.structs.replace(user.reading, variables=tuple(variables.items())),
        )
        for user in job.processes
    )
    assert most_channels(msgspec.structs.replace(job, processes=users)) == channels


@pytest.mark.parametrize(
    ("hours", "words"),
    [
        (0, ""),
        (11, ""),
        (36, "about 1 d 12 h before the node was read: 2 ranks, 1 waits"),
        (-30.5, "about 1 d 6 h after the node was read: 2 ranks, 1 waits"),
    ],
)
def test_answers_of_another_day_are_no_verdict_on_now(
    hours: float, words: str, tmp_path: Path
) -> None:
    """The clock of a machine names no zone: within half a day it may be the same time."""
    shutil.copy(SAVED / "tp/node.json.gz", tmp_path)
    taken = load_snapshot((str(tmp_path / "node.json.gz"),)).taken_at - 3600 * hours
    world = json.loads((RECORDINGS / "ras" / "behind.json").read_text())
    for number, rank in enumerate(world["communicators"][0]["ranks"]):
        rank["pid"] = 2885 + number
    parts = []
    for ago in (700, 0):
        at = datetime.fromtimestamp(taken - ago, timezone.utc)
        parts.append(json.dumps(world | {"timestamp": at.strftime("%Y-%m-%d %H:%M:%S")}))
    (tmp_path / "ras.txt").write_text("\n".join(parts))
    jobs = answer(JobsRequest(sources=(str(tmp_path),))).report.jobs
    if not words:
        assert [job.verdict for job in jobs] == [JobVerdict.HANGS]
        return
    then, now = jobs
    assert (then.verdict, now.verdict) == (JobVerdict.FAULTY, JobVerdict.UNKNOWN)
    assert words in then.sentence
    assert then.sentence.endswith("whether that is so still is not known")


@pytest.mark.parametrize("code", ["utf-16", "utf-8-sig", "utf-8"])
def test_an_answer_in_any_code_is_read(code: str, tmp_path: Path) -> None:
    """`>` of PowerShell writes UTF-16."""
    text = (RECORDINGS / "ras" / "behind.json").read_text()
    (tmp_path / "ras.txt").write_bytes(text.encode(code))
    (job,) = answer(JobsRequest(sources=(str(tmp_path),))).report.jobs
    assert "rank 1 launched all-reduce 40, 1 other 41" in job.sentence


def test_a_torn_answer_takes_no_other_one_along(tmp_path: Path) -> None:
    text = (RECORDINGS / "ras" / "behind.json").read_text()
    (tmp_path / "ras.txt").write_text(f"{text[:900]}\n{text}")
    (job,) = answer(JobsRequest(sources=(str(tmp_path),))).report.jobs
    assert "rank 1 launched all-reduce 40, 1 other 41" in job.sentence
