"""The Probes screen with figures of a recorded machine, for its tests."""

from __future__ import annotations

from typing import Any

from textual.pilot import Pilot

from gputop.measuring.state import ProbeRun, SuiteState
from gputop.screens.probes.list import ProbeList
from gputop.screens.probes.screen import ProbesScreen
from gputop.topology.report import Report
from tests.support.app import give, press, settle, text
from tests.support.measured import everything, h200_report, with_figures
from tests.support.runs import run_of


def healthy() -> Report:
    report = h200_report()
    return with_figures(report, *everything(report))


def sick() -> Report:
    """Four GPUs of which one has half its links and another half its lanes."""
    report = h200_report()
    return with_figures(report, *everything(report, slow=3, narrow=2))


async def show(pilot: Pilot[Any], report: Report) -> ProbesScreen:
    await give(pilot, report)
    await press(pilot, "4")
    screen = pilot.app.screen
    assert isinstance(screen, ProbesScreen)
    await settle(pilot)
    return screen


def step(name: str, state: str, **more: Any) -> ProbeRun:
    return run_of(name, state, estimate_seconds=10.0, **more)


def rows(pilot: Pilot[Any]) -> dict[str, str]:
    """Name of a probe -> its line in the list."""
    lines = text(pilot, "#probe-list").splitlines()[2:]
    return {line[3:].split()[0]: line for line in lines}


async def select(pilot: Pilot[Any], name: str) -> None:
    await press(pilot, "home")
    for _ in range(20):
        if pilot.app.screen.query_one("#probe-list", ProbeList).selected == name:
            return
        await press(pilot, "down")
    raise AssertionError(f"no probe {name}")


NOTED = SuiteState(
    steps=(
        step(
            "gemm", "finished", text="Finished in 14.1 s.", figures=16, elapsed_seconds=14.1,
            notes=(
                "GPU1: linear is 9 % faster than matmul for bf16 M16384 K8192 N1280: another "
                "kernel is chosen for the transposed weight.",
                "The GEMM library runs with TORCH_BLAS_PREFER_CUBLASLT=1.",
            ),
        ),
        step("launch", "failed", text="CUDA out of memory on GPU0.", elapsed_seconds=2.0),
    ),
    running=False,
    text="1 of 2 probes finished in 17 s; failed: launch.",
)  # fmt: skip
"""Two probes that are over: one with notes, one that failed."""
