"""A run of the probe nccl beside its prediction, from recorded logs of real runs."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

import msgspec
import pytest

from gputop import messages
from gputop.answers.figure_words import nccl_lines
from gputop.answers.measured import MeasuredAnswer, SuiteAnswer
from gputop.app import GpuTop
from gputop.exits import ANSWERED, CANNOT_TELL, FAILURES
from gputop.live import probing
from gputop.measuring.nccl_check import NcclCheck, check_run, library_of
from gputop.measuring.runs import to_measurement
from gputop.measuring.state import ProbeRequest, ProbeRun
from gputop.probes.protocol import messages as protocol
from gputop.probes.protocol.outcome import Outcome
from gputop.probes.protocol.status import DeviceKind, ProbeLevel, Status
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded import load
from tests.support.app import app_of, give, gpu, press, report_of, settle
from tests.support.nccl.logs import lines_of
from tests.support.places import RECORDINGS
from tests.support.runs import run_of, suite_of

NODE = RECORDINGS / "hgx-h200-4gpu-vm"
RUNS = {
    "default": {},
    "p2pdis": {"NCCL_P2P_DISABLE": "1"},
    "net": {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"},
    "cumem0": {"NCCL_CUMEM_ENABLE": "0"},
    "lvlphb": {"NCCL_P2P_LEVEL": "PHB"},
}
"""Recorded run -> what was set besides NCCL_NVLS_ENABLE=0."""


@cache
def node() -> NodeSnapshot:
    return load.load((str(NODE),)).snapshot


def said(name: str, src: str = "", dst: str = "", **more: Any) -> protocol.MeasuredValue:
    return protocol.MeasuredValue(name, src, dst, "nccl/1", "gpu", "NCCL", "in a test", **more)


def result(
    log: bytes,
    *figures: protocol.MeasuredValue,
    status: str = "finished",
    cuda: str | None = "13.0",
) -> ProbeRun:
    """A run over the four GPUs of the recording that left this log."""
    addresses = [gpu.address for gpu in node().machine.gpus]
    hello = protocol.Hello(
        "nccl", "nccl/1", "3.11", DeviceKind.GPU,
        tuple(protocol.DeviceRecord(a, i, "H200", a) for i, a in enumerate(addresses)),
        torch="2.11", cuda=cuda, nccl="2.28.9",
    )  # fmt: skip
    outcome = Outcome(
        Status(status), "a test", 1.0, hello=hello,
        logs=(protocol.Log(0, log.decode("utf-8", "replace")), protocol.Log(1, "")),
    )  # fmt: skip
    found = tuple(to_measurement(figure, "nccl", hello) for figure in figures)
    request = ProbeRequest(probe="nccl", addresses=tuple(addresses))
    return run_of("nccl", status, outcome=outcome, measurements=found, request=request)


def recorded(name: str) -> bytes:
    return b"\n".join(lines_of(f"h200-{name}")) + b"\n"


def checked(name: str, log: bytes | None = None, **more: Any) -> NcclCheck:
    changes = {"NCCL_NVLS_ENABLE": "0", **RUNS[name]}
    return check_run(node(), result(recorded(name) if log is None else log), changes, **more)


@pytest.mark.parametrize("name", RUNS)
def test_prediction_and_log_agree_on_every_pair(name: str) -> None:
    check = checked(name)
    assert check.trouble is None
    assert (check.library, check.logged_version) == ("nccl-2.28.9", "2.28.9")
    assert len(check.pairs) == 12
    assert check.pairs_that_differ == 0
    assert check.pairs_that_agree == sum(bool(pair.logged) for pair in check.pairs) >= 4
    assert check.agreement is not None
    assert not check.agreement.differing
    text = "\n".join(nccl_lines(check, {}))
    assert "PREDICTED" not in text
    assert "as predicted" in text
    assert msgspec.json.encode(check)


def test_the_wrong_environment_shows_as_a_difference() -> None:
    check = check_run(node(), result(recorded("p2pdis")), {"NCCL_NVLS_ENABLE": "0"})
    assert check.pairs_that_differ == 4
    text = "\n".join(nccl_lines(check, {}))
    assert "SHM/direct/direct, PREDICTED P2P/CUMEM" in text
    assert "differ from the prediction" in text


def test_what_was_measured_stands_beside_the_rings() -> None:
    first, second = (gpu.address for gpu in node().machine.gpus[:2])
    run = result(
        recorded("default"),
        said("collective_finishes", verdict="finished", bytes_per_copy=4 << 20),
        said("all_reduce_algbw", value=100.0, unit="GB/s", bytes_per_copy=4 << 20),
        said("all_reduce_busbw", value=150.0, unit="GB/s", bytes_per_copy=4 << 20),
        said("all_reduce_busbw", value=342.0, unit="GB/s", bytes_per_copy=64 << 20),
        said("send_receive", first, second, value=300.0, verdict="verified"),
    )
    check = check_run(node(), run, {"NCCL_NVLS_ENABLE": "0"})
    assert check.finished == "finished"
    assert check.ceiling_gbs == pytest.approx(360.0)
    assert [(s.bytes, s.algbw_gbs, s.busbw_gbs) for s in check.speeds] == [
        (4 << 20, 100.0, 150.0), (64 << 20, None, 342.0),
    ]  # fmt: skip
    assert (check.pairs[0].data, check.pairs[0].gbs) == ("verified", 300.0)
    assert check.pairs[1].data is None
    assert "95 % of what the rings are built for" in "\n".join(nccl_lines(check, {}))


@pytest.mark.parametrize(
    "log",
    [b"", b"\xff\x00\x1b[2J" * 1000, b"vm:1:1 [0] NCCL INFO Channel 00 : 9[9] -> via\n"],
    ids=["none", "rubbish", "cut"],
)
def test_a_log_that_says_nothing_is_trouble_and_no_crash(log: bytes) -> None:
    check = checked("default", log)
    assert check.trouble
    assert check.pairs_that_agree == check.pairs_that_differ == 0
    assert all(pair.predicted for pair in check.pairs)
    assert "\x1b" not in "\n".join(nccl_lines(check, {}))


def test_half_a_log_gives_half_an_answer() -> None:
    log = recorded("default")
    check = checked("default", log[: len(log) // 2])
    assert check.pairs_that_differ == 0
    assert "\n".join(nccl_lines(check, {}))


def test_warnings_of_the_library_are_shown_harmless() -> None:
    warning = b"vm:1:1 [0] misc/socket.cc:484 NCCL WARN no \x1b[31mspace\n"
    check = checked("default", recorded("default") + warning)
    assert any("space" in text for text in check.warnings)
    assert "\x1b" not in "\n".join(nccl_lines(check, {}))


def test_other_rules_and_unknown_ones() -> None:
    assert checked("default", library="nccl-2.27.7").library == "nccl-2.27.7"
    assert "no prediction" in (checked("default", library="best").trouble or "")


def test_a_self_test_predicts_nothing() -> None:
    check = check_run(None, result(b""), {})
    assert "self-test" in (check.trouble or "")


@pytest.mark.parametrize(
    ("status", "verdict", "code"),
    [
        ("finished", "finished", ANSWERED),
        ("finished", "wrong-data", FAILURES),
        ("failed", "failed", FAILURES),
        ("timed-out", "timed-out", FAILURES),
        ("refused", None, CANNOT_TELL),
        ("failed", None, CANNOT_TELL),
    ],
)
def test_exit_codes_distinguish_an_answer_from_none(
    status: str, verdict: str | None, code: int
) -> None:
    figures = [] if verdict is None else [said("collective_finishes", verdict=verdict)]
    assert MeasuredAnswer.of(result(b"", *figures, status=status)).exit_code == code


def test_the_document_names_ranks_and_holds_the_check() -> None:
    run = result(recorded("default"), said("collective_finishes", verdict="finished"))
    check = check_run(node(), run, {"NCCL_NVLS_ENABLE": "0"})
    answer = MeasuredAnswer.of(run, nccl=check)
    one = msgspec.to_builtins(answer.document())
    assert one["schema"] == "gputop.probe/1"
    assert [rank["device"] for rank in one["ranks"]] == list(check.gpus[:2])
    assert len(one["check"]["pairs"]) == 12
    assert one["measurements"][0]["quantity"] == "collective_finishes"
    assert one["measurements"][0]["src"] is None
    assert msgspec.json.encode(one)
    whole = answer.document()
    assert SuiteAnswer(runs=(answer,)).document() == whole
    assert SuiteAnswer(runs=(answer, answer)).document()["runs"] == [whole, whole]


def run_by_hand(monkeypatch: pytest.MonkeyPatch, posted: list[Any], run: Any) -> None:
    """A suite of the probe nccl that ends with this run, as the app hears it."""
    monkeypatch.setattr("gputop.measuring.running.Suite._prepare", lambda self: run)
    monkeypatch.setattr("gputop.measuring.history.keep_result", lambda *given: "")
    probe = probing.Probing(posted.append)
    probe._run(("nccl",), (), False, ProbeLevel.NORMAL, node(), threading.Event())


def test_the_app_hears_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    posted: list[Any] = []
    run = result(recorded("default"))
    run_by_hand(monkeypatch, posted, run)
    checks = [message.check for message in posted if isinstance(message, messages.NcclChecked)]
    assert len(checks) == 1
    assert checks[0] is not None
    assert checks[0].pairs_that_agree + checks[0].pairs_that_differ == 4
    assert not posted[-1].state.running


def test_a_comparison_that_fails_leaves_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object) -> None:
        raise RuntimeError("no such thing")

    posted: list[Any] = []
    monkeypatch.setattr("gputop.live.probing.check_run", broken)
    run_by_hand(monkeypatch, posted, result(b"x"))
    (checked,) = (message for message in posted if isinstance(message, messages.NcclChecked))
    assert "no such thing" in checked.text
    assert posted[-1].state.status == "finished"


class AskedProbing:
    """Keeps what was asked of it."""

    def __init__(self, post: Any) -> None:
        self.running = False
        self.started: list[tuple[str, tuple[str, ...], bool]] = []

    def start_suite(
        self, names: Any, addresses: tuple[str, ...], force: bool, level: str, snapshot: Any
    ) -> None:
        self.started.append((names[0], addresses, force))

    def close(self) -> None:
        """Nothing runs."""


async def test_the_controller_runs_nccl_and_keeps_what_it_proved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gputop.live.probing.Probing", AskedProbing)
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        app = app_of(pilot)
        await give(pilot, report_of((gpu(0), gpu(1))))
        app.action_probe_nccl(force=False)
        await settle(pilot)
        await press(pilot, "enter")
        asked: Any = app.probing._thread
        assert asked.started == [("nccl", (), False)]
        refused = run_of("nccl", "refused", "GPU0 is busy")
        app.post_message(messages.SuiteChanged(suite_of(refused, forcible=True)))
        await settle(pilot)
        await press(pilot, "P")
        assert asked.started[-1] == ("nccl", (), True)
        check = NcclCheck(finished="finished")
        app.post_message(messages.NcclChecked(check))
        await settle(pilot)
        assert app.nccl_check == check


def test_rccl_without_torch_is_predicted_and_kept_as_rccl() -> None:
    hello = protocol.Hello(
        "nccl", "nccl/1", "3.11", DeviceKind.GPU, (), nccl="2.21.5", library="RCCL", nccl_path="/a"
    )
    ran = run_of("nccl", outcome=Outcome(Status.FINISHED, "a test", 1.0, hello=hello))
    assert library_of(ran) == "rccl-2.21.5"
    kept = to_measurement(said("init", "a", value=1.0), "nccl", hello)
    assert dict(kept.versions)["rccl"] == "2.21.5"
    assert "nccl" not in dict(kept.versions)


def test_the_library_s_own_verdict_stands_beside_ours() -> None:
    log = recorded("default") + (
        b"vm:1 NCCL DIAG === NCCL Diagnostics ===\n"
        b"vm:1 NCCL DIAG [INFO] p2p: only 11/12 GPU-to-GPU peer accesses passed verification\n"
        b"vm:1 NCCL DIAG NCCL diagnostics completed in 245.3 ms across 4 ranks\n"
    )
    gpus = [gpu.address for gpu in node().machine.gpus]
    pairs = [(gpus[0], gpus[1], "verified"), (gpus[1], gpus[0], "wrong-data")]
    figures = [said("send_receive", src, dst, verdict=verdict) for src, dst, verdict in pairs]
    check = check_run(node(), result(log, *figures), {"NCCL_NVLS_ENABLE": "0"})
    assert [each.passed for each in check.diagnostics] == [False]
    text = "\n".join(nccl_lines(check, {}))
    assert "the library's own diagnostics, paths between GPUs: 0 [OK], 1 [INFO]\n" in text
    assert "  [INFO] p2p: only 11/12 GPU-to-GPU peer accesses passed verification\n" in text
    assert "  beside it, sent and received here: 1 of 2 pairs right" in text
    assert checked("default").diagnostics == ()
    assert "own diagnostics" not in "\n".join(nccl_lines(checked("default"), {}))
