"""What the harness of running jobs takes for right, on recorded answers."""

from __future__ import annotations

import pytest

from tests.harness.running.__main__ import Asked, shares
from tests.harness.running.kinds import KINDS
from tests.topology.jobs.test_two_gpus import job_of

KERNELS = [(0, 40, "gemm"), (30, 60, "ncclDevKernel"), (50, 70, "gelu"), (90, 100, "ncclKernel")]


def test_the_shares_of_overlapping_kernels() -> None:
    assert shares({"wall": 100e-6, "kernels": KERNELS}) == "60/20"


@pytest.mark.parametrize("name", KINDS)
def test_each_recorded_answer_is_right_for_its_own_kind_alone(name: str) -> None:
    job = job_of(name)
    told = Asked(2.5, f"{job.verdict.sign} {job.sentence}")
    assert told.right(KINDS[name])
    others = [other for other in KINDS if KINDS[other].says != KINDS[name].says]
    same = {other for other in others if told.right(KINDS[other])}
    assert same == set()
