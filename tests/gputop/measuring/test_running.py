"""Which worker runs a probe: the driver's, one that loads NCCL by itself, or one with torch."""

from __future__ import annotations

import dataclasses
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from gputop.measuring import running
from gputop.measuring.busy import BusyAnswer
from gputop.measuring.planning import Plan, plan
from gputop.measuring.running import Suite, Workers
from gputop.measuring.runs import worker_request
from gputop.measuring.state import ProbeRun
from gputop.probes.protocol.outcome import Outcome
from gputop.probes.protocol.status import Status
from gputop.probes.runner.interpreters import Interpreter, InterpreterChoice
from gputop.probes.runner.nccl_library import TORCH, NcclLibrary
from gputop.topology.model.machine import Gpu, Machine

TWO = Machine(gpus=tuple(Gpu(address=f"0000:0{n}:00.0", vendor="nvidia") for n in (1, 2)))
PYTHON = Interpreter("/torch/python", "PATH", "3.12.1", "2.11", "13.0")
WHEEL = NcclLibrary("/wheel/libnccl.so.2", "the one that torch 2.11 of /torch/python loads")


class Session:
    """A worker that only notes how it was made."""

    made: list[Session]

    def __init__(self, python: str, cancel: threading.Event, **more: object) -> None:
        self.python, self.more, self.began, self.alive = python, more, False, False
        Session.made.append(self)

    def begin(self) -> None:
        self.began = True

    def close(self) -> None:
        """There is nothing to end."""


@pytest.fixture(autouse=True)
def node(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node with a torch, and the NCCL that this torch would load."""
    monkeypatch.setattr(Session, "made", [], raising=False)
    monkeypatch.setattr(running, "library_for", lambda choice: WHEEL)


def made(planned: Plan, choice: InterpreterChoice | None = None) -> Workers:
    found = choice or InterpreterChoice(PYTHON, (PYTHON,))
    made = Workers(Session, planned, threading.Event(), lambda *asked: found)
    made.look()
    return made


def step(planned: Plan, name: str) -> ProbeRun:
    return next(each for each in planned.steps if each.name == name)


def started(working: Workers, planned: ProbeRun) -> tuple[str, dict[str, object]]:
    """The Python and the options of a probe's worker."""
    choice = working.choice(planned)
    assert choice.chosen is not None
    session = working.session(planned, choice.chosen.path)
    return choice.chosen.how_found, session.more


def test_nccl_is_loaded_by_itself_where_it_is_found() -> None:
    planned = plan((), TWO)
    working = made(planned)
    for name, torch in (("p2p", False), ("gemm", True), ("train-step", True)):
        more = {"torch": True, "imports": ("_dynamo",)} if torch else {"driver": True}
        assert started(working, step(planned, name)) == ("PATH" if torch else "this Python", more)
        assert working.library_of(step(planned, name)) is None
    for name in ("nccl", "collectives"):
        one = step(planned, name)
        assert started(working, one) == ("this Python", {"children": True})
        params = worker_request(one.request, 60, working.library_of(one)).params
        assert (params["library"], params["library_found"]) == (WHEEL.path, WHEEL.how_found)
        sentence = working.choice(one).sentences()[0]
        assert sentence.endswith(f"without torch, with {WHEEL.path} ({WHEEL.how_found})")
    assert len(Session.made) == 3, "nccl and collectives share a worker"
    last = {each.name for each in planned.runs if working.is_last(each)}
    alone = [each.name for each in planned.runs if started(working, each)[1] == {"driver": True}]
    assert last == {alone[-1], "train-step", "collectives"}


def test_torch_is_imported_only_if_a_probe_computes_with_it() -> None:
    working = made(plan(("p2p", "nccl"), TWO))
    working.library_of(step(plan(("nccl",), TWO), "nccl"))  # waits for the search
    working.warm()
    assert Session.made == []
    working = made(plan(("p2p", "gemm", "nccl"), TWO))
    working.library_of(step(plan(("nccl",), TWO), "nccl"))
    working.warm()
    assert [(each.python, each.began) for each in Session.made] == [("/torch/python", True)]
    assert Session.made[0].more["imports"] == (), "only a train step needs more of torch"


def test_one_gpu_trains_without_what_data_parallel_imports() -> None:
    alone = plan(("train-step",), Machine(gpus=TWO.gpus[:1]))
    assert started(made(alone), step(alone, "train-step"))[1] == {"torch": True, "imports": ()}


def test_a_named_file_needs_no_search() -> None:
    planned = plan(("nccl", "collectives"), TWO, nccl_lib="/a/libnccl.so.2")

    def find(*asked: Any) -> InterpreterChoice:
        raise AssertionError("nobody looks for torch")

    working = Workers(Session, planned, threading.Event(), find)
    working.look()
    found = working.library_of(step(planned, "nccl"))
    assert found == NcclLibrary("/a/libnccl.so.2", "--nccl-lib", named=True)
    asked = worker_request(step(planned, "nccl").request, 60, found)
    assert asked.params["library_named"] is True, "a broken one is refused, not left to torch"
    working.warm()
    assert Session.made == []


def test_what_a_library_alone_cannot_is_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = plan(("nccl", "collectives"), TWO)
    answers = {True: Status.NO_TORCH, False: Status.FINISHED}

    def run(session: Session, asked: Any, hear: Any, seconds: float, *, last: bool) -> Outcome:
        return Outcome(answers["children" in session.more], "so it ended", 0.1)

    monkeypatch.setattr(Session, "run", run, raising=False)
    found = InterpreterChoice(PYTHON, (PYTHON,))
    guard: Any = SimpleNamespace(begin=lambda **more: BusyAnswer, recheck=BusyAnswer)
    ran = Suite(
        planned, lambda event: None, threading.Event(), session=Session, guard=guard,
        find=lambda *asked: found,
    ).run()  # fmt: skip
    assert [end.outcome.status for end in ran.steps] == ["finished"] * 2
    assert [each.more for each in Session.made] == [
        {"children": True},
        {"torch": True, "imports": ()},
    ]
    answers[False] = Status.NO_TORCH
    without = InterpreterChoice(None, ())
    ran = Suite(
        planned, lambda event: None, threading.Event(), session=Session, guard=guard,
        find=lambda *asked: without,
    ).run()  # fmt: skip
    assert [end.outcome.status for end in ran.steps] == ["no-torch"] * 2


def test_a_torch_for_the_cpu_is_no_help_for_a_library_that_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It could only say that it is one; and what the library says is no word about torch."""
    cpu = dataclasses.replace(PYTHON, cuda=None, hip=None)
    ends = {"children": Outcome(Status.NO_TORCH, "The library cannot be loaded.", 0.1),
            "torch": Outcome(Status.REFUSED, "This torch is for the CPU.", 0.1)}  # fmt: skip

    def run(session: Session, *asked: Any, last: bool) -> Outcome:
        return next(end for kind, end in ends.items() if kind in session.more)

    monkeypatch.setattr(Session, "run", run, raising=False)
    guard: Any = SimpleNamespace(begin=lambda **more: BusyAnswer, recheck=BusyAnswer)
    ran = Suite(
        plan(("collectives", "train-step"), TWO), lambda event: None, threading.Event(),
        session=Session, guard=guard, find=lambda *asked: InterpreterChoice(cpu, (cpu,)),
    ).run()  # fmt: skip
    assert [end.outcome for end in ran.steps] == list(ends.values())


def test_without_torch_and_library_both_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "library_for", lambda choice: None)
    guard: Any = SimpleNamespace(begin=lambda **more: BusyAnswer, recheck=BusyAnswer)
    ran = Suite(
        plan(("nccl",), TWO), lambda event: None, threading.Event(), session=Session, guard=guard,
        find=lambda *asked: InterpreterChoice(None, ()),
    ).run()  # fmt: skip
    assert ran.steps[0].outcome.message == (
        "No Python with torch was found; --python names one. "
        "No library of NCCL or RCCL was found either; --nccl-lib names one."
    )


def test_a_torch_for_the_cpu_and_no_library_are_both_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cpu = dataclasses.replace(PYTHON, cuda=None, hip=None)
    monkeypatch.setattr(running, "library_for", lambda choice: None)

    def run(session: Session, *asked: Any, last: bool) -> Outcome:
        return Outcome(Status.REFUSED, "This torch is for the CPU.", 0.1)

    monkeypatch.setattr(Session, "run", run, raising=False)
    guard: Any = SimpleNamespace(begin=lambda **more: BusyAnswer, recheck=BusyAnswer)
    ran = Suite(
        plan(("nccl", "train-step"), TWO), lambda event: None, threading.Event(), session=Session,
        guard=guard, find=lambda *asked: InterpreterChoice(cpu, (cpu,)),
    ).run()  # fmt: skip
    by_name = {end.name: end.outcome.message for end in ran.steps}
    assert by_name["train-step"] == "This torch is for the CPU."
    assert by_name["nccl"] == (
        "This torch is for the CPU. "
        "No library of NCCL or RCCL was found either; --nccl-lib names one."
    )


@pytest.mark.parametrize("more", [{"nccl_lib": TORCH}, {"selftest": True}])
def test_torch_measures_where_it_is_asked_for(more: dict[str, Any]) -> None:
    planned = plan(("nccl",), TWO, **more)
    working = made(planned)
    assert started(working, step(planned, "nccl")) == ("PATH", {"torch": True, "imports": ()})
    assert working.library_of(step(planned, "nccl")) is None


@pytest.mark.parametrize("busy", [False, True])
def test_the_worker_of_the_driver_starts_while_the_gpus_are_looked_at(
    monkeypatch: pytest.MonkeyPatch, busy: bool
) -> None:
    began: list[bool] = []

    def look() -> BusyAnswer:
        began.extend(session.began for session in Session.made)
        return BusyAnswer(busy=("GPU0 is in use",)) if busy else BusyAnswer()

    def run(session: Session, *asked: Any, last: bool) -> Outcome:
        return Outcome(Status.FINISHED, "so it ended", 0.1)

    monkeypatch.setattr(Session, "run", run, raising=False)
    guard: Any = SimpleNamespace(begin=lambda **more: look, recheck=BusyAnswer)
    ran = Suite(
        plan(("p2p",), TWO), lambda event: None, threading.Event(), session=Session, guard=guard
    ).run()
    assert began == [True]
    assert ran.steps[0].outcome.status == ("refused" if busy else "finished")
    assert [session.more for session in Session.made] == [{"driver": True}]
