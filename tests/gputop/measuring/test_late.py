"""A probe that is not done in time: a finding about a GPU, or about something else."""

from __future__ import annotations

import functools
import sys
import threading
from types import SimpleNamespace

import pytest

from gputop.answers.measured import MeasuredAnswer
from gputop.measuring.busy import BusyAnswer
from gputop.measuring.planning import plan, step_of
from gputop.measuring.running import Event, Suite, _fair
from gputop.measuring.runs import measurements_of
from gputop.measuring.state import ProbeRequest, SuiteState
from gputop.probes import catalog
from gputop.probes.protocol.messages import (
    ASKING,
    IMPORTING,
    MeasuredValue,
    WorkerRequest,
)
from gputop.probes.protocol.outcome import Outcome
from gputop.probes.protocol.status import Status
from gputop.probes.runner.client import Session
from gputop.topology.model.machine import Gpu, Machine
from tests.support.probe_runs import run_probe
from tests.support.runs import run_of
from tests.support.worker_scripts import (
    DRIVER_HANGS,
    HANGS,
    IMPORTS_FOR_EVER,
    WORKER,
    Script,
    SkippingClock,
    playing,
)

UNHEARD = ("*",)

STUCK = MeasuredValue(
    "collective_finishes", "", "", "nccl/1", "gpu", "NCCL", "all to all", verdict="timed-out"
)


@pytest.mark.parametrize(
    ("script", "takes", "status", "said", "code"),
    [
        (IMPORTS_FOR_EVER, {IMPORTING: 600}, "failed", "before it touched a GPU", 3),
        (DRIVER_HANGS, {IMPORTING: 400, ASKING: 200}, "failed", "of it to import torch", 3),
        (DRIVER_HANGS, {ASKING: 600}, "timed-out", "during: asking the driver for its GPUs", 2),
        (HANGS, {"GPU a to GPU b": 600}, "timed-out", "What never ends is a finding", 2),
    ],
)
def test_a_slow_import_is_no_copy_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
    script: Script,
    takes: dict[str, float],
    status: str,
    said: str,
    code: int,
) -> None:
    outcome = run_probe(
        WorkerRequest("memory", params={"script": script}),
        sys.executable,
        SkippingClock(monkeypatch).skipping(takes),
        600,
        threading.Event(),
        worker=WORKER,
    )
    assert outcome.status == status
    assert said in outcome.message
    assert MeasuredAnswer.of(run_of("memory", status, outcome=outcome)).exit_code == code


def test_a_driver_that_never_answers_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All probes of eight GPUs would wait a quarter of an hour, one after the other."""
    clock = SkippingClock(monkeypatch)
    gpus = tuple(Gpu(address=f"0000:0{n}:00.0", vendor="nvidia", index=n) for n in (1, 2))
    planned = plan(("p2p", "host", "memory"), Machine(gpus=gpus))

    def hear(event: Event) -> None:
        step = event.step("p2p") if isinstance(event, SuiteState) else None
        if step is not None and step.status == Status.RUNNING and step.what == ASKING:
            clock.skip(600)

    ran = Suite(
        playing(planned, p2p=DRIVER_HANGS[1:]),
        hear,
        threading.Event(),
        session=functools.partial(Session, worker=WORKER),
        guard=SimpleNamespace(begin=lambda patient: BusyAnswer, recheck=BusyAnswer),
    ).run()
    assert [step.status for step in ran.steps] == ["timed-out", "refused", "refused"]
    assert ran.steps[2].text.startswith("Not begun: p2p waited 6")
    assert ran.steps[2].text.endswith(" s for the driver to open the GPUs.")


@pytest.mark.parametrize(
    ("given", "status", "kept", "code"),
    [(1.0, "failed", 0, 3), (None, "timed-out", 1, 2), (600.0, "timed-out", 1, 2)],
)
def test_too_little_time_is_no_finding(
    given: float | None, status: str, kept: int, code: int
) -> None:
    """Less time than the probe needs was asked for: that it is late proves nothing."""
    spec = catalog.load("nccl").SPEC
    request = ProbeRequest(probe="nccl", addresses=("a", "b"), deadline_seconds=given)
    planned = step_of(spec, request, 2, named=True)
    late = Outcome(Status.TIMED_OUT, "No end.", 1.0, measurements=(STUCK,))
    outcome = _fair(late, planned)
    assert (outcome.status, len(outcome.measurements)) == (status, kept)
    run = run_of("nccl", status, measurements=measurements_of(request, outcome))
    assert MeasuredAnswer.of(run).exit_code == code
