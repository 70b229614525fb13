"""Where jobs stand, on the screen: asked on opening and on a key."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gputop.app import GpuTop
from gputop.topology.jobs.asking import JobsAnswer
from gputop.topology.model.snapshot import NodeSnapshot
from tests.gputop.screens.jobs.test_jobs import decided, open_jobs, said, snapshot_with
from tests.support.app import give, press, text


async def test_a_job_that_hangs_comes_first_and_is_marked_as_simulated() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await open_jobs(pilot, snapshot_with("sick-h100-8"))
        head = " ".join(text(pilot, "#job-head").split())
        assert "train.py: 6 ranks, 5 wait in all-reduce 1042, rank 3 (pid 41003, GPU3)" in head
        assert "simulated" in said(pilot)
        assert "py-spy dump --pid 41003" in said(pilot)


async def test_jobs_of_this_machine_are_asked_on_opening_and_on_a_key_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count: list[int] = []

    def asked(snapshot: NodeSnapshot) -> JobsAnswer:
        count.append(len(snapshot.readings.processes))
        return JobsAnswer(jobs=())

    monkeypatch.setattr("gputop.screens.jobs.screen.asked", asked)
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await open_jobs(pilot, replace(snapshot_with(), source=("live",)))
        await pilot.app.workers.wait_for_complete()
        await give(pilot, decided(replace(snapshot_with(), source=("live",))))
        assert count == [6]
        await press(pilot, "r")
        await pilot.app.workers.wait_for_complete()
        assert count == [6, 6]
