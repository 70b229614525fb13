"""Probes of a demo: what they find, that it is the demo's fault, and that nothing of it is kept."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import pytest

from gputop.measuring import history
from gputop.measuring.expected import Expecting
from gputop.measuring.planning import plan
from gputop.measuring.running import Event
from gputop.measuring.state import SuiteState
from gputop.probes.protocol.status import ProbeLevel
from gputop.simulating.probes import NAMES
from gputop.simulating.suite import NOT_SIMULATED, simulated_plan, simulated_suite
from gputop.topology.model.snapshot import Measurement, NodeSnapshot
from gputop.topology.recorded.demos import demo
from gputop.topology.recorded.feeds import DemoFeed

LINKS = 16 / 18
LANES = 8 / 16


def ran(
    snapshot: NodeSnapshot,
    *names: str,
    level: str = "quick",
    hear: Callable[[Event], None] = lambda event: None,
    cancel: threading.Event | None = None,
) -> SuiteState:
    made = simulated_plan(plan(names, snapshot.machine, level=ProbeLevel(level)))
    return simulated_suite(snapshot, at_once=True)(made, hear, cancel or threading.Event()).run()


def figures(result: SuiteState) -> list[Measurement]:
    return [figure for end in result.steps for figure in end.measurements]


def values(found: list[Measurement], quantity: str) -> dict[tuple[str | None, str | None], float]:
    return {(m.src, m.dst): m.value for m in found if m.quantity == quantity and m.value}


def test_the_sick_gpu_is_slow_by_what_it_lacks() -> None:
    snapshot = DemoFeed("sick-h100-8").at(0)
    sick = snapshot.machine.gpus[3].address
    found = figures(ran(snapshot, "p2p", "host", "collectives"))
    pairs = values(found, "write_bandwidth")
    assert len(pairs) == 56
    whole = [value for ends, value in pairs.items() if sick not in ends]
    for ends, value in pairs.items():
        share = LINKS if sick in ends else 1.0
        assert value == pytest.approx(share * sum(whole) / len(whole), rel=0.02)
    host = values(found, "h2d_bandwidth")
    others = [value for (src, _), value in host.items() if src != sick]
    assert host[sick, None] == pytest.approx(LANES * sum(others) / len(others), rel=0.02)
    largest = max(
        (m for m in found if m.quantity == "all_reduce_busbw"), key=lambda m: m.bytes_per_copy or 0
    )
    (judgement,) = Expecting(snapshot, {}).of([largest]).judgements
    assert judgement.band is not None
    assert judgement.band.reach is not None
    assert largest.value == pytest.approx(judgement.band.reach, rel=0.01)
    assert judgement.band.reach < judgement.band.healthy


def test_curves_rise_from_the_start_of_a_copy_to_the_rate_of_the_link() -> None:
    found = figures(ran(DemoFeed("hgx-h100-8").at(0), "p2p", "collectives", level="normal"))
    for quantity in ("write_sweep", "all_reduce_busbw"):
        curve = sorted(
            (m.bytes_per_copy or 0, m.value or 0) for m in found if m.quantity == quantity
        )
        assert len(curve) >= 10
        assert [value for _, value in curve] == sorted(value for _, value in curve)
        assert curve[0][1] < 0.01 * curve[-1][1]


def test_it_says_so_everywhere_and_is_the_same_each_time() -> None:
    snapshot = DemoFeed("hgx-h100-8").at(0)
    one, other = (figures(ran(snapshot, "p2p", "host")) for _ in range(2))
    assert [(m.key, m.value) for m in one] == [(m.key, m.value) for m in other]
    for figure in one:
        assert figure.simulated
        assert figure.source == f"simulated probe {figure.probe}"
        assert "simulated" in (figure.method or "")
        assert dict(figure.versions) == {"python": "simulated", "torch": "simulated"}


@pytest.mark.parametrize("name", demo.names())
def test_every_demo_tells_what_is_sick_and_nothing_else(name: str) -> None:
    snapshot = DemoFeed(name).at(0)
    result = ran(snapshot)
    states = {step.name: step.status for step in result.steps}
    assert all(states[probe] == "skipped" for probe in states.keys() - set(NAMES))
    assert {states[probe] for probe in NAMES} <= {"finished", "failed"}
    assert states["host"] == "finished"
    found = figures(result)
    known = Expecting(snapshot, {}).of(found)
    low = [figure for figure, judged in known.pairs() if judged and judged.verdict == "low"]
    gpus = [gpu.address for gpu in snapshot.machine.gpus]
    pairs = values(found, "write_bandwidth")
    # Of the way that is left where a link of a mesh is gone there is no reference.
    gone = {frozenset(pair) for pair in permutations(gpus, 2)} - {frozenset(pair) for pair in pairs}
    sick = bool(low or known.patterns) or gone == {frozenset(gpus[2:6:3])}
    assert sick == name.startswith("sick-")


def test_a_named_probe_without_a_reference_is_refused_with_the_reason() -> None:
    (step,) = ran(DemoFeed("hgx-h100-8").at(0), "launch").steps
    assert (step.status, step.text) == ("refused", NOT_SIMULATED)


def test_a_cancel_ends_it_and_keeps_what_came() -> None:
    cancel = threading.Event()
    heard: list[Event] = []

    def hear(event: Event) -> None:
        heard.append(event)
        if isinstance(event, Measurement):
            cancel.set()

    result = ran(DemoFeed("hgx-h100-8").at(0), "p2p", "host", hear=hear, cancel=cancel)
    assert [step.status for step in result.steps] == ["cancelled", "cancelled"]
    assert 0 < sum(isinstance(event, Measurement) for event in heard) < 56


def test_nothing_of_it_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    snapshot = DemoFeed("hgx-h100-8").at(0)
    for end in ran(snapshot, "host").steps:
        assert end.measurements
        assert history.keep_result(snapshot, end) == ""
    assert list(tmp_path.rglob("*")) == []
