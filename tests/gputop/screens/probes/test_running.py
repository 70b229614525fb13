"""The Probes screen while probes run and after: keys, progress, notes, earlier runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gputop.app import GpuTop
from gputop.live.probe_controller import ProbeController
from gputop.measuring import history
from gputop.measuring.state import SuiteState
from gputop.messages import SuiteChanged
from tests.gputop.screens.probes.shown import healthy, rows, select, show, step
from tests.support.app import SIZES, app_of, demo_report, give, press, rounds, settle, text


async def test_keys_start_what_is_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[Any, ...]] = []

    def start(
        self: ProbeController,
        names: tuple[str, ...] = (),
        addresses: tuple[str, ...] = (),
        force: bool = False,
        level: str = "normal",
    ) -> None:
        started.append((names, force, level))

    monkeypatch.setattr(ProbeController, "start_suite", start)
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await show(pilot, demo_report("hgx-h100-8"))
        await select(pilot, "nccl")
        await press(pilot, "p")
        assert not started
        await select(pilot, "p2p")
        await press(pilot, "p", "P", "L", "a")
    assert started == [
        (("p2p",), False, "normal"),
        (("p2p",), True, "normal"),
        ((), False, "full"),
    ]


async def test_a_demo_simulates_every_probe_unless_a_pair_is_selected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[tuple[tuple[str, ...], int, bool]] = []

    def start(self: object, names: Any, addresses: Any = (), force: bool = False) -> None:
        started.append((names, len(addresses), force))

    monkeypatch.setattr(ProbeController, "start_suite", start)
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, "p", "P", "3", "p", "a")
    assert started == [((), 0, False), ((), 0, True), (("p2p",), 2, False), (("p2p",), 0, False)]


async def test_a_suite_moves_through_the_list() -> None:
    suite = SuiteState(
        steps=(
            step("p2p", "running", done=5, total=20, what="GPU0 to GPU1 [red]"),
            step("gemm", "waiting"),
            step("nccl", "died", text="the worker died of signal 9"),
        ),
        estimate_seconds=30.0,
    )
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await show(pilot, healthy())
        app = app_of(pilot)
        app.suite = suite
        await settle(pilot)
        assert rows(pilot)["p2p"].startswith("›▶")
        assert "5/20" in rows(pilot)["p2p"]
        assert "waiting" in rows(pilot)["gemm"]
        assert "✗ nccl" in rows(pilot)["nccl"]
        assert "died" in rows(pilot)["nccl"]
        assert "about 18 s left" in text(pilot, "#probes-head")
        assert "5/20 ━" in text(pilot, "#probe-figures")
        assert "[red]" in text(pilot, "#probe-figures")
        app.suite = replace(
            suite,
            running=False,
            text="1 of 3 failed",
            steps=(step("nccl", "died", text="signal 9"),),
        )
        await settle(pilot)
        assert "! 1 of 3 failed" in text(pilot, "#probes-head")
        await select(pilot, "nccl")
        assert "died: signal 9" in text(pilot, "#probe-figures")


@pytest.mark.parametrize("size", SIZES)
async def test_notes_of_a_probe_stay_when_another_one_runs(size: tuple[int, int]) -> None:
    notes = ("Staging through the host is faster [red]\x1b[2J", " ")
    first = SuiteState(
        steps=(step("launch", "finished", text="Finished in 3.4 s.", figures=3, notes=notes),),
        running=False,
    )
    async with GpuTop().run_test(size=size) as pilot:
        await show(pilot, healthy())
        app = app_of(pilot)
        app.probing.take(SuiteChanged(first))
        await select(pilot, "launch")
        await settle(pilot)
        said = " ".join(text(pilot, "#probe-figures").split())
        assert "✓ Finished in 3.4 s." in said
        assert said.count("Note: Staging through the host is faster [red]\ufffd[2J") == 1
        assert said.count("Note:") == 1
        other = SuiteState(steps=(step("gemm", "failed", text="out of memory"),), running=False)
        app.probing.take(SuiteChanged(other))
        await settle(pilot)
        assert "Note: Staging" in text(pilot, "#probe-figures")
        await press(pilot, "w")
        assert "Staging through the host" in text(pilot, "#text")
        await press(pilot, "escape")
        await select(pilot, "gemm")
        await settle(pilot)
        said = text(pilot, "#probe-figures")
        assert "✗ failed: out of memory" in said
        assert "Note:" not in said
        assert app.trouble == ""


async def test_earlier_runs_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "folder", lambda: tmp_path)
    report = healthy()
    key = history.node_key(report.snapshot.machine)
    for number, (value, torch) in enumerate(((396.0, "2.10"), (395.0, "2.10"), (201.0, "2.11"))):
        figure = history.SavedFigure(
            quantity="write_bandwidth", value=value, unit="GB/s", judgement="low", method="p2p/2"
        )
        run = history.SavedRun(
            probe="p2p", taken_at=1e9 + number, versions={"torch": torch}, figures=(figure,)
        )
        assert history.keep(run, key) == ""
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await show(pilot, report)
        async for _ in rounds(pilot):
            if "GB/s" in text(pilot, "#probe-earlier"):
                break
        said = text(pilot, "#probe-earlier")
        assert "-49 %" in said
        assert "torch: 2.10 → 2.11" in said
        newest = next(line for line in said.splitlines() if "201 GB/s" in line and "▼" in line)
        assert "-49.1 %" in newest
        assert said.index("201 GB/s ▼") < said.index("395 GB/s ▼") < said.index("396 GB/s ▼")
