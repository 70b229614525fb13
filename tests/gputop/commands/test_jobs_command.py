"""`gputop jobs` as a person types it."""

import json
from pathlib import Path

from gputop.exits import CANNOT_TELL, USAGE
from tests.support.command import gputop_here
from tests.topology.jobs.flight.test_compare import REAL


def test_the_demo_with_a_faulty_gpu_hangs_and_says_that_it_is_simulated() -> None:
    done = gputop_here("jobs", "--demo", "sick-h100-8")
    text = " ".join(done.stdout.split())
    assert done.returncode == 0
    assert text.startswith("simulated: a demo")
    assert "train.py: 6 ranks, 5 wait in all-reduce 1042" in text
    assert "py-spy dump --pid 41003" in text


def test_the_document_says_where_each_fact_is_from() -> None:
    done = gputop_here("jobs", "--demo", "hgx-h100-8", "--json")
    document = json.loads(done.stdout)
    assert (document["schema"], document["simulated"]) == ("gputop.jobs/1", True)
    (job,) = document["jobs"]
    assert (job["verdict"], len(job["ranks"])) == ("runs", 6)
    assert {fact["from"] for fact in job["facts"]} == {"RAS", "/proc", "driver"}


def test_a_dump_of_the_flight_recorder_is_read_by_from() -> None:
    done = gputop_here("jobs", "--from", str(REAL))
    text = " ".join(done.stdout.split())
    assert "1 waited in all-reduce 1 of the default group when the dump was written" in text
    assert "no dump of rank 1" in text


def test_a_dump_that_would_run_something_is_refused_in_one_line(tmp_path: Path) -> None:
    hostile = tmp_path / "trace_0"
    hostile.write_bytes(b"\x80\x02}X\x07\x00\x00\x00entriescos\nsystem\nX\x02\x00\x00\x00id\x85R.")
    done = gputop_here("jobs", "--from", str(hostile))
    assert done.returncode == CANNOT_TELL
    assert "is not among those of plain data" in done.stderr
    assert "Traceback" not in done.stderr


def test_ras_is_not_asked_about_files() -> None:
    done = gputop_here("jobs", "--ras", "--from", str(REAL))
    assert done.returncode == USAGE
    assert "leave out --from" in done.stderr
