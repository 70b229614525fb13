"""What Node, Pairs and Log show of predictions and of a run of NCCL."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from gputop.app import GpuTop
from gputop.live.probe_controller import ProbeController
from gputop.measuring.nccl_check import NcclCheck, PairCheck, transports
from gputop.messages import NcclChecked
from gputop.screens import NAMES
from gputop.screens.node.head import cost_line
from gputop.screens.pairs.screen import PairsScreen
from gputop.topology.diagnosis.symptoms.log import ReadLog, examine
from gputop.topology.logs.reading.read import read_log
from gputop.topology.model.snapshot import EnvironmentVariable, NodeSnapshot
from gputop.topology.node import Node
from gputop.topology.recorded.load import load
from gputop.topology.report import Report
from gputop.widgets.spans import text_of
from tests.support.app import (
    SIZES,
    app_of,
    demo_report,
    give,
    gpu,
    picture,
    press,
    report_of,
    settle,
    text,
)
from tests.support.nccl.logs import lines_of
from tests.support.places import RECORDINGS

LOG = str(NAMES.index("log") + 1)
REAL = RECORDINGS / "nccl-topologies" / "real.xml"


def real(**environment: str) -> NodeSnapshot:
    """The 4-GPU machine, with variables set."""
    found = load([str(REAL)]).snapshot
    return replace(
        found,
        environment=tuple(
            EnvironmentVariable(name=name, value=value, origin="environment")
            for name, value in environment.items()
        ),
    )


def decided(snapshot: NodeSnapshot) -> Report:
    return Report(Node(snapshot).decide())


def checked(snapshot: NodeSnapshot, label: str) -> tuple[NcclCheck, ReadLog]:
    """A run of which every pair logged `label`."""
    prediction = decided(snapshot).prediction
    assert prediction is not None
    pairs = tuple(
        PairCheck(
            src=pair.src,
            dst=pair.dst,
            src_bus_id=pair.src_bus_id,
            dst_bus_id=pair.dst_bus_id,
            predicted=pair.labels,
            logged=(label,),
            agrees=label in pair.labels,
        )
        for pair in prediction.pairs
    )
    log = read_log(io.BytesIO(b"\n".join(lines_of("h200-default"))), name="probe nccl")
    check = NcclCheck(finished="finished", pairs=pairs, engine="NCCL", logged_version="2.28.9")
    return check, examine(log, snapshot)


async def pairs(pilot: Pilot[Any], report: Report, measure: str) -> str:
    await give(pilot, report)
    await press(pilot, "3")
    screen = pilot.app.screen
    assert isinstance(screen, PairsScreen)
    screen.action_show_measure(measure)
    await settle(pilot)
    return text(pilot, "#matrix")


@pytest.mark.parametrize("size", SIZES)
async def test_node_says_what_nccl_will_do(size: tuple[int, int]) -> None:
    async with GpuTop().run_test(size=size) as pilot:
        await give(pilot, demo_report("pcie-l40s-8"))
        await settle(pilot)
        line = text(pilot, "#cost").strip()
        assert re.match(
            r"all-reduce 1 GiB: [\d.]+ to [\d.]+ GB/s \(estimate\) · by Ring Simple", line
        )
        assert "P2P 4, SHM 24 of 28 pairs" in line or size == (80, 24)


@pytest.mark.parametrize("name", ["dgx-1v", "pcie-l40s-8", "hgx-h100-8"])
async def test_a_line_that_is_too_long_loses_whole_clauses(name: str) -> None:
    report = demo_report(name)
    assert report.prediction is not None
    whole = text_of(cost_line(report, 1000)).strip()
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, report)
        line = text(pilot, "#cost").strip()
        assert len(line) < 80
        assert whole[len(line) :][:3] in {"", " · "}


async def test_node_says_that_the_version_is_assumed_and_when_nccl_would_stop() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await give(pilot, decided(real()))
        assert "P2P/CUMEM between all 4 GPUs · NCCL 2.28.9 (assumed)" in text(pilot, "#cost")
        off = real(NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1", NCCL_NET_DISABLE_INTRA="1")
        await give(pilot, decided(off))
        assert "would stop" in text(pilot, "#cost")


async def test_pairs_show_path_and_transport_with_the_librarys_questions_first() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        assert "PHB" in await pairs(pilot, demo_report("pcie-l40s-8"), "nccl-path")
        await press(pilot, "m")
        assert "[SHM]" in text(pilot, "#matrix")
        steps = text(pilot, "#steps")
        assert steps.index("NCCL: near enough for P2P?") < steps.index("How are they connected?")
        assert "changed by NCCL_P2P_LEVEL" in " ".join(steps.split())


async def test_before_the_prediction_there_are_no_cells() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        assert "…" in await pairs(pilot, Report(Node(real())), "transport")
        assert "P2P" not in text(pilot, "#matrix")


async def test_a_run_as_predicted_and_one_that_is_not() -> None:
    for label, sign in (("P2P/CUMEM", "P2P ="), ("SHM/direct/direct", "SHM ≠")):
        snapshot = real()
        check, _ = checked(snapshot, label)
        shown = replace(snapshot, measurements=transports(check, 1.0))
        async with GpuTop().run_test(size=(160, 50)) as pilot:
            assert sign in await pairs(pilot, decided(shown), "logged")
            assert "What did NCCL or RCCL use when it ran?" in text(pilot, "#steps")


async def test_the_log_of_a_run_is_on_the_log_screen() -> None:
    snapshot = real()
    check, read = checked(snapshot, "P2P/CUMEM")
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await give(pilot, decided(snapshot))
        await press(pilot, LOG)
        assert "No log is open" in text(pilot, "#log-head")
        pilot.app.post_message(NcclChecked(check, read=read))
        await settle(pilot)
        assert "probe nccl" in text(pilot, "#log-head")
        said = [str(note.message) for note in app_of(pilot)._notifications]
        assert any("12 of 12 pairs use the transport that was predicted" in note for note in said)


async def test_n_asks_for_nccl(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[Any, ...]] = []
    monkeypatch.setattr(ProbeController, "start", lambda self, *given: started.append(given))
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, report_of((gpu(0), gpu(1))))
        await press(pilot, "3", "n", LOG, "n")
        assert "run NCCL" in picture(pilot).splitlines()[-1]
        assert started == [((), False, "nccl"), ((), False, "nccl")]
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, "n", "3", "n")
        assert "run NCCL" not in picture(pilot)
        (said, *_) = app_of(pilot)._notifications
        assert "NCCL itself is not simulated on a demo" in str(said.message)
    assert len(started) == 2
