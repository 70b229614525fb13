"""Where the jobs of a node stand, as findings of its check."""

from __future__ import annotations

import json

import msgspec
import pytest

from gputop.topology.jobs.finding import finding_of
from gputop.topology.jobs.standing import JobState, RankState
from gputop.topology.model.finding import FLAG_COSTS, JOB, Finding, Kind, Subject
from gputop.topology.model.one_reason import without_told
from gputop.topology.model.page import SIMULATED, Fix
from gputop.topology.model.severity import BROKEN, NOTICE, SLOW, JobVerdict, Severity
from tests.support.command import gputop_here
from tests.support.places import RECORDINGS


@pytest.mark.parametrize(
    ("verdict", "severity"),
    [
        (JobVerdict.HANGS, BROKEN),
        (JobVerdict.FAULTY, SLOW),
        (JobVerdict.WAITS, SLOW),
        (JobVerdict.SLOW, SLOW),
        (JobVerdict.UNKNOWN, NOTICE),
        (JobVerdict.RUNS, NOTICE),
    ],
)
def test_a_job_counts_as_its_verdict_does(verdict: JobVerdict, severity: Severity) -> None:
    rank = RankState(rank=3, pid=41, label="rank 3 (pid 41, GPU3)")
    steps = ("py-spy dump --pid 41", "py-spy dump --pid 40")
    job = JobState(
        name="a", program="a", sentence="a: said", verdict=verdict, ranks=(rank,), steps=steps
    )
    found = finding_of(job)
    assert (found.severity, found.title) == (severity, "a: said")
    text = "Run this next for a, about rank 3 (pid 41, GPU3)."
    assert found.fix == (Fix(text=text, command="py-spy dump --pid 41"),)


@pytest.mark.parametrize(("demo", "code"), [("sick-h100-8", 2), ("hgx-h100-8", 0)])
def test_check_says_of_a_job_what_jobs_says(demo: str, code: int) -> None:
    (job,) = json.loads(gputop_here("jobs", "--json", "--demo", demo).stdout)["jobs"]
    done = gputop_here("check", "--quick", "--jobs", "--json", "--demo", demo)
    answer = json.loads(done.stdout)
    (found,) = [one for one in answer["findings"] if one["id"] == JOB]
    assert found["title"] == f"{job['sentence']} ({SIMULATED})", "a demo runs no job"
    assert done.returncode == answer["exit_code"] == code
    alone = json.loads(gputop_here("check", "--quick", "--json", "--demo", demo).stdout)
    assert JOB not in {one["id"] for one in alone["findings"]}


@pytest.mark.parametrize("demo", ["sick-h100-8", "slow-job-h100-8"])
def test_a_rank_of_a_demo_does_one_thing_at_every_door(demo: str) -> None:
    """The node said that a process runs, and the job that it sleeps, in a place it did not name."""
    node = json.loads(gputop_here("snapshot", "--demo", demo).stdout)
    (job,) = json.loads(gputop_here("jobs", "--json", "--demo", demo).stdout)["jobs"]
    here = {one["pid"]: one for one in node["readings"]["processes"]}
    for rank in job["ranks"]:
        process = here[rank["pid"]]
        assert set(rank["states"]) == {process["state"]}
        assert rank["wait_channel"] == process["wait_channel"]
        assert rank["wait_channel"] is None or rank["wait_channel"] in job["sentence"]


def test_a_recording_tells_of_its_jobs_with_the_option_and_without() -> None:
    command = ("check", "--quick", "--json", "--from", str(RECORDINGS / "saved-h200x2" / "cpu50"))
    plain, asked = gputop_here(*command), gputop_here(*command, "--jobs")
    assert plain.returncode == asked.returncode == 1
    found = [json.loads(done.stdout)["findings"] for done in (plain, asked)]
    assert found[0] == found[1]
    assert [one["id"] for one in found[0]].count(JOB) == 1


@pytest.mark.parametrize(
    ("name", "variable"), [("p2poff", "NCCL_P2P_DISABLE"), ("chan1", "NCCL_MAX_NCHANNELS")]
)
def test_one_slow_down_has_one_reason(name: str, variable: str) -> None:
    """The variable of a running job was told twice, with other figures and other variables."""
    folder = RECORDINGS / "saved-h200x2" / name
    told = {}
    for source in (folder, folder / "node.json.gz"):
        done = gputop_here("check", "--quick", "--json", "--from", str(source))
        slow = [one for one in json.loads(done.stdout)["findings"] if one["severity"] == "slow"]
        told[source] = [one["id"] for one in slow if variable in one["title"]]
        assert [fix["command"] for fix in slow[0]["fix"]] == [f"unset {variable}"]
    assert list(told.values()) == [[JOB], [FLAG_COSTS]]
    (job,) = json.loads(gputop_here("jobs", "--json", "--from", str(folder)).stdout)["jobs"]
    assert [part for part in job["sentence"].split() if part.startswith("NCCL_")] == [
        f"{variable}=1"
    ]


def test_what_a_job_does_not_say_is_kept() -> None:
    """A finding about more variables, other processes, or this environment stands beside it."""
    flags = [Subject(Kind.FLAG, name) for name in ("NCCL_A", "NCCL_B")]
    pids = [Subject(Kind.PROCESS, pid) for pid in ("41", "42")]
    job = Finding.of(JOB, SLOW, "a: NCCL_A=1 is set", about=(flags[0], *pids))
    own = Finding.of(FLAG_COSTS, SLOW, "NCCL_A=1 costs")
    same = msgspec.structs.replace(own, about=(flags[0], *pids))
    more = msgspec.structs.replace(own, about=(*flags, *pids))
    other = msgspec.structs.replace(own, about=(flags[0], Subject(Kind.PROCESS, "43")))
    worse = msgspec.structs.replace(same, severity=BROKEN)
    assert without_told((own, same, more, other, worse), (job,)) == (own, more, other, worse)
    assert without_told((same,), ()) == (same,)
