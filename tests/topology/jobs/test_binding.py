"""Which processes have fewer CPUs than they are."""

from __future__ import annotations

import pytest

from gputop.topology.jobs.binding import crowded
from gputop.topology.model.readings import ProcessReading


@pytest.mark.parametrize(
    ("allowed", "found"),
    [
        (("0", "0", "1"), {0, 1}),
        (("0-1", "0-1", "0"), {0, 1, 2}),
        (("0-1", "0-1"), set()),
        (("0-63",) * 8, set()),
        (("0", None, ""), set()),
        (("0", "0-1", "0-1", "2-3"), {0, 1, 2}),
    ],
)
def test_processes_with_fewer_cpus_than_they_are(
    allowed: tuple[str | None, ...], found: set[int]
) -> None:
    processes = [ProcessReading(pid=pid, cpu_affinity=cpus) for pid, cpus in enumerate(allowed)]
    assert crowded(processes) == found
