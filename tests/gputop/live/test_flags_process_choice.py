"""The Flags screen shows this shell's variables, or those of a running process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from gputop.app import GpuTop
from gputop.screens.flags.screen import FlagsScreen
from gputop.topology.flags.values.process import ProcessError, ProcessFlags
from gputop.topology.model.readings import GpuProcess, GpuUse, ProcessReading
from gputop.topology.model.snapshot import EnvironmentVariable
from gputop.topology.model.versions import LibraryName
from gputop.topology.node import Node
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.report import Report
from tests.gputop.screens.flags.test_flags import calm, open_flags, screen_of
from tests.support.app import demo_report, give, press, rounds, text

HOSTILE = "\x1b]0;owned\x07[red]run"


def busy_report() -> Report:
    """A live node where process 4711 holds the first two GPUs."""
    snapshot = DemoFeed("pcie-l40s-8").at(7)
    gpus = tuple(
        replace(one, processes=(GpuProcess(pid=4711, kind=GpuUse.COMPUTE),) if at < 2 else ())
        for at, one in enumerate(snapshot.readings.gpus)
    )
    named = ProcessReading(pid=4711, user="alice", command=HOSTILE)
    readings = replace(snapshot.readings, gpus=gpus, processes=(named,))
    return Report(Node(replace(snapshot, source=("live",), readings=readings)).decide())


def fake_read(pid: int) -> ProcessFlags:
    """Process 4711 with one variable; nobody may look at another."""
    if pid != 4711:
        raise ProcessError(f"no permission to read the environment of process {pid}", missing=False)
    one = EnvironmentVariable(name="NCCL_P2P_LEVEL", value="SYS", origin="/etc/nccl.conf")
    return ProcessFlags(
        pid=pid,
        command=HOSTILE,
        user="alice",
        environment=(one,),
        library="/opt/libnccl.so.2.27.5",
        library_name=LibraryName.NCCL,
        library_version="2.27.5",
        notes=("this is the environment at the start",),
    )


async def until(pilot: Pilot[Any], true: Callable[[FlagsScreen], bool]) -> None:
    """Wait for a thread's answer."""
    async for _ in rounds(pilot):
        if true(screen_of(pilot)):
            await calm(pilot)
            return
    raise AssertionError("it never came")


async def choose(pilot: Pilot[Any], down: int) -> None:
    await press(pilot, "V", *["down"] * down, "enter")


def said(pilot: Pilot[Any]) -> str:
    return " ".join(str(note.message) for note in pilot.app._notifications)


@pytest.fixture(autouse=True)
def no_real_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.screens.flags.screen.read_process", fake_read)


async def test_a_process_on_the_gpus_is_offered_and_its_variables_count() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await open_flags(pilot, busy_report())
        study = screen_of(pilot).flags.study
        assert study is not None
        assert "NCCL_P2P_LEVEL" not in study.values
        await press(pilot, "V")
        offered = [str(option.prompt) for option in pilot.app.screen.query_one(OptionList).options]
        assert len(offered) == 3
        assert offered[1].endswith("(alice) on GPU0 GPU1")
        assert "4711" in offered[1]
        assert "\x1b" not in offered[1]
        await press(pilot, "down", "enter")
        await until(pilot, lambda screen: screen.flags.process is not None)
        screen = screen_of(pilot)
        assert screen.flags.study is not None
        assert screen.flags.study.values == {"NCCL_P2P_LEVEL": "SYS"}
        assert screen.flags.study.whose().version == "2.27.5"
        assert screen.flags.origins == {"NCCL_P2P_LEVEL": "/etc/nccl.conf"}
        assert "set in 4711" in text(pilot, "#list")
        assert "at the start" in said(pilot)


async def test_changes_tried_on_one_do_not_carry_over_and_one_comes_back() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await open_flags(pilot, busy_report())
        await press(pilot, "v")
        assert screen_of(pilot).flags.tried.wanted
        await choose(pilot, 1)
        await until(pilot, lambda screen: screen.flags.process is not None)
        assert not screen_of(pilot).flags.tried.wanted
        await press(pilot, "V")
        marked = pilot.app.screen.query_one(OptionList).highlighted
        assert marked == 1, "the process that is shown is the one the panel stands on"
        await press(pilot, "up", "enter")
        await until(pilot, lambda screen: screen.flags.process is None)
        assert " in 4711" not in text(pilot, "#list")


async def test_a_new_reading_keeps_the_process() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await open_flags(pilot, busy_report())
        await choose(pilot, 1)
        await until(pilot, lambda screen: screen.flags.process is not None)
        study = screen_of(pilot).flags.study
        report = screen_of(pilot).report
        assert report is not None
        await give(pilot, report)
        assert screen_of(pilot).flags.study is study


@pytest.mark.parametrize(
    ("typed", "answer"),
    [("12", "no permission to read the environment of process 12"), ("0", "no number")],
)
async def test_a_process_that_cannot_be_read_is_reported(typed: str, answer: str) -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await open_flags(pilot, busy_report())
        await choose(pilot, 2)
        await until(pilot, lambda screen: bool(screen.query(Input)))
        pilot.app.screen.query_one(Input).value = typed
        await press(pilot, "enter")
        async for _ in rounds(pilot):
            if answer in said(pilot):
                break
        assert answer in said(pilot)
        assert screen_of(pilot).flags.process is None
        assert not screen_of(pilot).query(Input)


async def test_a_demo_has_no_processes_to_choose() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await open_flags(pilot, demo_report("pcie-l40s-8"))
        await press(pilot, "V")
        assert isinstance(pilot.app.screen, FlagsScreen)
        assert "live node" in said(pilot)
