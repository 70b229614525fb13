"""When the rules are asked in the app, and what the refresh thread hands on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gputop.live import diagnosing
from gputop.live.diagnosing import Diagnosing
from gputop.live.refresh import Refresher
from gputop.messages import ReportReady
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import Diagnosis
from gputop.topology.node import Node
from gputop.topology.report import Report
from tests.support.app import StepFeed, demo_report, gpu, reading, report_of, snapshot_of
from tests.support.findings_made import diagnosis, finding


class Rules:
    """Stands for all rules: keeps the cases and gives what the test puts in."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cases: list[Case] = []
        self.answer: Diagnosis | Exception = diagnosis()
        monkeypatch.setattr("gputop.topology.diagnosis.engine.diagnose", self._diagnose)

    def _diagnose(self, case: Case) -> Diagnosis:
        self.cases.append(case)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> Rules:
    return Rules(monkeypatch)


def moved(report: Report, seconds: float) -> Report:
    """The same node with a later reading."""
    snapshot = report.snapshot
    return report.follow(replace(snapshot, taken_at=snapshot.taken_at + seconds))


def test_a_change_is_examined_at_once_and_movement_every_few_seconds(rules: Rules) -> None:
    asking, report = Diagnosing(), report_of((gpu(0), gpu(1)))
    assert asking.ask(report, 100.0)
    for second in range(1, 20):
        asking.ask(moved(report, second), 100.0 + second)
    assert len(rules.cases) == 1 + 19 // 5
    changed = Report(Node(snapshot_of((gpu(0),))))
    asking.ask(changed, 119.4)
    assert rules.cases[-1].node is changed.node
    # The same snapshot again is nothing new, however late.
    many = len(rules.cases)
    asking.ask(changed, 900.0)
    assert len(rules.cases) == many


def test_dear_rules_are_asked_less_often(rules: Rules, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 100))
    monkeypatch.setattr("gputop.live.diagnosing.time.perf_counter", lambda: float(next(clock)))
    asking, report = Diagnosing(), report_of((gpu(0),))
    asking.ask(report, 0.0)
    asking.ask(moved(report, 10), 10.0)
    assert len(rules.cases) == 2
    # A second of work: not again within two hundred.
    asking.ask(moved(report, 60), 60.0)
    assert len(rules.cases) == 2
    asking.ask(moved(report, 211), 211.0)
    assert len(rules.cases) == 3


def test_an_equal_answer_is_no_news(rules: Rules) -> None:
    asking, report = Diagnosing(), report_of((gpu(0),))
    assert asking.ask(report, 0.0)
    first = asking.diagnosis
    rules.answer = diagnosis()
    assert not asking.ask(moved(report, 6), 6.0)
    assert asking.diagnosis is first
    rules.answer = diagnosis(finding("x", "broken", "it broke"))
    assert asking.ask(moved(report, 12), 12.0)


@pytest.mark.parametrize("jump", [-7200.0, 86400.0 * 365])
def test_a_clock_that_is_set_changes_no_age(rules: Rules, jump: float) -> None:
    asking, report = Diagnosing(), report_of((gpu(0),))
    ages = []
    for second in range(0, 3000, 3):
        asking.ask(moved(report, second + (jump if second > 900 else 0.0)), float(second))
        case = rules.cases[-1]
        if second > 930:
            assert case.earlier is not None
            ages.append(case.snapshot.taken_at - case.earlier.taken_at)
    assert 0 < min(ages) < max(ages) <= 2 * diagnosing.WINDOW_SECONDS + 3


def test_counters_are_compared_with_a_reading_of_this_session(rules: Rules) -> None:
    asking, report = Diagnosing(), report_of((gpu(0),))
    start = report.snapshot.taken_at
    asking.ask(report, 0.0)
    assert rules.cases[0].earlier is None
    for second in range(1, 2000, 3):
        asking.ask(moved(report, second), float(second))
    ages = [
        case.snapshot.taken_at - case.earlier.taken_at
        for case in rules.cases[2:]
        if case.earlier is not None
    ]
    assert len(ages) >= len(rules.cases) - 3
    assert 0 < min(ages) < max(ages) <= 2 * diagnosing.WINDOW_SECONDS + 3
    assert rules.cases[-1].earlier is not None
    assert rules.cases[-1].earlier.taken_at > start + 2


def test_a_file_is_never_compared_with_itself(rules: Rules) -> None:
    asking, report = Diagnosing(), report_of((gpu(0),))
    for second in range(10):
        asking.ask(Report(report.node, None, ()), float(second))
    assert all(case.earlier is None for case in rules.cases)


def test_the_site_s_policy_counts_here_too(
    rules: Rules, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("gputop.checking.policy.SYSTEM", tmp_path / "check.toml")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    text = 'expect = "aws-p5.48xlarge"\n[ignore]\nbar1-small = "old boards"\n'
    (tmp_path / "check.toml").write_text(text)
    asking = Diagnosing()
    asking.ask(report_of((gpu(0),)), 0.0)
    assert rules.cases[-1].policy.ignored == {"bar1-small": "old boards"}
    assert asking.trouble == ""
    assert rules.cases[-1].reference is not None
    assert "p5.48xlarge" in rules.cases[-1].reference.name
    # A demo is no machine of the site.
    Diagnosing().ask(demo_report("hgx-h100-8"), 0.0)
    assert rules.cases[-1].reference is None
    # One that cannot be used silences nothing, and that is said.
    (tmp_path / "check.toml").write_text("[ignore\n")
    asking = Diagnosing()
    asking.ask(report_of((gpu(0),)), 0.0)
    assert rules.cases[-1].policy.ignored == {}
    assert "check.toml" in asking.trouble


def wait_for(reports: list[Any], wanted: Any) -> Report:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for message in list(reports):
            if isinstance(message, ReportReady) and wanted(message.report):
                return message.report
        time.sleep(0.01)
    raise AssertionError([type(report).__name__ for report in reports])


def test_the_thread_adds_findings_and_events() -> None:
    posted: list[Any] = []
    gpus = (gpu(0), gpu(1))
    snapshot = snapshot_of(gpus, tuple(reading(gpu, pcie_replays=3) for gpu in gpus))
    feed = StepFeed(snapshot)
    refresher = Refresher(feed, posted.append, 0.05)
    refresher.start()
    try:
        report = wait_for(posted, lambda report: report.diagnosis is not None)
        assert report.prediction is not None
        assert report.events == ()
        assert report.diagnosis is not None
        assert "bar1-small" in (*report.diagnosis.examined, *report.diagnosis.unexamined)
        ticked = tuple(reading(gpu, pcie_replays=9) for gpu in gpus)
        feed.put(replace(snapshot_of(gpus, ticked), taken_at=snapshot.taken_at + 1))
        later = wait_for(posted, lambda report: report.events)
        assert {event.amount for event in later.events} == {6}
        assert later.diagnosis is not None
        # networkx takes 12 MiB: it waits for a screen that draws the graph.
        assert "graph" not in vars(later.node._wiring)
    finally:
        refresher.close()


def test_mistakes_of_ours_do_not_stop_the_reports(rules: Rules) -> None:
    rules.answer = ZeroDivisionError("by purpose")
    posted: list[Any] = []
    gpus = (gpu(0), gpu(1))
    feed = StepFeed(snapshot_of(gpus))
    refresher = Refresher(feed, posted.append, 0.05)
    refresher.start()
    try:
        wait_for(posted, lambda report: report.prediction is not None)
        end = time.monotonic() + 60
        while not rules.cases and time.monotonic() < end:
            time.sleep(0.01)
        later = replace(snapshot_of(gpus), taken_at=1_800_000_000.0)
        feed.put(later)
        wait_for(posted, lambda report: report.snapshot is later)
        failed = ["ZeroDivisionError" in getattr(message, "text", "") for message in posted]
        assert any(failed)
        # Once for each look, not once for each turn of the thread.
        assert sum(failed) <= len(rules.cases) <= 2
    finally:
        refresher.close()


def test_findings_stay_with_the_next_reading() -> None:
    report = demo_report("hgx-h100-8")
    diagnosed = Report(report.node, diagnosis(finding("x", "slow", "it is slow")), ())
    assert diagnosed.prediction is report.prediction
    assert diagnosed.graph is report.graph
    assert moved(diagnosed, 1).diagnosis is diagnosed.diagnosis


def test_figures_that_come_fast_leave_the_screens_half_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gputop.live.refresh.STARTUP_SECONDS", 0.0)
    worked: list[float] = []

    class Flooded(Refresher):
        def _tick(self) -> None:
            begun = time.monotonic()
            time.sleep(0.02)
            worked.append(time.monotonic() - begun)
            self.add_measurements(())  # as a figure that came meanwhile
            if len(worked) == 20:
                self._closed.set()

    refresher = Flooded(StepFeed(snapshot_of((gpu(0),))), lambda _: None, 60.0)
    begun = time.monotonic()
    refresher._run()
    assert sum(worked[:-1]) <= (time.monotonic() - begun) / 2
