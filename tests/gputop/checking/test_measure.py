"""The measuring part of a check: who is left out, what runs, what is kept of the readings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import msgspec
import pytest

from gputop.answers import check as checking
from gputop.answers.check import CheckRequest
from gputop.checking import measure as check_measure
from gputop.checking.measure import Measured, ProbePlan, after, measure
from gputop.checking.runs import RUN_RULES, run_rules
from gputop.measuring.guard import HANGS, Idle
from gputop.measuring.planning import Plan
from gputop.measuring.state import ProbeRun
from gputop.probes import catalog
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import Diagnosis, diagnose
from gputop.topology.model.snapshot import Measurement, NodeSnapshot
from gputop.topology.node import Node
from tests.support.runs import run_of

from ...support.checked import checked
from ...support.rule_cases import base, edited

UNHEARD = ("checked",)

LIVE = base("hgx-h200-4gpu-live")
ADDRESSES = tuple(gpu.address for gpu in LIVE.machine.gpus)


class Attended:
    """In place of workers: every probe ends as it is told to."""

    plans: ClassVar[list[Plan]] = []
    how: ClassVar[dict[str, str]] = {}
    cut_short: ClassVar[bool] = False

    def __init__(self, plan: Plan) -> None:
        self.plans.append(plan)
        self.interrupted = self.cut_short
        self.stopped = False
        self._plan = plan

    def stop(self) -> None:
        self.stopped = True

    def ends(self) -> Iterator[ProbeRun]:
        for planned in self._plan.steps:
            name = planned.request.probe
            status = self.how.get(name, "finished")
            figures = () if status != "finished" else (figure(name),)
            yield run_of(name, status, f"{name} {status}", measurements=figures)


def figure(probe: str) -> Measurement:
    return Measurement(
        probe=probe, quantity="made_up", src=ADDRESSES[0], value=1.0, unit="GB/s", device_kind="gpu"
    )


@pytest.fixture(autouse=True)
def made_workers(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr("gputop.measuring.attended.Attended", Attended)
    monkeypatch.setattr(Attended, "plans", [])
    monkeypatch.setattr(Attended, "how", {})
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def free(addresses: Sequence[str], names: dict[str, str]) -> Idle:
    return Idle(free=tuple(addresses))


def test_a_default_check_takes_the_quick_level_of_five_probes() -> None:
    found = measure(LIVE, ADDRESSES, look=free)
    (plan,) = Attended.plans
    assert plan.level == "quick"
    assert {step.request.probe for step in plan.steps} == set(check_measure.PROBES)
    assert plan.estimate_seconds < 30
    assert sum(len(run.measurements) for run in found.runs) == len(found.runs) == 5
    assert found.gpus == ADDRESSES


def test_one_gpu_has_no_pairs() -> None:
    measure(LIVE, ADDRESSES[:1], look=free)
    assert [step.request.probe for step in Attended.plans[0].steps] == ["host", "memory", "gemm"]


def test_full_measures_everything() -> None:
    measure(LIVE, ADDRESSES, ProbePlan(full=True), look=free)
    assert Attended.plans[0].level == "full"
    assert len(Attended.plans[0].steps) == len(catalog.NAMES)


def test_a_busy_gpu_is_left_out_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    def look(addresses: Sequence[str], names: dict[str, str]) -> Idle:
        return Idle(free=ADDRESSES[1:], busy=((ADDRESSES[0], "GPU0 works: 99 % utilisation"),))

    found = measure(LIVE, ADDRESSES, look=look)
    assert Attended.plans[0].addresses == ADDRESSES[1:]
    assert "left out: GPU0 works" in capsys.readouterr().err
    (finding,) = diagnosed(found).findings
    assert (finding.id, finding.severity) == ("not-measured", "notice")
    assert finding.evidence[0].value == "works: 99 % utilisation"


def test_force_asks_nobody() -> None:
    def look(addresses: Sequence[str], names: dict[str, str]) -> Idle:
        raise AssertionError

    assert measure(LIVE, ADDRESSES, ProbePlan(force=True), look=look).gpus == ADDRESSES
    assert Attended.plans[0].force


def test_where_all_are_busy_the_check_cannot_tell() -> None:
    def look(addresses: Sequence[str], names: dict[str, str]) -> Idle:
        return Idle(busy=tuple((address, "works") for address in addresses))

    found = measure(LIVE, ADDRESSES, look=look)
    assert Attended.plans == []
    assert diagnosed(found).verdict == "cannot tell"


def test_a_driver_that_is_silent_is_not_taken_for_use(capsys: pytest.CaptureFixture[str]) -> None:
    def look(addresses: Sequence[str], names: dict[str, str]) -> Idle:
        return Idle(busy=tuple((address, HANGS) for address in addresses))

    found = measure(LIVE, ADDRESSES, look=look)
    assert capsys.readouterr().err.count("left out") == 1
    assert "the driver did not answer" in diagnosed(found).findings[0].title


WELL = (run_of("host"),)


def diagnosed(measured: Measured, now: NodeSnapshot = LIVE) -> Diagnosis:
    """What the rules about the run say."""
    return diagnose(Case(Node(now)), run_rules(measured))


@pytest.mark.parametrize("status", ["no-torch", "died", "failed", "refused", "garbled"])
def test_what_was_not_measured_is_never_healthy(status: str) -> None:
    found = diagnosed(Measured(runs=(run_of("p2p", status, "why"),), gpus=ADDRESSES))
    assert found.verdict == "cannot tell"
    assert found.findings[0].evidence[0].value == "why"


def test_one_reason_for_several_probes_is_one_finding() -> None:
    runs = tuple(run_of(name, "no-torch", "why") for name in ("p2p", "host"))
    (finding,) = diagnosed(Measured(runs=runs, gpus=ADDRESSES)).findings
    assert "p2p, host" in finding.title


def test_a_probe_that_hangs_is_broken() -> None:
    run = run_of("collectives", "timed-out", "gave up after 60 s")
    found = diagnosed(Measured(runs=(run,), gpus=ADDRESSES))
    assert [finding.id for finding in found.findings] == ["probe-hangs"]
    assert found.verdict == "broken"


def test_a_gpu_that_went_away_is_broken() -> None:
    without = [{"path": f"{part}.gpus[2]", "remove": True} for part in ("machine", "readings")]
    now, gone = after(LIVE, lambda: edited(LIVE, without))
    found = diagnosed(Measured(runs=WELL, gpus=ADDRESSES, gone=gone), now=now)
    assert [finding.id for finding in found.findings] == ["gpu-gone"]
    assert found.findings[0].devices == (ADDRESSES[2],)
    assert "GPU2" in found.findings[0].title


def test_a_driver_that_names_no_gpu_any_more_is_broken() -> None:
    now, gone = after(LIVE, lambda: NodeSnapshot(taken_at=2.0))
    assert now is LIVE
    found = diagnosed(Measured(runs=WELL, gpus=ADDRESSES, gone=gone), now=now)
    assert [(finding.id, finding.devices) for finding in found.findings] == [
        ("gpu-gone", ADDRESSES)
    ]
    assert found.verdict == "broken"


def test_nobody_looks_for_lost_gpus_where_nothing_was_measured() -> None:
    assert "gpu-gone" in diagnosed(Measured()).unexamined


def test_all_is_well_where_every_probe_finished_or_was_skipped() -> None:
    runs = (run_of("host"), run_of("p2p", "skipped"))
    found = diagnosed(Measured(runs=runs, gpus=ADDRESSES))
    assert found.verdict == "healthy"
    assert set(found.examined) == {rule.id for rule in RUN_RULES}


def test_our_own_load_is_taken_out_of_the_second_reading() -> None:
    hot = edited(
        LIVE,
        [
            {"path": "readings.gpus[0].utilization_percent", "value": 97.0},
            {"path": "readings.gpus[0].throttle_reasons", "value": ["software power cap"]},
            {"path": "readings.gpus[0].pcie_replays", "value": 12},
            {"path": "readings.gpus[0].ecc.uncorrected_volatile", "value": 2},
            {"path": "machine.gpus[1].nvlinks[3].active", "value": False},
        ],
    )
    found, gone = after(LIVE, lambda: hot)
    assert gone == ()
    first, before = found.readings.gpus[0], LIVE.readings.gpus[0]
    assert first.utilization_percent == before.utilization_percent
    assert first.throttle_reasons == before.throttle_reasons
    assert first.pcie_replays == 12
    assert first.ecc is not None
    assert first.ecc.uncorrected_volatile == 2
    assert found.machine.gpus[1].nvlinks[3].active is False


def test_counters_of_before_are_the_earlier_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    ticked = msgspec.structs.replace(
        edited(LIVE, [{"path": "readings.gpus[0].pcie_replays", "value": 12}]),
        taken_at=LIVE.taken_at + 20,
    )
    seen: list[Case] = []

    def ask(case: Case, rules: object) -> Diagnosis:
        seen.append(case)
        return Diagnosis()

    monkeypatch.setattr("gputop.checking.runs.diagnose", ask)
    monkeypatch.setattr("gputop.checking.node.read_snapshot", lambda *asked, **how: LIVE)
    monkeypatch.setattr(check_measure, "read_snapshot", lambda *asked, **how: ticked)
    monkeypatch.setattr("gputop.measuring.guard.idle", free)
    answer = checking.answer(CheckRequest())
    (case,) = seen
    assert case.earlier is LIVE
    assert case.readings.gpus[0].pcie_replays == 12
    assert len(case.snapshot.measurements) == 5
    assert answer.probes == tuple(end.probe for end in answer.measured)
    assert answer.mode == "default"


def test_ctrl_c_reports_what_was_found_and_exits_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gputop.checking.node.read_snapshot", lambda *asked, **how: LIVE)
    monkeypatch.setattr(check_measure, "read_snapshot", lambda *asked, **how: LIVE)
    monkeypatch.setattr("gputop.measuring.guard.idle", free)
    monkeypatch.setattr(Attended, "cut_short", True)
    monkeypatch.setattr(Attended, "how", {"gemm": "cancelled", "collectives": "cancelled"})
    done = checked(capsys, "--json")
    assert done.code == 130
    statuses = {run["probe"]: run["status"] for run in done.document["measured"]}
    assert statuses["gemm"] == "cancelled"
    assert statuses["host"] == "finished"
    # What was cut short proves no health.
    assert done.document["verdict"] == "cannot tell"
    assert done.document["exit_code"] == 130
    (finding,) = [row for row in done.document["findings"] if row["id"] == "not-measured"]
    assert "collectives, gemm" in finding["title"]
    assert finding["fix"][0]["command"] == "gputop check"
