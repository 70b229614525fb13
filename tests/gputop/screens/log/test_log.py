"""The Log screen: a path is typed, a thread reads, the comparison and the findings are shown."""

from __future__ import annotations

import gzip
import threading
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from gputop.answers import log as log_reading
from gputop.app import GpuTop
from gputop.screens.log.examples import EXAMPLES
from gputop.screens.log.screen import LogScreen
from gputop.topology.logs.report.report import LogReport
from tests.grid import shown_size, turns
from tests.support.app import SIZES, app_of, demo_report, give, picture, press, rounds, settle, text
from tests.support.nccl.logs import RECORDED, lines_of

LOG = RECORDED / "h200-p2pdis.log.gz"


def differing(folder: Path) -> Path:
    """A log of a job that does not show why it avoids P2P."""
    lines = [line for line in lines_of("h200-p2pdis") if b"NCCL_P2P_DISABLE" not in line]
    warning = b"vm:1884:1884 [0] misc/x.cc:7 NCCL WARN Something that nobody knows"
    path = folder / "job.log"
    path.write_bytes(b"\n".join([*lines, warning]) + b"\n")
    return path


async def show(pilot: Pilot[Any], path: Path | str | None) -> LogScreen:
    await give(pilot, demo_report("hgx-h100-8"))
    app_of(pilot).action_screen("log")
    await settle(pilot)
    screen = pilot.app.screen
    assert isinstance(screen, LogScreen)
    if path is not None:
        screen.open_path(str(path))
        await finished(pilot, screen)
    return screen


async def finished(pilot: Pilot[Any], screen: LogScreen) -> None:
    async for _ in rounds(pilot):
        if screen._reading is None:
            return
    raise AssertionError("the log was not read")


async def test_it_says_how_to_begin() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await show(pilot, None)
        assert "No log is open" in text(pilot, "#log-head")
        said = text(pilot, "#log-text")
        for way in ("Paste a log anywhere", "o opens a file", "n runs NCCL", "E opens an example"):
            assert way in said
        assert "PgDn" not in picture(pilot)
        await press(pilot, "w")
        assert "nothing to explain" in str(pilot.app._notifications.__iter__().__next__().message)


async def test_examples_open_one_after_the_other_and_each_has_its_cause() -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        screen = await show(pilot, None)
        assert "NCCL_DEBUG_SUBSYS=INIT" in screen.selected_text()
        said = []
        for _ in range(len(EXAMPLES) + 1):
            await press(pilot, "E")
            await finished(pilot, screen)
            said.append(text(pilot, "#log-head"))
        assert "A variable switches P2P off" in said[0]
        assert "/dev/shm is full" in said[1]
        assert "Some ranks never finished initialisation" in said[2]
        assert said[3] == said[0]
        assert all("example: " in one for one in said)


async def test_a_path_is_typed_and_the_log_shown() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        screen = await show(pilot, None)
        await press(pilot, "o")
        line = screen.query_one(Input)
        line.value = str(LOG)
        await press(pilot, "enter")
        await finished(pilot, screen)
        assert not screen.query(Input)
        assert "h200-p2pdis.log.gz  NCCL 2.28.9" in text(pilot, "#log-head")
        assert "✓  the prediction agrees with the log in all" in text(pilot, "#log-entries")
        shown = text(pilot, "#log-text")
        assert "SHM✓" in shown
        assert "NCCL_P2P_DISABLE=1" in shown
        assert "✓ Ring: 2 channels × 20.0 GB/s" in shown
        assert "paths between GPUs: 12 of 12" in shown


async def test_entries_are_selected_and_explained() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        screen = await show(pilot, LOG)
        head = text(pilot, "#log-head").splitlines()
        assert head[1].startswith(" ▼ NVLink is there and a flag keeps NCCL from using it")
        assert head[2].startswith("   Do  unset NCCL_P2P_DISABLE")
        assert "line 77: NCCL_P2P_DISABLE set by environment to 1" in text(pilot, "#log-why")
        assert "NVLink is there" in screen.selected_text()
        assert "PgDn" in picture(pilot)
        await press(pilot, "w")
        assert "unset NCCL_P2P_DISABLE" in picture(pilot)
        await press(pilot, "escape", "home", "end")
        assert "taken for granted" in text(pilot, "#log-why")
        await press(pilot, "y")


async def test_differences_are_marked_and_reasoned(tmp_path: Path) -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        screen = await show(pilot, differing(tmp_path))
        found = text(pilot, "#log-entries")
        assert "things differ from the prediction" in found
        assert "✗" in found
        assert "Something that nobody knows" in found
        assert "SHM✗" in text(pilot, "#log-text")
        await press(pilot, "end", "up")
        assert "predicted was" in text(pilot, "#log-why")
        pair = next(i for i, one in enumerate(screen._entries) if " to " in one.title[:7])
        screen.action_move(pair - screen._selected)
        await settle(pilot)
        shown = text(pilot, "#log-why")
        assert "near enough for P2P?" in shown
        assert "why that can be" in shown


async def test_a_file_that_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    bare = tmp_path / "bare[red].txt"
    bare.write_bytes(b"nothing\n")
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        screen = await show(pilot, LOG)
        for path, said in ((bare, "NCCL_DEBUG=INFO"), (tmp_path / "no", "no such file")):
            screen.open_path(str(path))
            await finished(pilot, screen)
            assert said in " ".join(text(pilot, "#log-head").split())
            assert "SHM✓" in text(pilot, "#log-text")
        screen.open_path("~nobody-of-that-name/x")
        await settle(pilot)
        assert "!" in text(pilot, "#log-head")


async def test_reading_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    go, at = threading.Event(), threading.Event()
    real = log_reading.read_path

    def slow(path: Path, heard: Any = None) -> LogReport:
        heard(1 << 20)
        at.set()
        go.wait(60)
        return real(path, heard)

    monkeypatch.setattr("gputop.live.log_thread.read_path", slow)
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        screen = await show(pilot, None)
        screen.open_path(str(LOG))
        assert at.wait(60)
        await settle(pilot)
        assert "1.0 MiB" in text(pilot, "#log-head")
        assert "Esc stops" in text(pilot, "#log-head")
        await press(pilot, "escape")
        assert screen._reading is None
        assert "reading" not in text(pilot, "#log-head")
        go.set()
        await settle(pilot)
        assert screen._read is None


async def test_the_line_for_the_path_closes_and_remembers() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        screen = await show(pilot, LOG)
        await press(pilot, "o")
        assert screen.query_one(Input).value.startswith(str(LOG)[:20])
        await press(pilot, "escape")
        assert not screen.query(Input)


async def test_hostile_text_stays_text(tmp_path: Path) -> None:
    path = tmp_path / "evil.gz"
    evil = b"v:1:1 [0] NCCL WARN [bold red]\x1b]0;x\x07 [/] \xe2\x80\xae" + b"W" * 3000
    path.write_bytes(gzip.compress(evil + b"\n" + evil.replace(b"WARN", b"INFO NCCL_ALGO set to")))
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await show(pilot, path)
        assert "[bold red]" in text(pilot, "#log-entries")
        assert "\x1b" not in picture(pilot)


@pytest.mark.parametrize(("what", "size"), turns(["agrees", "differs"], SIZES), ids=shown_size)
def test_picture(snap_compare: Any, tmp_path: Path, what: str, size: tuple[int, int]) -> None:
    async def draw(pilot: Pilot[Any]) -> None:
        await show(pilot, LOG if what == "agrees" else differing(tmp_path))

    assert snap_compare(GpuTop(), terminal_size=size, run_before=draw)
