"""Why a rank is late, or why data does not take the NVLinks."""

from __future__ import annotations

import pytest

from gputop.topology.jobs.grouping import GpuUser, Job
from gputop.topology.jobs.loads.judging import JudgedLoads
from gputop.topology.jobs.loads.telling import reason
from gputop.topology.model.readings import ProcessReading, Readings

OFF, ON = (("NCCL_P2P_DISABLE", "1"),), (("NCCL_P2P_DISABLE", "0"),)


@pytest.mark.parametrize(
    ("told", "over_pcie", "said"),
    [
        ((OFF, OFF), True, "NCCL_P2P_DISABLE=1 is set"),
        ((OFF, OFF), False, ""),
        ((OFF, ON), True, ""),
        ((OFF, None), True, ""),
        ((None, None), True, ""),
    ],
)
def test_a_variable_is_the_reason_where_all_ranks_have_it_and_data_goes_over_pcie(
    told: tuple[tuple[tuple[str, str], ...] | None, ...], *, over_pcie: bool, said: str
) -> None:
    users = tuple(
        GpuUser(pid=pid, gpus=(), reading=ProcessReading(pid=pid, variables=variables))
        for pid, variables in enumerate(told, 1)
    )
    job = Job(key="a", name="job", gpus=(), processes=users)
    assert reason(JudgedLoads(over_pcie=over_pcie), job, {}, Readings()) == said
