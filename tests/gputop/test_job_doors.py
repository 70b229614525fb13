"""A job that hangs or is slow is named in one sentence by every door."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gputop.app import GpuTop
from gputop.live.findings import ABOUT_JOBS, Shown, explained_with, shown
from gputop.screens.map import marks
from gputop.screens.pairs.answer import answer_lines
from gputop.screens.pairs.ladder import evidence_lines
from gputop.simulating.jobs import simulated
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.explain.why import why_pair
from gputop.topology.model.finding import Finding
from gputop.topology.model.page import SIMULATED
from gputop.topology.model.severity import BROKEN, Origin
from gputop.topology.report import Report
from tests.support.app import app_of, demo_report, give, press, rounds, text
from tests.support.command import gputop_here

SICK = {"sick-h100-8": ("✗", 3), "slow-job-h100-8": ("▼", 4), "sick-mi300x-8": ("✗", 2)}
"""Demo -> the sign of its job, and the GPU of the rank for which the others wait."""


@pytest.mark.parametrize("demo", SICK)
async def test_every_screen_says_what_jobs_says(demo: str) -> None:
    sign, index = SICK[demo]
    node = demo_report(demo).node
    (job,) = simulated(node.snapshot, demo).jobs
    said = f"{sign} {job.sentence}"
    async with GpuTop().run_test(size=(300, 50)) as pilot:
        await give(pilot, Report(node, diagnose(Case(node))))
        async for _ in rounds(pilot):
            if app_of(pilot).jobs.answer is not None:
                break
        assert said in text(pilot, "#use")
        assert f"Jobs {sign}" in text(pilot, "#top")
        await press(pilot, "7")
        assert said in text(pilot, "#job-head")
        await press(pilot, "6")
        assert job.sentence[:40] in text(pilot, "#finding-list")
        head, rows = text(pilot, "#findings-head"), text(pilot, "#finding-list")
        loud = sum(line.lstrip(" ›")[:1] in ("✗", "▼", "?") for line in rows.splitlines())
        assert f"{head.split()[0]}{loud} " in text(pilot, "#top"), "the tab's sign is the head's"
        told = re.findall(r"(\d+) (?:broken|slow|cannot tell)", head)
        assert sum(map(int, told)) == loud
        assert f"{sign} job: 1 " in head
        assert " node slow: " in head if demo.startswith("sick") else "✓ node healthy: " in head
        await press(pilot, "1")
        assert " node " in text(pilot, "#verdict"), "not all is well above a job that is not"
        once = gputop_here("-1", "--demo", demo).stdout.split(maxsplit=3)
        assert text(pilot, "#verdict").split(maxsplit=3)[:3] == once[:3]
        here = app_of(pilot).findings.shown(app_of(pilot).report)
        assert here is not None
        (found,) = (one for one in here.findings if one.id == "job")
        assert found.title == f"{job.sentence} ({SIMULATED})"
        gpus = [node.snapshot.machine.gpu(address) for address in found.devices]
        assert [gpu.index for gpu in gpus if gpu is not None] == [index]
        assert (here.mark(*found.devices, jobs=True) or ("",))[0] == sign


@pytest.mark.parametrize("rule", ["job", *sorted(ABOUT_JOBS)])
def test_no_pair_and_no_link_is_judged_by_a_job(rule: str) -> None:
    node = demo_report("sick-h100-8").node
    report = Report(node, diagnose(Case(node)))
    gpus = [gpu.address for gpu in node.snapshot.machine.gpus]
    origin = Origin.JOB if rule == "job" else Origin.RULE
    hangs = Finding.of(rule, BROKEN, "train.py hangs", origin=origin, devices=tuple(gpus[2:5]))

    def told(found: Shown | None) -> list[object]:
        assert found is not None
        pairs = [(gpus[0], other) for other in gpus[1:]]
        return [
            *(answer_lines(report, pair, found, (True, None), 120) for pair in pairs),
            *(evidence_lines(report, pair, found, False, 120) for pair in pairs),
            *(marks.about(found, gpu) for gpu in gpus),
            [found.mark(gpu) for gpu in gpus],
            explained_with(why_pair(node, gpus[0], gpus[3]), found, gpus[0], gpus[3]),
        ]

    before, after = shown(report), shown(report, jobs=(hangs,))
    assert told(after) == told(before)
    assert after is not None
    assert after.mark(gpus[2], jobs=True) == BROKEN.shown[:2], "the GPU's row names the job"


@pytest.mark.parametrize("demo", SICK)
def test_jobs_check_and_fleet_say_the_same(demo: str, tmp_path: Path) -> None:
    (job,) = json.loads(gputop_here("jobs", "--json", "--demo", demo).stdout)["jobs"]
    check = gputop_here("check", "--quick", "--jobs", "--json", "--demo", demo).stdout
    (tmp_path / "g1.json").write_text(check)
    fleet = json.loads(gputop_here("fleet", "--json", str(tmp_path)).stdout)
    titles = [finding["title"] for finding in fleet["findings"] if finding["id"] == "job"]
    assert titles == [f"{job['sentence']} ({SIMULATED})"]
    assert fleet["drain"] == [], "a job that hangs is ended; its node stays"


@pytest.mark.parametrize("demo", SICK)
def test_a_sentence_claims_no_work_of_a_core_that_may_be_polling(demo: str) -> None:
    (job,) = simulated(demo_report(demo).node.snapshot, demo).jobs
    assert any("computing, looping, or polling" in one.title for one in job.findings)
    assert not re.search(r"CPU (?:computes|works)|works on its CPU", f"{job.sentence} {job.brief}")
