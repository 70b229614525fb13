"""Records that are lost, contradict each other, are of several jobs, too old, or not known."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gputop.answers.jobs import JobsRequest, answer
from gputop.reading import load_snapshot
from gputop.topology.jobs.inspector import records
from gputop.topology.jobs.standing import JobState
from gputop.topology.model.severity import JobVerdict
from tests.support.places import RECORDINGS
from tests.topology.jobs.inspector.made import lines

SAVED = RECORDINGS / "saved-h200x2"
DAY = 86_400.0


def late(rank: int, _: int) -> float:
    return 250.0 if rank else 28_000.0


def even(rank: int, number: int) -> float:
    return 300.0 + rank + number % 3


def told(folder: Path, files: dict[str, bytes]) -> tuple[JobState, ...]:
    for name, text in files.items():
        (folder / name).write_bytes(text)
    return answer(JobsRequest(sources=(str(folder),))).report.jobs


def files(took: Callable[[int, int], float] = late, **other: Any) -> dict[str, bytes]:
    first = other.setdefault("first_pid", 700)
    return {f"vm-pid{first + rank}.log": text for rank, text in lines(took, 60, **other).items()}


def some(text: bytes, keep: Callable[[int], bool]) -> bytes:
    return b"\n".join(line for at, line in enumerate(text.split(b"\n")) if keep(at))


def changed(text: bytes, **values: Any) -> bytes:
    """The same records with other values, of whatever part has them."""
    found = [json.loads(line) for line in text.splitlines()]
    for one in found:
        for part in one.values():
            part |= {name: value for name, value in values.items() if name in part}
    return b"\n".join(json.dumps(one).encode() for one in found) + b"\n"


# One line on what is wrong with the material; each kind of it, made up of two sound files.
LOST: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "every other": (
        lambda text: some(text, lambda at: at % 2 == 0),
        "rank 1 has those of 30 of 60",
    ),
    "the end": (lambda text: some(text, lambda at: at < 20), "rank 1 has those of 20 of 60"),
    "said twice": (lambda text: text + changed(text, coll_exec_time_us=999.0), "two say different"),
    "other sizes": (lambda text: changed(text, coll_msg_size_bytes=4096), "ranks recorded other"),
    "another kind": (lambda text: changed(text, coll="Broadcast"), "has those of 0 of 60"),
    "more ranks": (lambda text: changed(text, n_ranks=8), "its records say 2 and 8"),
    "a second rank 0": (lambda text: changed(text, rank=0), "records say pid 700 and pid 701"),
    "a newer format": (
        lambda text: changed(text, inspector_output_format_version="v99.7"),
        "a format v99.7, which gputop does not know",
    ),
    "no format": (
        lambda text: changed(text, inspector_output_format_version=None),
        "a format without a name",
    ),
}


@pytest.mark.parametrize("kind", LOST)
def test_what_is_wrong_with_records_is_one_line(kind: str, tmp_path: Path) -> None:
    spoil, said = LOST[kind]
    sound = files()
    (job,) = told(tmp_path, sound | {"vm-pid701.log": spoil(sound["vm-pid701.log"])})
    assert sum(said in line for line in job.unknown) == 1, job.unknown


def test_sound_records_have_no_such_line(tmp_path: Path) -> None:
    (job,) = told(tmp_path, files())
    words = [said for _, said in LOST.values()]
    assert not [line for line in job.unknown if any(word in line for word in words)]


@pytest.mark.parametrize("kind", ["said twice", "more ranks", "a second rank 0"])
def test_what_contradicts_itself_accuses_nobody(kind: str, tmp_path: Path) -> None:
    spoil, _ = LOST[kind]
    sound = files()
    (job,) = told(tmp_path, sound | {"vm-pid701.log": spoil(sound["vm-pid701.log"])})
    assert job.verdict is JobVerdict.UNKNOWN
    assert "records that contradict each other" in job.sentence
    assert not job.accused
    assert not [line for line in job.unknown if "lost records" in line]


@pytest.mark.parametrize("same", [False, True])
def test_two_jobs_that_say_to_be_one_at_a_time_are_not_compared(
    tmp_path: Path, *, same: bool
) -> None:
    other = files(even, first_pid=800, communicator="0x9f64" if same else "0xabc")
    jobs = told(tmp_path, files() | other)
    assert len(jobs) == 2 - same
    assert ("contradict" in jobs[0].sentence) == same


def test_a_byte_order_mark_is_no_torn_line(tmp_path: Path) -> None:
    own = files()
    own["vm-pid700.log"] = b"\xef\xbb\xbf" + own["vm-pid700.log"].replace(b"\n", b"\r\n")
    (job,) = told(tmp_path, own)
    assert "in 60 of 60 all-reduces" in job.sentence


def test_a_rank_without_records_is_named(tmp_path: Path) -> None:
    own = files(ranks=4)
    own.pop("vm-pid703.log")
    (job,) = told(tmp_path, own)
    assert "records of ranks 0, 1 and 2 alone, of 4, and none of rank 3" in job.sentence


def test_no_collective_is_faster_than_the_links(tmp_path: Path) -> None:
    (job,) = told(tmp_path, files(lambda rank, _: 0.5 if rank else 300.0))
    assert "GB/s" not in job.sentence
    assert records.MOST_BUS_GBS < 134_218
    found = records.read([str(tmp_path / "vm-pid701.log")])
    assert found.operations == ()
    assert "60 records of it with figures that cannot be" in found.refused[0][1]


@pytest.mark.parametrize("same", [False, True])
def test_two_jobs_are_two(tmp_path: Path, *, same: bool) -> None:
    """Of another communicator, or of one that was started again under the same identifier."""
    other = files(even, first_pid=800, communicator="0x9f64" if same else "0xabc")
    if same:
        hour = 3_600_000_000
        other = {
            name: re.sub(
                rb'("dump_timestamp_us": )(\d+)',
                lambda found: found[1] + str(int(found[2]) + hour).encode(),
                text,
            )
            for name, text in other.items()
        }
    one, two = told(tmp_path, files() | other)
    assert (one.verdict, two.verdict) == (JobVerdict.SLOW, JobVerdict.UNKNOWN)
    assert "pid 700 and 701, communicator 0x9f64" in one.name
    assert "pid 800 and 801" in two.name
    for job in (one, two):
        assert any("no process and no communicator is in both" in line for line in job.unknown)


def test_groups_of_one_job_stay_together(tmp_path: Path) -> None:
    """Two pairs that only the communicator of all joins."""
    own = files(even, ranks=4)
    for at in range(4):
        pair = lines(even, 60, communicator=f"0xb{at // 2}", first_pid=700 + at - at % 2)[at % 2]
        own[f"vm-pid{700 + at}.log"] += pair
    (job,) = told(tmp_path, own)
    assert "4 ranks" in job.sentence


@pytest.mark.parametrize("name", ["cpu50", "gpu5", "loader30"])
def test_what_is_a_day_old_speaks_of_then(name: str, tmp_path: Path) -> None:
    fresh = answer(JobsRequest(sources=(str(SAVED / name),))).report.jobs
    for path in (SAVED / name).iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    node = tmp_path / "node.json.gz"
    snapshot = load_snapshot((str(node),))
    node.unlink()
    later = msgspec.structs.replace(snapshot, taken_at=snapshot.taken_at + DAY)
    (tmp_path / "node.json").write_bytes(msgspec.json.encode(later))
    jobs = answer(JobsRequest(sources=(str(tmp_path),))).report.jobs
    old = next(job for job in jobs if job.name.startswith("NCCL Inspector"))
    assert [job.verdict for job in fresh] == [JobVerdict.SLOW]
    assert old.verdict is JobVerdict.UNKNOWN
    assert "before the node was read: 2 ranks, rank 1 was late, a step took" in old.sentence
    assert "is late" not in "".join(job.sentence + job.brief for job in jobs)
    assert not [rank for job in jobs for rank in job.accused]
