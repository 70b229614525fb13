"""Saved answers of RAS: alone, several, mixed with other texts, and broken ones."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path

import pytest

from gputop.answers.jobs import JobsRequest, answer
from gputop.topology.jobs.flight.files import FoundDumps
from gputop.topology.jobs.from_files import of_files
from gputop.topology.jobs.saved import (
    CUT,
    LARGE,
    MOST_BYTES,
    in_sections,
    named,
    states_with_answers,
)
from gputop.topology.jobs.standing import JobState
from gputop.topology.model.severity import JobVerdict
from gputop.topology.recorded.formats.ncclras import TOOL
from gputop.topology.recorded.kept import KEPT_BYTES
from gputop.topology.recorded.pasted import PastedSection
from tests.support.hostile_names import HOSTILE, lines_in, obeyed
from tests.support.places import RECORDINGS
from tests.topology.jobs.ras.service import document, missing, rank
from tests.topology.jobs.ras.test_text import BEHIND, HEALTHY, STATES

RAS = RECORDINGS / "ras"
PUBLIC = RAS / "public"


LATER = re.compile(r'"timestamp": "[^"]*"')
TIME = '"timestamp": "2026-11-24 15:16:57"'
FIRST, SECOND = "2026-11-23 15:00:00", "2026-11-23 15:10:00"


def jobs_of(folder: Path, text: str | bytes) -> tuple[JobState, ...]:
    path = folder / "ras.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    saved, others = named([str(path)])
    assert others == ()
    return tuple(state for state, _ in states_with_answers(saved))


def counted(*launched: int, at: str = "2026-11-23 15:00:00") -> str:
    ranks = [rank(number, 11 + number, count) for number, count in enumerate(launched)]
    return json.dumps(json.loads(document(ranks)) | {"timestamp": at}, indent=2)


@pytest.mark.parametrize(
    ("name", "verdict", "said"),
    [
        ("dead-2.30.7", "faulty", "a job, pid 3748990 (GPU3 of node1) is given up by RAS"),
        (
            "exited-2.30.7",
            JobVerdict.FAULTY,
            "8 ranks, rank 7 (pid 3748990, GPU3 of node1) does not answer",
        ),
        (
            "healthy-2.30.7",
            JobVerdict.UNKNOWN,
            "8 ranks on 2 nodes, all answer RAS and have launched equally",
        ),
        (
            "missing-2.24",
            JobVerdict.FAULTY,
            "32 ranks, rank 21 does not answer RAS and pid 3487984 (GPU5 of",
        ),
        (
            "straggler-2.30.7",
            JobVerdict.UNKNOWN,
            "8 ranks, rank 7 launched all-reduce 60, 7 others 64; only",
        ),
        (
            "stragglers-2.26.2",
            JobVerdict.UNKNOWN,
            "30 ranks launched all-gather 640, 2 others 641; only one",
        ),
        ("teardown-2.24", "unknown", "32 ranks, their communicator is being taken down"),
        (
            "uneven-2.27.3",
            JobVerdict.FAULTY,
            "10 processes on 2 nodes, rank 1 (pid 60004, GPU0 of 10.4.109",
        ),
    ],
)
def test_texts_that_people_quote(tmp_path: Path, name: str, verdict: str, said: str) -> None:
    (job,) = jobs_of(tmp_path, (PUBLIC / f"{name}.txt").read_bytes())
    assert job.verdict == verdict
    assert said in job.sentence
    assert job.sentence.startswith("RAS as saved (ras.txt, lines ")
    assert not any(fact.sources != ("RAS",) for fact in job.findings)
    assert "only a second answer would show it" in job.unknown[0]
    assert all(step.endswith(", if it still runs") for step in job.steps)


@pytest.mark.parametrize("name", ["killed.json.txt", "killed.txt", "stopped.json.txt"])
def test_what_the_service_wrote_as_text_and_as_json(tmp_path: Path, name: str) -> None:
    (job,) = jobs_of(tmp_path, (RAS / name).read_bytes())
    assert job.verdict == JobVerdict.FAULTY
    assert (
        "does not answer RAS: its process is stopped, ended, cut off or starved of CPU time"
        in job.sentence
    )


COPIES = [
    ("behind.txt", "behind.txt"),
    ("behind.json", "behind.txt"),
    ("behind.txt", "behind.json"),
    ("behind.json", "behind.json"),
    ("killed.txt", "killed.txt"),
]


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("names", COPIES)
def test_an_answer_and_its_copy_are_one_look(
    tmp_path: Path, names: tuple[str, str], apart: bool
) -> None:
    """One answer alone, twice in a file or in files of two names, or in both formats."""
    one, other = ((RAS / name).read_text() for name in names)
    alone = jobs_of(tmp_path, one)[0]
    parts = [one, other] if apart else [f"{one}\n{other}"]
    for at, part in enumerate(parts):
        (tmp_path / f"{at}.txt").write_text(part)
    (tmp_path / "ras.txt").unlink()
    (job,) = of_files(None, FoundDumps(), named([str(tmp_path)])[0]).jobs
    assert job.verdict is alone.verdict
    assert [rank.rank for rank in job.accused] == [rank.rank for rank in alone.accused]
    assert not any("between two answers" in finding.title for finding in job.findings)
    assert any("only a second answer" in text for text in job.unknown)


def test_a_copy_of_a_job_here_stands_not_beside_it(tmp_path: Path) -> None:
    """Both were taken for its answers, or the copy for those of another job."""
    folder = RECORDINGS / "saved-h200x2" / "cpu50"
    shutil.copytree(folder, tmp_path / "job")
    shutil.copy(tmp_path / "job" / "ras.txt", tmp_path / "job" / "again.txt")
    sources = (str(tmp_path / "job"),)
    (job,) = answer(JobsRequest(sources=sources)).report.jobs
    assert "rank 1 is late" in job.sentence


def test_answers_count_in_the_order_of_their_clock(tmp_path: Path) -> None:
    earlier, later = counted(41, 41, at=FIRST), counted(50, 50, at=SECOND)
    told = {
        text: jobs_of(tmp_path, text)[0] for text in (f"{earlier}\n{later}", f"{later}\n{earlier}")
    }
    assert {job.verdict for job in told.values()} == {JobVerdict.RUNS}
    assert all("41 to 50" in job.sentence for job in told.values())


def test_less_than_before_is_no_progress_of_the_same_job(tmp_path: Path) -> None:
    (job,) = jobs_of(tmp_path, f"{counted(41, 41, at=FIRST)}\n{counted(5, 5, at=SECOND)}")
    assert job.verdict is JobVerdict.UNKNOWN
    assert "41" not in job.sentence


def test_an_answer_that_was_kept_twice_counts_once(tmp_path: Path) -> None:
    (job,) = jobs_of(tmp_path, 2 * f"{counted(41, 40)}\n")
    assert job.verdict is JobVerdict.UNKNOWN
    assert job.accused == ()
    assert any("a second answer" in text for text in job.unknown)


@pytest.mark.parametrize("second", ["3026-11-23 15:00:00", "2028-11-23 15:00:00"])
def test_clocks_that_differ_tell_no_duration(tmp_path: Path, second: str) -> None:
    (job,) = jobs_of(tmp_path, f"{counted(41, 40)}\n{counted(41, 40, at=second)}")
    assert "no progress for" not in job.sentence


@pytest.mark.parametrize("count", [None, "absent", -1, 1 << 64, "NaN"])
def test_a_count_that_cannot_be_read_is_not_zero(tmp_path: Path, count: object) -> None:
    texts = []
    for at in (FIRST, SECOND):
        raw = json.loads(counted(41, 41, at=at))
        counts = raw["communicators"][0]["ranks"][1]["collective_counts"]
        counts.clear() if count == "absent" else counts.update(dict.fromkeys(counts, count))
        texts.append(json.dumps(raw, indent=2))
    (job,) = jobs_of(tmp_path, "\n".join(texts))
    assert job.verdict is JobVerdict.UNKNOWN
    assert job.ranks[1].last is None
    assert "1 of 2" in job.sentence


def test_a_rank_behind_on_two_h100(tmp_path: Path) -> None:
    told = (RAS / "behind.json").read_text()
    (job,) = jobs_of(tmp_path, f"{told}\n{LATER.sub(TIME, told)}")
    assert job.verdict == JobVerdict.WAITS
    assert "1 waits in all-reduce 41" in job.sentence
    assert "rank 1 (pid 1986, GPU1 of 192.0.2.2)" in job.sentence
    assert "its last all-reduce was 40" in job.sentence


def test_two_answers_of_one_job_are_compared(tmp_path: Path) -> None:
    (job,) = jobs_of(tmp_path, BEHIND + "\n$ ncclras -v\n" + BEHIND)
    assert (job.verdict, job.accused) == (JobVerdict.UNKNOWN, ()), "texts tell no time"
    (job,) = jobs_of(tmp_path, BEHIND + "\n" + HEALTHY)
    assert job.verdict == JobVerdict.RUNS
    assert "and 1 before" in job.name


@pytest.mark.parametrize(
    ("later", "launched", "verdict"),
    [
        ("05:00", (7, 6), "waits"),
        ("11:00", (7, 6), "hangs"),
        ("00:40", (7, 7), "runs"),
    ],
)
def test_the_time_between_two_answers_in_json(
    tmp_path: Path, later: str, launched: tuple[int, ...], verdict: str
) -> None:
    second = counted(*launched, at=f"2026-11-23 15:{later}")
    (job,) = jobs_of(tmp_path, f"{counted(7, 6)}\n{second}\n")
    assert job.verdict == verdict
    if verdict == JobVerdict.HANGS:
        assert "1 waits in all-reduce 7" in job.sentence
        assert "(no progress for 11 min)" in job.sentence


def test_two_jobs_in_one_text(tmp_path: Path) -> None:
    other = document([rank(0, 91, 3)], [missing(1, 92)], name="0xff").decode()
    first, second = jobs_of(tmp_path, f"{counted(7, 7)}\n{other}")
    assert (first.verdict, second.verdict) == (JobVerdict.UNKNOWN, JobVerdict.FAULTY)


def test_states_and_errors(tmp_path: Path) -> None:
    (job,) = jobs_of(tmp_path, STATES)
    assert job.verdict == JobVerdict.FAULTY
    assert "rank 0 (pid 11, GPU0 of 127.0.0.1) has aborted its communicator" in job.sentence


def test_as_it_is_quoted_packed_and_in_a_folder(tmp_path: Path) -> None:
    quoted = "".join(f"> {line}\n" for line in BEHIND.splitlines())
    assert "rank 2 launched" in jobs_of(tmp_path, quoted)[0].sentence
    indented = "".join(f"    {line}\n" for line in BEHIND.splitlines())
    assert "rank 2 launched" in jobs_of(tmp_path, indented)[0].sentence
    narrow = "\n".join(" ".join(line.split()) for line in BEHIND.splitlines())
    assert "rank 2 launched" in jobs_of(tmp_path, narrow)[0].sentence
    assert "rank 2 launched" in jobs_of(tmp_path, gzip.compress(BEHIND.encode()))[0].sentence
    compact = json.dumps(json.loads(counted(7, 6)))
    assert "rank 1 launched all-reduce 6" in jobs_of(tmp_path, compact)[0].sentence
    (tmp_path / "more.txt").write_text("nothing of it\n")
    saved, others = named([str(tmp_path)])
    assert (len(saved.answers), others) == (1, (str(tmp_path / "more.txt"),))


def test_a_broken_answer_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_text(counted(7, 6)[:900])
    saved, others = named([str(path)])
    assert (saved.answers, others) == ((), ())
    assert saved.refused[0][1].endswith("its JSON is broken or cut off")


def test_other_files_are_none(tmp_path: Path) -> None:
    for text in (b"", b"hello\n", b'{"nccl_version": "2.28", "entries": []}', b"\x80\x04N."):
        path = tmp_path / "file"
        path.write_bytes(text)
        assert named([str(path)])[1] == (str(path),)
    assert named(["/nowhere/at/all"])[1] == ("/nowhere/at/all",)


def test_json_of_a_job_with_many_ranks_is_read_to_its_end(tmp_path: Path) -> None:
    """Of other texts 4 MiB are looked through; this answer is longer."""
    ranks = [rank(number, number + 1, 60 + (number != 7)) for number in range(25_000)]
    data = document(ranks)
    assert len(data) > KEPT_BYTES
    (job,) = jobs_of(tmp_path, data)
    assert "25,000 ranks, rank 7 launched all-reduce 60, 24,999 others 61" in job.sentence


def test_json_that_is_too_long_to_be_read_says_so(tmp_path: Path) -> None:
    path = tmp_path / "ras.json"
    path.write_bytes(document([rank(0, 1, 7)]).rstrip() + b" " * MOST_BYTES)
    saved, others = named([str(path)])
    assert (saved.answers, others) == ((), ())
    assert saved.refused == (("ras.json", LARGE),)


def test_json_that_was_cut_by_the_reader_is_not_called_broken_alone(tmp_path: Path) -> None:
    data = document([rank(number, number + 1, 7) for number in range(25_000)])
    lines = tuple(data[:KEPT_BYTES].decode().split("\n"))
    (refused,) = in_sections("job.log", (PastedSection(TOOL, 1, lines),)).refused
    assert refused[1].endswith(f"; {CUT}")


@pytest.mark.parametrize("name", HOSTILE)
def test_no_command_holds_a_hostile_host(tmp_path: Path, name: str) -> None:
    text = (PUBLIC / "exited-2.30.7.txt").read_text()
    sound = [*lines_in(jobs_of(tmp_path, text))]
    assert any("node1" in line for line in sound)
    sound += [line.replace("on node1", "on its node") for line in sound]
    renamed = text.replace("node1", name).encode("utf-8", "replace")
    found = [*lines_in(jobs_of(tmp_path, renamed))]
    # What the parser makes of a name, "a" of "a b", is another name, and a sound one.
    assert obeyed(name, found, [*sound, *(line for line in found if "on a," in line)]) == []
