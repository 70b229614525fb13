"""What was kept of a job beside a node, or alone: check, -1, explain and log say what jobs says."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from gputop.exits import Exit
from gputop.reading import load_files, recording
from gputop.topology.model.finding import JOB
from gputop.topology.model.severity import BROKEN, SLOW, Origin
from tests.support.command import gputop_here
from tests.support.places import RECORDINGS
from tests.topology.jobs.inspector.made import lines

RAS, SAVED = RECORDINGS / "ras", RECORDINGS / "saved-h200x2"


def hanging(folder: Path) -> Path:
    """Two answers of RAS, 12 min apart, in which rank 1 is behind."""
    folder.mkdir(exist_ok=True)
    told = json.loads((RAS / "behind.json").read_text())
    later = told | {"timestamp": told["timestamp"][:-5] + "59:59"}
    (folder / "a.json").write_text(json.dumps(told))
    (folder / "b.json").write_text(json.dumps(later))
    return folder


def slow(folder: Path) -> Path:
    made = lines(lambda rank, number: 250.0 if rank else 28_000.0, count=60)
    for rank, text in made.items():
        (folder / f"vm-pid{rank + 100}.log").write_bytes(text)
    return folder


def beside(folder: Path) -> Path:
    shutil.copytree(SAVED / "cpu50", folder, dirs_exist_ok=True)
    return folder


def bundle(folder: Path) -> Path:
    """The node and its job's answers in the one, another tool's output in the other."""
    (folder / "text.txt").write_bytes(
        b"\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n\n" + (RAS / "behind.json").read_bytes()
    )
    return folder


KEPT = {"RAS": hanging, "records": slow, "node": beside}


@pytest.mark.parametrize("kind", KEPT)
def test_check_says_what_jobs_says(kind: str, tmp_path: Path) -> None:
    folder = str(KEPT[kind](tmp_path))
    jobs = gputop_here("jobs", "--json", "--exit-code", "--from", folder)
    (job,) = json.loads(jobs.stdout)["jobs"]
    done = gputop_here("check", "--json", "--from", folder)
    (found,) = [one for one in json.loads(done.stdout)["findings"] if one["id"] == JOB]
    assert found["title"] == job["sentence"]
    assert found["fix"], "what is harmful says what to do"
    assert done.returncode == jobs.returncode > 0
    assert "passed over" not in done.stderr


@pytest.mark.parametrize("kind", KEPT)
def test_the_first_lines_say_it_too(kind: str, tmp_path: Path) -> None:
    folder = str(KEPT[kind](tmp_path))
    jobs = gputop_here("jobs", "--json", "--from", folder)
    (job,) = json.loads(jobs.stdout)["jobs"]
    first, second, *_ = gputop_here("-1", "--from", folder).stdout.splitlines()
    assert " node " in first
    assert second.split()[0] in ("✗", "▼")
    assert job["sentence"].partition(":")[0] in second


def test_what_is_there_of_a_node_is_no_reason_to_call_it_healthy(tmp_path: Path) -> None:
    told = load_files((str(hanging(tmp_path)),)).snapshot
    assert [(one.id, one.origin) for one in told.symptoms] == [(JOB, Origin.JOB)]
    assert "cannot tell" in gputop_here("-1", "--from", str(tmp_path)).stdout


def test_a_text_may_hold_both(tmp_path: Path) -> None:
    told = load_files((str(bundle(tmp_path) / "text.txt"),))
    assert len(told.snapshot.machine.gpus) == 2
    assert [one.id for one in told.snapshot.symptoms] == [JOB]
    assert told.jobs is not None


@pytest.mark.parametrize("kind", KEPT)
def test_log_reads_such_a_folder(kind: str, tmp_path: Path) -> None:
    folder = str(KEPT[kind](tmp_path))
    both = [gputop_here(*words, folder) for words in (("log",), ("jobs", "--from"))]
    assert both[0].stdout == both[1].stdout != ""


def test_the_app_shows_what_was_kept() -> None:
    told = recording((str(SAVED / "gpu5"),))
    assert told.jobs is not None
    (job,) = told.jobs.jobs
    (found,) = [one for one in told.snapshot.symptoms if one.origin is Origin.JOB]
    assert (found.title, found.severity) == (job.sentence, SLOW)
    assert found.devices == job.accused[0].gpus


def test_what_is_no_dump_says_why(tmp_path: Path) -> None:
    (tmp_path / "nccl_trace_rank_0").write_bytes(b"\x80\x02cos\nsystem\n.")
    with pytest.raises(Exit, match="not read as a dump"):
        load_files((str(tmp_path),))


@pytest.mark.parametrize("words", [("jobs", "--from"), ("check", "--from"), ("log",)])
def test_folders_below_are_named(words: tuple[str, ...], tmp_path: Path) -> None:
    for name, make in KEPT.items():
        (tmp_path / name).mkdir()
        make(tmp_path / name)
    (tmp_path / "empty").mkdir()
    done = gputop_here(*words, str(tmp_path))
    assert done.returncode == 3
    named = re.findall(rf"{re.escape(str(tmp_path))}/(\w+)", done.stderr)
    assert sorted(named) == sorted(KEPT)


def test_a_hang_is_broken(tmp_path: Path) -> None:
    (found,) = load_files((str(hanging(tmp_path)),)).snapshot.symptoms
    assert found.severity is BROKEN


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
@pytest.mark.parametrize("words", [("check",), ("jobs",), ("-1",)])
def test_of_two_snapshots_the_newest_is_read_and_said(
    words: tuple[str, ...], names: tuple[str, str], tmp_path: Path
) -> None:
    old, new = names
    shutil.copy(SAVED / "cpu50/node.json.gz", tmp_path / f"{old}.json.gz")
    shutil.copy(SAVED / "tp/node.json.gz", tmp_path / f"{new}.json.gz")
    done = gputop_here(*words, "--from", str(tmp_path))
    assert f"{new}.json.gz is read: {old}.json.gz" in done.stderr
    told = load_files((str(tmp_path),)).snapshot
    alone = load_files((str(tmp_path / f"{new}.json.gz"),)).snapshot
    assert told.readings == alone.readings


def test_lines_to_copy_name_the_machine_that_was_read(tmp_path: Path) -> None:
    for line in recording((str(beside(tmp_path)),)).snapshot.symptoms[0].fix:
        assert line.command.endswith("if it still runs")
    done = gputop_here("jobs", "--from", str(hanging(tmp_path / "ras")))
    assert re.search(r"py-spy dump --pid \d+  # on 192.0.2.2, if it still runs", done.stdout)


def test_records_that_are_asked_for_are_read_without_a_job(tmp_path: Path) -> None:
    done = gputop_here("jobs", "--exit-code", "--inspector", str(slow(tmp_path)))
    assert "rank 1 was late" in done.stdout
    assert done.returncode == 3
    for folder, why in ((tmp_path / "no", "no such folder"), (RAS, "no records")):
        done = gputop_here("jobs", "--inspector", str(folder))
        assert why in done.stderr
        assert done.returncode in (64, 3)


@pytest.mark.parametrize("name", sorted(path.name for path in SAVED.iterdir()))
def test_every_harmful_job_says_what_to_do(name: str) -> None:
    told = recording((str(SAVED / name),))
    for one in told.snapshot.symptoms:
        assert bool(one.fix) or not one.severity.counts
