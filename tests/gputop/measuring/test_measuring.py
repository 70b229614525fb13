"""From a request to the message for a worker, and from figures to messages and tables."""

from __future__ import annotations

import sys
import threading
from functools import partial
from typing import Any

import pytest

from gputop.live.probing import Probing
from gputop.measuring import planning, running
from gputop.measuring import runs as measuring
from gputop.measuring.expected import Expectations
from gputop.measuring.running import Suite
from gputop.measuring.runs import note_lines
from gputop.measuring.state import ProbeRequest
from gputop.messages import ProbeMeasured, SuiteChanged
from gputop.probes.protocol import messages as protocol
from gputop.probes.protocol.status import ProbeLevel
from gputop.probes.runner.client import Session
from gputop.probes.runner.interpreters import Interpreter, InterpreterChoice
from gputop.topology.model.machine import Gpu, GpuPair, Machine
from gputop.topology.model.snapshot import DataVerdict, Measurement, NodeSnapshot
from tests.support.runs import figures_text
from tests.support.worker_scripts import WORKER

A, B = "0000:01:00.0", "0000:02:00.0"
MACHINE = Machine(
    gpus=(
        Gpu(address=A, vendor="nvidia", index=0),
        Gpu(address=B, vendor="nvidia", index=1),
    ),
    pairs=(GpuPair(src=A, dst=B, ancestor="single"), GpuPair(src=B, dst=A, ancestor="single")),
)
NODE = NodeSnapshot(taken_at=0.0, machine=MACHINE)


def test_no_name_means_every_gpu_and_pairs_know_their_kind() -> None:
    request = measuring.request_for("p2p", MACHINE, ())
    assert request.addresses == (A, B)
    assert dict(request.names) == {A: "GPU0", B: "GPU1"}
    assert dict(request.kinds) == {f"{A} {B}": "PIX", f"{B} {A}": "PIX"}


def test_a_request_says_level_kinds_and_when_to_give_up() -> None:
    request = measuring.request_for(
        "nccl", MACHINE, (), force=True, level="quick", params=(("loopback", True),)
    )
    message = measuring.worker_request(request, 60.0)
    assert message.devices == (A, B)
    assert message.params["level"] == "quick"
    assert message.params["force"] is True
    assert message.params["loopback"] is True
    assert message.params["kinds"][f"{A} {B}"] == "PIX"
    assert 30 < message.params["seconds"] < 60


def selftests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every plan be one of the self-test."""
    plan = planning.plan

    def on_cpu(names: Any, machine: Machine, addresses: Any, **more: Any) -> planning.Plan:
        return plan(names, Machine(), (), **{**more, "selftest": True})

    monkeypatch.setattr(planning, "plan", on_cpu)


def answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a made-up worker answer every self-test at once."""
    here = Interpreter(sys.executable, "this Python", "3.11", "2.5", "12.4")
    session = partial(Session, worker=WORKER)
    selftests(monkeypatch)
    monkeypatch.setattr(
        running, "find_interpreter", lambda *asked: InterpreterChoice(here, (here,))
    )
    monkeypatch.setattr(running, "Suite", partial(Suite, session=session))


class Posted:
    """Keeps what a suite tells the app, and knows when it has ended."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.done = threading.Event()

    def __call__(self, message: Any) -> None:
        self.messages.append(message)
        if isinstance(message, SuiteChanged) and not message.state.running:
            self.done.set()


def test_the_app_hears_start_progress_figures_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    post = Posted()
    selftests(monkeypatch)
    probing = Probing(post)
    probing.start_suite(("p2p",), (), False, ProbeLevel.QUICK, NODE)
    assert post.done.wait(60)
    states = [message.state for message in post.messages if isinstance(message, SuiteChanged)]
    current = [state.current for state in states if state.current is not None]
    assert {step.name for step in current} == {"p2p"}
    assert any(step.total for step in current)
    assert post.messages[-1].state.status == "finished"
    figures = [m.measurement for m in post.messages if isinstance(m, ProbeMeasured)]
    assert {figure.probe for figure in figures} == {"p2p"}
    assert all(dict(figure.versions)["python"] for figure in figures)


def test_cancelling_ends_with_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Posted()
    probing: Probing

    def post(message: Any) -> None:
        if isinstance(message, SuiteChanged) and message.state.current is not None:
            probing.cancel()
        heard(message)

    selftests(monkeypatch)
    probing = Probing(post)
    probing.start_suite(("p2p",), (), False, ProbeLevel.QUICK, NODE)
    assert heard.done.wait(60)
    assert heard.messages[-1].state.status == "cancelled"


def test_tables_name_rows_columns_and_what_is_odd() -> None:
    figures = [
        Measurement(
            probe="p2p", quantity="write_bandwidth", src=A, dst=B,
            value=396.4, low=396.0, high=397.0, engine="copy engine",
        ),
        Measurement(probe="p2p", quantity="bytes_arrive", src=A, dst=B,
        verdict=DataVerdict.NOT_GRANTED),
        Measurement(
            probe="p2p", quantity="latency", src=B, dst=A, why_none="odd \x1b[31m thing"
        ),
    ]  # fmt: skip
    text = figures_text(Expectations(tuple(figures)), {A: "GPU0", B: "GPU1"})
    assert "396.4" in text
    assert "copy engine" in text
    assert "not-granted" in text
    assert "GPU1 -> GPU0: odd" in text
    assert "\x1b" not in text


def test_a_forced_figure_says_who_was_in_the_way_on_its_gpus() -> None:
    names = ((A, "GPU1"), (B, "GPU10"))
    request = ProbeRequest(probe="p2p", addresses=(A, B), names=names)
    busy = ("GPU10 is in use by process 7", "GPU10: 3 GB of its memory is held")

    def found(src: str, who: tuple[str, ...] = ()) -> dict[str, Any]:
        figure = protocol.MeasuredValue("gemm", src, "", "gemm/1", "gpu", "", "")
        return measuring.circumstances(request, figure, who)

    assert found(A, busy) == {}
    assert found(B, busy) == {"forced": "; ".join(busy)}
    assert found("", busy) == {"forced": "; ".join(busy), "devices": [A, B]}
    assert found("") == {"devices": [A, B]}


@pytest.mark.parametrize("raises", [False, True])
def test_a_run_that_is_not_kept_is_a_note_and_the_suite_goes_on(
    monkeypatch: pytest.MonkeyPatch, raises: bool
) -> None:
    post = Posted()

    def keep_result(*given: Any) -> str:
        if raises:
            raise RuntimeError("no such luck")
        return "the run is not kept in the history: Read-only file system"

    answered(monkeypatch)
    monkeypatch.setattr("gputop.measuring.history.keep_result", keep_result)
    Probing(post).start_suite(("memory", "launch"), (), False, ProbeLevel.QUICK, NODE)
    assert post.done.wait(90)
    assert post.messages[-1].state.status == "finished"
    last = [message.state for message in post.messages if isinstance(message, SuiteChanged)][-1]
    said = "RuntimeError: no such luck" if raises else "Read-only file system"
    assert [step.status for step in last.steps] == ["finished", "finished"]
    for step in last.steps:
        assert step.figures
        assert step.notes[-1] == f"the run is not kept in the history: {said}"


def test_a_worker_names_addresses_and_people_read_labels() -> None:
    names = {"0000:1b:00.0": "GPU3", "0000:1b:00.0/1": "GPU4"}
    note = protocol.Note("wiring", "0000:1b:00.0 to 0000:1b:00.0/1 keeps 40 %")
    assert note_lines([note], names) == ("GPU3 to GPU4 keeps 40 %",)
    assert note_lines([note], {}) == (note.text,)
