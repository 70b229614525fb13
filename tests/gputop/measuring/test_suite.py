"""A suite: order, what shares a worker, every way a probe can end, and that the rest goes on."""

from __future__ import annotations

import dataclasses
import functools
import sys
import threading
from collections.abc import Callable, Sequence

import psutil
import pytest

from gputop.measuring import planning, running
from gputop.measuring.busy import BusyAnswer
from gputop.measuring.guard import Guard
from gputop.measuring.running import Event, Suite
from gputop.measuring.runs import MOST_NOTES, NOTE_LIMIT, note_lines
from gputop.measuring.state import ProbeRun, SuiteState
from gputop.probes import catalog
from gputop.probes.protocol.spec import ProbeSpec
from gputop.probes.protocol.status import ProbeLevel, Status
from gputop.probes.runner.client import Session
from gputop.probes.runner.interpreters import Interpreter, InterpreterChoice
from gputop.topology.model.machine import Gpu, Machine
from gputop.topology.model.snapshot import Measurement
from tests.grid import share
from tests.support.worker_scripts import FIRST_FIGURE, WORKER, Script, SkippingClock, playing

UNHEARD = ("*",)

A, B = "0000:01:00.0", "0000:02:00.0"
ONE = Machine(gpus=(Gpu(address=A, vendor="nvidia", index=0),))
TWO = Machine(gpus=(*ONE.gpus, Gpu(address=B, vendor="nvidia", index=1)))
SPECS = {
    name: ProbeSpec(
        name=name,
        title=name,
        measures=name,
        method=f"{name}/1",
        minimum_gpus=2 if name in ("p2p", "p2p-concurrent", "collectives", "nccl") else 1,
        memory_bytes_per_gpu=1 << 30,
        start_seconds=4.0,
        seconds_per_gpu=1.0,
        seconds_per_pair=0.5,
        needs_torch=name not in ("p2p", "p2p-concurrent", "host", "memory"),
    )
    for name in planning.ORDER
}


@pytest.fixture(autouse=True)
def made_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every probe of the order, whatever the real catalogue has; answered by a made-up worker."""
    monkeypatch.setattr(catalog, "NAMES", tuple(reversed(planning.ORDER)))
    monkeypatch.setattr(catalog, "load", lambda name: type("Module", (), {"SPEC": SPECS[name]}))
    monkeypatch.setattr(running, "find_interpreter", lambda *asked: choice())


def choice() -> InterpreterChoice:
    here = Interpreter(sys.executable, "this Python", "3.11", "2.5", "12.4")
    return InterpreterChoice(here, (here,))


class Free(Guard):
    """Finds every GPU free; counts how often it is asked."""

    def __init__(self, verdict: BusyAnswer | None = None, later: BusyAnswer | None = None) -> None:
        self.verdict, self.later = verdict or BusyAnswer(), later or BusyAnswer()
        self.asked_again = 0

    def begin(self, *, patient: bool = True) -> Callable[[], BusyAnswer]:
        return lambda: self.verdict

    def recheck(self) -> BusyAnswer:
        self.asked_again += 1
        return self.later


def go(
    plan: planning.Plan,
    *,
    guard: Guard | None = None,
    cancel: threading.Event | None = None,
    hear: Callable[[Event], None] = lambda event: None,
) -> tuple[SuiteState, list[Event]]:
    events: list[Event] = []

    def listen(event: Event) -> None:
        events.append(event)
        hear(event)

    ran = Suite(
        plan,
        listen,
        cancel or threading.Event(),
        session=functools.partial(Session, worker=WORKER),
        guard=guard or Free(),
    ).run()
    assert all(step.over for step in ran.steps)
    assert not ran.running
    return ran, events


def states(ran: SuiteState) -> dict[str, str]:
    return {step.name: step.status for step in ran.steps}


def workers_of(events: Sequence[Event]) -> dict[str, str]:
    """The worker that answered for each probe, as it named itself."""
    return {
        step.name: step.what
        for event in events
        if isinstance(event, SuiteState)
        for step in event.steps
        if step.what
    }


DIES: Script = (*FIRST_FIGURE, ("die", "SIGKILL"))
HANGS: Script = (*FIRST_FIGURE, ("hang",))
RUBBISH: Script = (*FIRST_FIGURE, ("write", "\x1b[31mSegfault\n"), ("hang",))
TOO_LITTLE = {"kind": "failure", "error": "refused", "text": f"too little memory on {B}"}
REFUSES: Script = (*FIRST_FIGURE, ("say", TOO_LITTLE), ("exit", 1))


def once_measured(name: str, act: Callable[[], None]) -> Callable[[Event], None]:
    """A listener that acts as soon as this probe has measured something."""

    def hear(event: Event) -> None:
        step = event.current if isinstance(event, SuiteState) else None
        if step is not None and step.name == name and step.figures:
            act()

    return hear


def test_what_needs_no_torch_comes_first() -> None:
    plan = planning.plan((), TWO)
    assert [step.name for step in plan.steps] == list(planning.ORDER)
    named = planning.plan(("nccl", "gemm", "launch", "gemm"), TWO)
    assert [step.name for step in named.steps] == ["nccl", "launch", "gemm"]


def test_only_the_first_of_those_that_share_a_worker_pays_its_start() -> None:
    plan = planning.plan(("host", "memory", "nccl"), TWO)
    host, memory, nccl = (step.estimate_seconds for step in plan.steps)
    assert host - memory == pytest.approx(4.0)
    assert nccl == pytest.approx(host)
    assert plan.estimate_seconds == pytest.approx(host + memory + nccl)
    quick = planning.plan(("host", "memory", "nccl"), TWO, level=ProbeLevel.QUICK)
    assert quick.estimate_seconds < plan.estimate_seconds
    assert "3 probes on 2 GPUs" in plan.sentence
    assert "1.0 GiB" in plan.sentence


def test_one_worker_has_torch_and_one_has_none() -> None:
    before = psutil.Process().children(recursive=True)
    guard = Free()
    ran, events = go(planning.plan((), TWO), guard=guard)
    assert set(states(ran).values()) == {"finished"}
    by = workers_of(events)
    assert len({by[name] for name in planning.ORDER[:4]}) == 1
    assert len({by[name] for name in planning.ORDER[4:]}) == 1
    assert len(set(by.values())) == 2, "one without torch, one with it"
    assert guard.asked_again == 5, "before each process on the GPUs but the first"
    assert psutil.Process().children(recursive=True) == before
    assert sum(isinstance(event, Measurement) for event in events) == len(planning.ORDER)
    assert f"{len(planning.ORDER)} of {len(planning.ORDER)} probes finished" in ran.text
    assert ran.status == "finished"


@pytest.mark.parametrize("name", share(planning.ORDER, 3))
def test_deaths_are_named_and_the_rest_goes_on(name: str) -> None:
    """One probe dies and another answers rubbish; each probe is once the one and the other."""
    place = planning.ORDER.index(name)
    other = planning.ORDER[place - 4]
    plan = playing(planning.plan((), TWO), **{name: DIES, other: RUBBISH})
    before = psutil.Process().children(recursive=True)
    ran, _ = go(plan)
    odd = {name: "died", other: "garbled"}
    assert states(ran) == {**dict.fromkeys(planning.ORDER, "finished"), **odd}
    for victim, state in odd.items():
        assert f"{state}: {victim}" in ran.text
        (ended,) = (end for end in ran.steps if end.name == victim)
        assert ended.measurements, "what was measured before the death stands"
    assert psutil.Process().children(recursive=True) == before


def test_a_probe_that_hangs_meets_its_deadline_and_the_rest_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SkippingClock(monkeypatch)
    plan = playing(planning.plan(("memory", "gemm", "nccl"), TWO), memory=HANGS)
    monkeypatch.setattr(running, "seconds_of", lambda *asked: 600.0)
    ran, _ = go(plan, hear=once_measured("memory", lambda: clock.skip(600)))
    assert states(ran) == {"memory": "timed-out", "gemm": "finished", "nccl": "finished"}


def test_a_refusal_of_one_is_no_end_of_all() -> None:
    ran, _ = go(playing(planning.plan(("memory", "gemm"), TWO), memory=REFUSES))
    assert states(ran) == {"memory": "refused", "gemm": "finished"}
    assert ran.steps[0].text == "too little memory on GPU1"
    assert ran.steps[0].outcome.message == "too little memory on 0000:02:00.0"


def test_what_is_cancelled_before_it_begins_is_cancelled_and_not_refused() -> None:
    cancel = threading.Event()
    cancel.set()
    plan = playing(planning.plan(("memory", "gemm"), TWO))
    ran, _ = go(plan, cancel=cancel, guard=Free(BusyAnswer(("GPU0 is in use by process 7",))))
    assert states(ran) == {"memory": "cancelled", "gemm": "cancelled"}


@pytest.mark.parametrize("name", ["launch", "memory", "nccl"])
def test_a_cancel_ends_all_at_once(name: str) -> None:
    cancel = threading.Event()
    before = psutil.Process().children(recursive=True)
    plan = playing(planning.plan((), TWO), **{name: HANGS})
    ran, _ = go(plan, cancel=cancel, hear=once_measured(name, cancel.set))
    place = planning.ORDER.index(name)
    assert all(states(ran)[name] == "finished" for name in planning.ORDER[:place])
    assert all(states(ran)[name] == "cancelled" for name in planning.ORDER[place:])
    assert ran.status == "cancelled"
    assert psutil.Process().children(recursive=True) == before


def test_on_one_gpu_what_needs_two_is_skipped_unless_it_was_named() -> None:
    ran, _ = go(planning.plan((), ONE))
    skipped = {name for name, state in states(ran).items() if state == "skipped"}
    assert skipped == {"p2p", "p2p-concurrent", "collectives", "nccl"}
    assert states(ran)["gemm"] == "finished"
    step = ran.step("p2p")
    assert step is not None
    assert "needs 2 GPUs; 1 is used here" in step.text
    named, _ = go(planning.plan(("p2p", "gemm"), ONE))
    assert states(named) == {"p2p": "refused", "gemm": "finished"}


def test_busy_gpus_are_left_alone_and_force_goes_on() -> None:
    busy = BusyAnswer(busy=("GPU0 is in use by process 7",))
    ran, events = go(planning.plan(("gemm", "nccl"), TWO), guard=Free(busy))
    assert set(states(ran).values()) == {"refused"}
    assert ran.forcible
    assert "--force" in ran.steps[0].text
    assert not workers_of(events)
    forced, _ = go(planning.plan(("gemm", "nccl"), TWO, force=True), guard=Free(busy))
    assert set(states(forced).values()) == {"finished"}


def test_a_stranger_who_comes_later_stops_what_is_not_begun() -> None:
    stranger = BusyAnswer(busy=("GPU0 is in use by process 7 since this began",))
    ran, _ = go(planning.plan(("gemm", "memory", "nccl"), TWO), guard=Free(later=stranger))
    assert states(ran) == {"memory": "finished", "gemm": "refused", "nccl": "refused"}
    assert ran.forcible


def test_without_a_torch_the_rest_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "find_interpreter", lambda *asked: InterpreterChoice(None, ()))
    ran, events = go(planning.plan((), TWO))
    by_state = {state: [n for n, s in states(ran).items() if s == state] for state in
                states(ran).values()}  # fmt: skip
    assert by_state == {"finished": list(planning.ORDER[:4]), "no-torch": list(planning.ORDER[4:])}
    assert set(workers_of(events)) == set(planning.ORDER[:4])


def test_a_state_says_how_much_is_left() -> None:
    state = planning.plan(("memory", "gemm"), TWO).state()
    whole = state.left_seconds
    assert whole == pytest.approx(state.estimate_seconds)
    memory = dataclasses.replace(state.steps[0], status=Status.RUNNING, done=1, total=2)
    half = dataclasses.replace(state, steps=(memory, state.steps[1]))
    assert half.left_seconds == pytest.approx(whole - memory.estimate_seconds / 2)
    assert isinstance(half.current, type(memory))


def test_ends_come_as_they_happen() -> None:
    ended: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, ProbeRun):
            ended.append(event.name)
        elif isinstance(event, SuiteState) and event.current is not None:
            over = [step.name for step in event.steps if step.over]
            assert over == ended

    go(planning.plan(("memory", "gemm", "nccl"), TWO), hear=hear)
    assert ended == ["memory", "nccl", "gemm"]


def test_notes_travel_with_their_step_as_bounded_plain_lines() -> None:
    lines = "read by [bold]a kernel\x1b[31m\n  \ntwo lines"
    notes = [
        {"kind": "note", "topic": "environment", "text": "", "details": {}},
        {"kind": "note", "topic": "kernels", "text": lines},
        *({"kind": "note", "topic": "many", "text": f"{n} {5000 * 'x'}"} for n in range(500)),
    ]
    script = (*FIRST_FIGURE, *(("say", note) for note in notes), ("finish",))
    ran, events = go(playing(planning.plan(("gemm", "memory"), TWO), gemm=script))
    gemm, memory = ran.step("gemm"), ran.step("memory")
    assert gemm is not None
    assert memory is not None
    assert gemm.notes[:2] == ("read by [bold]a kernel\ufffd[31m", "two lines")
    assert len(gemm.notes) <= MOST_NOTES
    assert max(len(note) for note in gemm.notes) <= NOTE_LIMIT
    assert memory.notes == ()
    states_then = [event for event in events if isinstance(event, SuiteState)]
    running_then = [state.step("gemm") for state in states_then if state.running]
    assert any(
        step is not None and step.status == "running" and step.notes for step in running_then
    )
    assert note_lines(gemm.outcome.notes, {}) == gemm.notes
