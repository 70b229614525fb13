"""From a wish to figures: refusals come before anything is started."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from gputop import measuring
from gputop.busy import Verdict
from gputop.figures import tables
from gputop.messages import ProbeEnded, ProbeMeasured, ProbeProgress, ProbeStarted
from gputop.probes.protocol import Message
from gputop.probing import Probing
from gputop.topology.machine import Gpu, GpuPair, Machine
from gputop.topology.snapshot import Measurement, NodeSnapshot

A, B = "0000:01:00.0", "0000:02:00.0"
MACHINE = Machine(
    gpus=(
        Gpu(address=A, vendor="nvidia", index=0),
        Gpu(address=B, vendor="nvidia", index=1),
    ),
    pairs=(GpuPair(src=A, dst=B, ancestor="single"), GpuPair(src=B, dst=A, ancestor="single")),
)
NODE = NodeSnapshot(taken_at=0.0, machine=MACHINE)


def measure(wish: measuring.Wish) -> tuple[measuring.Told, list[Message]]:
    heard: list[Message] = []
    return measuring.measure(wish, heard.append, threading.Event()), heard


def test_no_name_means_every_gpu_and_pairs_know_their_kind() -> None:
    wish = measuring.wish_for("p2p", MACHINE, ())
    assert wish.addresses == (A, B)
    assert dict(wish.names) == {A: "GPU0", B: "GPU1"}
    assert dict(wish.kinds) == {f"{A} {B}": "PIX", f"{B} {A}": "PIX"}


def test_a_busy_gpu_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "_look", lambda wish: Verdict(busy=("GPU0 works",)))
    told, heard = measure(measuring.wish_for("p2p", MACHINE, ()))
    assert told.outcome.status == "refused"
    assert "GPU0 works" in told.outcome.message
    assert heard == []


def test_too_few_gpus_are_refused_before_anything_is_asked() -> None:
    told, heard = measure(measuring.wish_for("p2p", MACHINE, (A,)))
    assert told.outcome.status == "refused"
    assert "needs 2 GPUs" in told.outcome.message
    assert heard == []


def test_a_driver_that_hangs_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def hang(wish: measuring.Wish) -> Verdict:
        release.wait(30)
        return Verdict()

    monkeypatch.setattr(measuring, "_look", hang)
    monkeypatch.setattr(measuring, "DRIVER_DEADLINE_SECONDS", 0.05)
    told, heard = measure(measuring.wish_for("p2p", MACHINE, ()))
    release.set()
    assert told.outcome.status == "refused"
    assert "did not answer" in told.outcome.message
    assert heard == []


def test_force_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "_look", lambda wish: Verdict(busy=("GPU0 works",)))
    told, _heard = measure(measuring.wish_for("p2p", MACHINE, (), force=True))
    # No GPU here: the worker itself says so, which shows that it was asked.
    assert told.outcome.status == "refused"
    assert "works" not in told.outcome.message


def test_the_app_hears_start_progress_figures_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    posted: list[Any] = []
    done = threading.Event()

    def post(message: Any) -> None:
        posted.append(message)
        if isinstance(message, ProbeEnded):
            done.set()

    def selftest(probe: str, machine: Machine, addresses: Any, *, force: bool) -> measuring.Wish:
        return measuring.Wish(probe=probe, addresses=(), selftest=True)

    monkeypatch.setattr(measuring, "wish_for", selftest)
    probing = Probing(post)
    probing.start("p2p", (), False, NODE)
    assert done.wait(60)
    kinds = [type(message) for message in posted]
    assert kinds[0] is ProbeStarted
    assert {ProbeProgress, ProbeMeasured} <= set(kinds)
    assert posted[-1].status == "finished"
    figures = [m.measurement for m in posted if isinstance(m, ProbeMeasured)]
    assert {figure.probe for figure in figures} == {"p2p"}
    assert all(dict(figure.versions)["torch"] for figure in figures)


def test_cancelling_ends_with_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    posted: list[Any] = []
    done = threading.Event()
    probing: Probing

    def post(message: Any) -> None:
        posted.append(message)
        if isinstance(message, ProbeProgress):
            probing.cancel()
        if isinstance(message, ProbeEnded):
            done.set()

    monkeypatch.setattr(
        measuring,
        "wish_for",
        lambda *_, **__: measuring.Wish(probe="p2p", addresses=(), selftest=True),
    )
    probing = Probing(post)
    probing.start("p2p", (), False, NODE)
    assert done.wait(60)
    assert posted[-1].status == "cancelled"


def test_tables_name_rows_columns_and_what_is_odd() -> None:
    figures = [
        Measurement(
            probe="p2p", quantity="write_bandwidth", src=A, dst=B,
            value=396.4, low=396.0, high=397.0, engine="copy engine",
        ),
        Measurement(probe="p2p", quantity="bytes_arrive", src=A, dst=B, verdict="not-granted"),
        Measurement(
            probe="p2p", quantity="latency", src=B, dst=A, why_none="odd \x1b[31m thing"
        ),
    ]  # fmt: skip
    text = tables(figures, {A: "GPU0", B: "GPU1"})
    assert "396.4" in text
    assert "copy engine" in text
    assert "not-granted" in text
    assert "GPU1 -> GPU0: odd" in text
    assert "\x1b" not in text
