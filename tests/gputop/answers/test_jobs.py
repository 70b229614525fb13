"""Jobs as lines."""

from __future__ import annotations

from msgspec.structs import replace

from gputop.answers.jobs import answer_of, page
from gputop.printing.render import texts
from gputop.simulating.jobs import simulated
from gputop.topology.jobs.asking import JobsReport
from gputop.topology.jobs.troubles import STOPPED
from gputop.topology.model.surroundings import Container, ContainerKind, Host
from tests.support.expectation_made import demo

DEMO = "sick-h100-8"


def test_the_sentence_comes_first_and_no_line_is_wider_than_the_terminal() -> None:
    snapshot = demo(DEMO)
    for width in (40, 80, 160):
        told = texts(page(answer_of(simulated(snapshot, DEMO), snapshot)).blocks, width)
        assert told[0].startswith("✗ train.py: 6 ranks")
        commands = next(at for at, line in enumerate(told) if line.startswith("  Next steps"))
        assert max(map(len, told[:commands])) <= width


def test_why_there_is_no_job_is_said_as_far_as_it_is_known() -> None:
    snapshot = demo("hgx-h100-8")
    unknown = tuple(replace(gpu, processes=None) for gpu in snapshot.readings.gpus)
    none = tuple(replace(gpu, processes=()) for gpu in snapshot.readings.gpus)
    for gpus, kind, said in (
        (unknown, None, "the driver does not say"),
        (none, None, "no process uses a GPU"),
        (none, ContainerKind.DOCKER, "from inside a container"),
    ):
        readings = replace(snapshot.readings, gpus=gpus)
        host = replace(snapshot.machine.host or Host(), container=Container(kind=kind))
        node = replace(snapshot, readings=readings, machine=replace(snapshot.machine, host=host))
        (line,) = texts(page(answer_of(JobsReport(jobs=()), node)).blocks, 80)
        assert said in line


def test_of_thousands_of_ranks_those_that_something_is_wrong_with_are_shown() -> None:
    (job,) = simulated(demo(DEMO), DEMO).jobs
    fine = next(rank for rank in job.ranks if rank.trouble is None)
    many = tuple(
        replace(fine, rank=at, trouble=STOPPED if at == 4321 else None) for at in range(5000)
    )
    report = JobsReport(jobs=(replace(job, ranks=many),))
    told = texts(page(answer_of(report)).blocks, 160)
    assert "  and 4,872 more ranks; --json has all" in told
    rows = [line.split()[0] for line in told[2 : 2 + 129] if line.split()[0].isdecimal()]
    assert rows == [*map(str, range(127)), "4321"]
