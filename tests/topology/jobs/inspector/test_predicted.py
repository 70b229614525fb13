"""The speed of recorded collectives beside what is predicted for the job's GPUs."""

from __future__ import annotations

import msgspec
import pytest

from gputop.topology.jobs.grouping import Job, jobs
from gputop.topology.jobs.held_back import KeptForNode, cost_of
from gputop.topology.jobs.inspector.comparing import Inspected, compare
from gputop.topology.jobs.inspector.predicted import speed_findings
from gputop.topology.jobs.inspector.records import read
from gputop.topology.model.finding import Finding
from gputop.topology.model.severity import NOTICE, SLOW
from gputop.topology.model.snapshot import Measurement, NodeSnapshot
from tests.support.app import demo_report
from tests.support.places import RECORDINGS


def two_ranks(snapshot: NodeSnapshot, variables: dict[str, str]) -> Job:
    """The first two ranks of a demo's job, as a job of two."""
    (job, *_) = jobs(snapshot)
    users = tuple(
        msgspec.structs.replace(
            user,
            reading=msgspec.structs.replace(user.reading, variables=tuple(variables.items())),
        )
        for user in job.processes[:2]
    )
    gpus = tuple(gpu for user in users for gpu in user.gpus)
    return msgspec.structs.replace(job, processes=users, gpus=gpus, world_size=2)


def told(inspected: Inspected, snapshot: NodeSnapshot, job: Job) -> list[Finding]:
    """What is said of the speed of its collectives."""
    return list(speed_findings(inspected, snapshot, job, cost_of(snapshot, job)))


@pytest.mark.parametrize(
    ("variables", "severity", "said"),
    [
        ({}, NOTICE, " GB/s on the bus, 333 GB/s predicted for these GPUs"),
        ({"NCCL_P2P_DISABLE": "1"}, SLOW, " without NCCL_P2P_DISABLE=1"),
    ],
)
def test_a_collective_stands_beside_its_prediction(
    variables: dict[str, str], severity: object, said: str
) -> None:
    folder = RECORDINGS / "inspector" / "h100x2-tp"
    inspected = compare(read([str(path) for path in sorted(folder.iterdir())]).operations)
    snapshot = demo_report("hgx-h100-8").snapshot
    (finding,) = told(inspected, snapshot, two_ranks(snapshot, variables))
    assert finding.severity is severity
    assert said in finding.title


def test_what_variables_cost_is_kept_while_the_node_stays() -> None:
    first = demo_report("hgx-h100-8").snapshot
    kept = KeptForNode[int](2)
    made: list[int] = []

    def answer(snapshot: NodeSnapshot, *variables: tuple[str, str]) -> int:
        def make() -> int:
            made.append(len(made))
            return made[-1]

        return kept.answer(snapshot, (None, (), variables), make)

    later = msgspec.structs.replace(first, taken_at=first.taken_at + 3)
    assert [answer(first), answer(later)] == [0, 0]
    assert [answer(later, ("NCCL_ALGO", "Ring")), answer(first)] == [1, 0]
    other = msgspec.structs.replace(first, machine=msgspec.structs.replace(first.machine))
    assert answer(other) == 2
    figure = Measurement(probe="p2p", quantity="access")
    measured = msgspec.structs.replace(first, measurements=(figure,))
    assert answer(measured) == 3


def test_a_slow_one_is_said_to_be() -> None:
    folder = RECORDINGS / "inspector" / "h100x2-tp"
    slow = [
        msgspec.structs.replace(one, seconds=one.seconds * 40)
        for one in read([str(path) for path in sorted(folder.iterdir())]).operations
    ]
    snapshot = demo_report("hgx-h100-8").snapshot
    job = two_ranks(snapshot, {"NCCL_MAX_NCHANNELS": "1"})
    (finding,) = told(compare(slow), snapshot, job)
    assert finding.severity is SLOW
    assert " only, " in finding.title
    assert " without NCCL_MAX_NCHANNELS=1" in finding.title
