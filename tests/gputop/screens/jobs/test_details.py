"""Host memory that grew while the app looked on."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gputop.screens.jobs.details import detail_lines, growing, grown_words
from gputop.screens.jobs.list import JobRow
from gputop.topology.jobs.grouping import jobs
from gputop.topology.model.readings import ProcessReading
from tests.support.expectation_made import demo

MIB, GIB = 2**20, 2**30


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ((), ""),
        (((5.0, 0),), ""),
        (((30.0, GIB),), "+1.0 GiB in 30 s (34.1 MiB a second)"),
        (
            ((7200.0, GIB), (60.0, 2 * GIB - MIB)),
            "+1.0 GiB in 2 h 0 min, less than 64.0 MiB more or less in the last 60 s",
        ),
        (((240.0, 3 * GIB), (60.0, 2 * GIB)), "-1.0 GiB in 4 min, "),
    ],
)
def test_growth_in_words(before: tuple[tuple[float, int], ...], said: str) -> None:
    words = grown_words(ProcessReading(pid=1, memory_bytes=2 * GIB, memory_before=before))
    assert words.startswith(said)
    assert bool(words) == bool(said)


def test_the_fastest_ranks_are_named_first_and_beside_their_job() -> None:
    snapshot = demo("hgx-h100-8")
    (job,) = jobs(snapshot)
    users = tuple(
        replace(
            user,
            reading=replace(
                user.reading, memory_bytes=9 * GIB, memory_before=((60.0, 9 * GIB - at * GIB),)
            ),
        )
        for at, user in enumerate(job.processes)
    )
    there = replace(job, processes=users)
    told = list(growing(there))
    assert told[0] == "rank 5 +5.0 GiB of the host in 60 s (85.3 MiB a second)"
    assert told[-1] == "and 1 more"
    row = JobRow(name="x", job=there, cells=())
    text = " ".join(
        "".join(span[0] for span in line) for line in detail_lines(row, snapshot, None, (), 80)
    )
    assert "Growing" in text
    assert list(growing(job)) == []
