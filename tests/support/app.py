"""Reports, feeds and little looks at the screen for tests of the app."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from functools import cache
from typing import Any

import msgspec
from textual.pilot import Pilot
from textual.widget import Widget

from gputop.app import GpuTop
from gputop.messages import ReportReady
from gputop.topology.model.machine import Gpu, GpuPair, Machine, NvLink
from gputop.topology.model.readings import GpuReading, Readings
from gputop.topology.model.snapshot import Measurement, NodeSnapshot, Problem, SourceState
from gputop.topology.model.surroundings import Host, Software
from gputop.topology.node import Node
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.report import Report
from gputop.widgets.bars import Bar
from gputop.widgets.board import Board
from gputop.widgets.spans import text_of

SIZES = ((80, 24), (160, 50))
SHAPES = ("hgx-h100-8", "dgx-1v", "pcie-l40s-8", "sick-h100-8")
TICK = 7


@cache
def demo_report(name: str, tick: int = TICK) -> Report:
    """A demo node at one tick, with what NCCL will do there."""
    return Report(Node(DemoFeed(name).at(tick)).decide())


def of_a_file(report: Report) -> Report:
    """The same node, as if it was read from a file."""
    return report.follow(msgspec.structs.replace(report.snapshot, source=("node.json",)))


def gpu(number: int, **fields: Any) -> Gpu:
    """A made-up GPU with six active NVLinks to a switch."""
    given: dict[str, Any] = {
        "address": f"0000:{0x10 + number:02x}:00.0",
        "vendor": "nvidia",
        "index": number,
        "uuid": f"GPU-{number:08d}",
        "name": "NVIDIA Test GPU",
        "memory_bytes": 80 * 2**30,
        "power_limit_watts": 700.0,
        "temperature_slowdown_c": 90,
        "pcie_gen_max": 5,
        "pcie_width_max": 16,
        "numa_node": 0,
        "nvlinks": tuple(
            NvLink(link=link, active=True, version="4.0", raw_gbs=26.562, remote_kind="nvswitch")
            for link in range(6)
        ),
    }
    return Gpu(**{**given, **fields})


def reading(of: Gpu, **fields: Any) -> GpuReading:
    """A made-up reading of that GPU."""
    given: dict[str, Any] = {
        "address": of.address,
        "utilization_percent": 42.0,
        "memory_used_bytes": 10 * 2**30,
        "power_watts": 123.0,
        "temperature_c": 55,
        "clock_sm_mhz": 1500,
        "throttle_reasons": (),
        "pcie_gen": 5,
        "pcie_width": 16,
        "processes": (),
    }
    return GpuReading(**{**given, **fields})


def snapshot_of(
    gpus: tuple[Gpu, ...] = (),
    readings: tuple[GpuReading, ...] | None = None,
    *,
    host: Host | None = None,
    software: Software | None = None,
    pairs: tuple[GpuPair, ...] = (),
    states: tuple[SourceState, ...] = (),
    problems: tuple[Problem, ...] = (),
    measurements: tuple[Measurement, ...] = (),
    source: tuple[str, ...] = ("live",),
) -> NodeSnapshot:
    """A snapshot made of parts."""
    moving = tuple(reading(gpu) for gpu in gpus) if readings is None else readings
    return NodeSnapshot(
        taken_at=1_700_000_000.0,
        source=source,
        machine=Machine(gpus=gpus, host=host, software=software, pairs=pairs),
        readings=Readings(gpus=moving),
        states=states,
        problems=problems,
        measurements=measurements,
    )


def report_of(gpus: tuple[Gpu, ...] = (), *rest: Any, **parts: Any) -> Report:
    """A report on a snapshot made of parts."""
    return Report(Node(snapshot_of(gpus, *rest, **parts)))


async def give(pilot: Pilot[Any], report: Report) -> None:
    """Hand a report to the app and wait until it is drawn."""
    pilot.app.post_message(ReportReady(report))
    await settle(pilot)


async def settle(pilot: Pilot[Any]) -> None:
    """Wait until nothing is left to do and the picture is drawn."""
    await pilot.pause()


async def quiet(pilot: Pilot[Any]) -> None:
    """Wait until the app's threads answered as well, and what they said is drawn."""
    await settle(pilot)
    while any(not worker.is_finished for worker in pilot.app.workers):
        await asyncio.sleep(0.02)
    await settle(pilot)


async def rounds(pilot: Pilot[Any]) -> AsyncIterator[None]:
    """Settle again and again, for a minute at most: a thread may be slow."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        await settle(pilot)
        yield
        # The app's threads run meanwhile, which a loop that only turns would starve.
        await asyncio.sleep(0.02)


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys and wait after each."""
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


def app_of(pilot: Pilot[Any]) -> GpuTop:
    """The app under test."""
    assert isinstance(pilot.app, GpuTop)
    return pilot.app


def text(pilot: Pilot[Any], selector: str) -> str:
    """What a board or a bar says, whether it is scrolled or not."""
    widget: Widget = pilot.app.screen.query_one(selector)
    if isinstance(widget, Bar):
        return text_of(widget.line) + "  " + text_of(widget.end)
    assert isinstance(widget, Board)
    return f"{widget.border_title or ''}\n{widget.text()}"


def picture(pilot: Pilot[Any]) -> str:
    """Every line as it stands on the terminal."""
    lines = pilot.app.screen._compositor.render_strips(pilot.app.size)
    return "\n".join(strip.text for strip in lines)


class StepFeed:
    """A feed that gives what the test puts in, at once."""

    def __init__(self, snapshot: NodeSnapshot) -> None:
        self._snapshot = snapshot
        self._news = threading.Event()
        self.closed = False

    def put(self, snapshot: NodeSnapshot) -> None:
        """Let this be the newest state."""
        self._snapshot = snapshot
        self._news.set()

    def snapshot(self) -> NodeSnapshot:
        """The newest state."""
        self._news.clear()
        return self._snapshot

    def wait(self, timeout: float) -> bool:
        """Block until the test puts something in."""
        return self._news.wait(timeout)

    def close(self) -> None:
        """Wake whoever waits."""
        self.closed = True
        self._news.set()
