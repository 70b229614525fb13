"""The ticket in Markdown: verdict, findings with proof and fix, no markup from outside."""

from __future__ import annotations

import pytest

from gputop.app import GpuTop
from gputop.printing.ticket import ticket
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.model.finding import Finding
from gputop.topology.model.page import Fact, Fix
from gputop.topology.model.severity import Severity, Verdict
from gputop.topology.report import Report
from tests.support.app import app_of, demo_report, give, press

HOSTILE = "GPU0 </details> ``` # heading\n\n<script>```` [x](y)"


def judged(name: str) -> Report:
    node = demo_report(name).node
    return Report(node, diagnose(Case(node)))


def finding(title: str) -> Finding:
    return Finding(
        id="made-up",
        family="nvlink",
        sources=("NVML",),
        impact="It is slow.",
        devices=(),
        disproof="A look.",
        severity=Severity.SLOW,
        title=title,
        evidence=(Fact(what="links", value="16 of 18", source="NVML"),),
        fix=(Fix(text="Look at it", command="nvidia-smi nvlink -s"),),
    )


def test_verdict_proof_and_fix() -> None:
    text = ticket("node1 · 8 × H100", Verdict.SLOW, [finding("GPU3 lacks links")])
    assert text.startswith("### ▼ slow\n\n```text\nnode1 · 8 × H100\n")
    for part in ("GPU3 lacks links", "[made-up]", "16 of 18", "nvidia-smi nvlink -s"):
        assert part in text
    assert text.endswith("it holds all that was read.\n")


def test_text_from_outside_cannot_leave_the_fence() -> None:
    text = ticket(HOSTILE, Verdict.BROKEN, [finding(HOSTILE)])
    fence = text.splitlines()[2].removesuffix("text")
    assert set(fence) == {"`"}
    assert text.count(fence) == 2
    before, inside, after = text.split(fence)
    assert "script" in inside
    assert "script" not in before + after


def test_nothing_found_and_a_demo_are_said() -> None:
    text = ticket("node1", Verdict.HEALTHY, [], invented=True)
    assert "Nothing that needs anybody was found." in text
    assert text.endswith("the node and its figures are invented.\n")


@pytest.mark.parametrize(("screen", "all_of_them"), [("1", True), ("6", False)])
async def test_y_copies_the_findings_of_the_screen(
    screen: str, all_of_them: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gputop.live.jobs_controller.of_demo", lambda _: None)
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        report = judged("sick-h100-8")
        await give(pilot, report)
        await press(pilot, screen, "Y")
        copied = app_of(pilot).clipboard
    assert copied.startswith("### ")
    assert report.diagnosis is not None
    titles = [one.title for one in report.diagnosis.findings if one.severity.counts]
    assert sum(title in copied for title in titles) == (len(titles) if all_of_them else 1)
