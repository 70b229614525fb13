"""The time bar of a recording, and a recording that the app makes."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from gputop.app import GpuTop
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.recorded.sessions.changes import NoteKind, SessionNote
from gputop.topology.recorded.sessions.feed import ReplayFeed
from gputop.topology.recorded.sessions.session_file import SessionFile
from gputop.widgets.bars import Bar
from gputop.widgets.spans import text_of, width_of
from tests.support.app import picture, settle, text
from tests.support.sessions import BEGUN, demo_readings, write_recording

NOTES = {
    0: (SessionNote(NoteKind.RECORDER, "recording begins"),),
    90: (SessionNote(NoteKind.EVENT, "GPU3: lost", "broken"),),
    120: (SessionNote(NoteKind.PROCESS, "process 41 ended on GPU0"),),
}
PATIENCE_SECONDS = 60.0
LEAST_BYTES = 3000
"""A whole reading of the demo has more."""


@pytest.fixture(autouse=True)
def clock_of_greenwich(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times on the bar are local ones."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.fixture
def night(tmp_path: Path) -> Path:
    """Four minutes, as far as the demo goes on without them being told."""
    return write_recording(tmp_path / "night.gtrec", demo_readings(150, "sick-h100-8"), NOTES)


def played(night: Path, at: float = 0.0) -> GpuTop:
    """The app on a recording that stands still at that second."""
    return GpuTop(ReplayFeed(SessionFile(night), at=BEGUN + at))


async def until(pilot: Pilot[int], app: GpuTop, second: float) -> None:
    """Wait until that second is shown."""
    end = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while app.report is None or app.report.snapshot.taken_at != BEGUN + second:
        assert asyncio.get_running_loop().time() < end
        await asyncio.sleep(0.02)
    await settle(pilot)


async def test_keys_move_through_a_recording(night: Path) -> None:
    app = played(night, 5)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, app, 5)
        for key, second in (
            ("full_stop", 6), ("comma", 5), ("greater_than_sign", 65), ("less_than_sign", 5),
            ("N", 90), ("N", 120), ("B", 90), ("B", 0),
        ):  # fmt: skip
            await pilot.press(key)
            await until(pilot, app, second)
        await pilot.press("plus")
        assert app.sessions.replay is not None
        assert app.sessions.replay.speed == 2.0
        await pilot.press("minus", "minus", "c")
        assert (app.sessions.replay.speed, app.sessions.replay.paused) == (0.5, False)
        assert "playing 0.5x" in text_of(app.sessions.line(120))


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (160, 50)])
def test_picture_of_the_bar(snap_compare: Any, night: Path, size: tuple[int, int]) -> None:
    app = played(night, 0)

    async def draw(pilot: Pilot[int]) -> None:
        await pilot.press("N")
        await until(pilot, app, 90)
        end = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while not (_diagnosed(app) and app.recent.watched_seconds == 90 and _has_bars(pilot)):
            assert asyncio.get_running_loop().time() < end
            await asyncio.sleep(0.05)
        await settle(pilot)

    assert snap_compare(app, terminal_size=size, run_before=draw)


def _has_bars(pilot: Pilot[int]) -> bool:
    """Whether the last minute is drawn: it is made behind the first picture of a jump."""
    return any(bar in picture(pilot) for bar in "▇█")


def _diagnosed(app: GpuTop) -> bool:
    return app.report is not None and app.report.diagnosis is not None


async def test_an_event_is_told_with_its_sign_and_its_place(night: Path) -> None:
    app = played(night, 0)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, app, 0)
        await pilot.press("N")
        await until(pilot, app, 90)
        status = text(pilot, "#status")
        assert "✗ broken GPU3: lost" in status
        assert "event 2 of 3" in status
        await pilot.press("full_stop")
        await until(pilot, app, 91)
        assert "GPU3: lost" not in text(pilot, "#status")
        await pilot.press("N")
        await until(pilot, app, 120)
        assert "• process 41 ended on GPU0" in text(pilot, "#status")


async def test_charts_follow_a_jump(night: Path) -> None:
    app = played(night, 100)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, app, 100)
        await pilot.press("less_than_sign")
        await until(pilot, app, 40)
        end = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while app.recent.watched_seconds != 40:
            assert asyncio.get_running_loop().time() < end
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("width", [60, 80, 120, 160])
async def test_the_bar_fits_and_marks_what_was_noted(night: Path, width: int) -> None:
    app = played(night, 75)
    async with app.run_test(size=(width, 40)) as pilot:
        await until(pilot, app, 75)
        line = app.sessions.line(width)
        bar = text_of(app.screen.query_one("#session", Bar).line)
        assert bar == text_of(line)
        assert width_of(line) <= width
        assert bar.count("!") == 3
        assert bar.count("●") == 1
        assert bar.index("●") < bar.rindex("!")


async def test_keys_of_the_bar_do_nothing_elsewhere() -> None:
    app = GpuTop(DemoFeed("dgx-1v"))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.press("c", "N", "plus", "comma")
        assert not app.sessions.line(120)
        titles = [str(command.title) for command in app.get_system_commands(app.screen)]
        assert "Record" in titles
        assert not any("Replay" in title for title in titles)


async def test_the_app_records_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = GpuTop(DemoFeed("dgx-1v", interval=0.2), interval=0.2)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        while app.report is None:
            await asyncio.sleep(0.02)
        await pilot.press("ctrl+r")
        assert "● recording" in text_of(app.sessions.line(120))
        end = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while not any(len(one) >= 2 for one in _recorded(tmp_path)):
            assert asyncio.get_running_loop().time() < end
            await asyncio.sleep(0.05)
        await pilot.press("ctrl+r")
        await settle(pilot)
        assert not app.sessions.line(120)
        while not (found := list(tmp_path.glob("gputop-*.gtrec"))) or _running():
            assert asyncio.get_running_loop().time() < end
            await asyncio.sleep(0.02)
    (path,) = found
    session = SessionFile(path)
    assert len(session) >= 2
    assert len(session.snapshot(0).machine.gpus) == 8


def _recorded(folder: Path) -> list[SessionFile]:
    """The recordings that have a first reading."""
    whole = [path for path in folder.glob("gputop-*.gtrec") if path.stat().st_size > LEAST_BYTES]
    return [SessionFile(path) for path in whole]


def _running() -> bool:
    return any(thread.name == "record" for thread in threading.enumerate())


async def test_a_folder_that_cannot_be_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shut := tmp_path / "gone").mkdir()
    monkeypatch.chdir(shut)
    said: list[str] = []
    app = GpuTop(DemoFeed("dgx-1v"))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        while app.report is None:
            await asyncio.sleep(0.02)
        monkeypatch.setattr(app, "say", lambda text, **_: said.append(text))
        os.rmdir(shut)
        monkeypatch.setattr(Path, "cwd", lambda: shut)
        await pilot.press("ctrl+r")
        end = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while not said:
            assert asyncio.get_running_loop().time() < end
            await asyncio.sleep(0.02)
        assert "not recorded: No such file" in said[0]
        assert not app.sessions.line(120)
