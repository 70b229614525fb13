"""The whole program in a real terminal: speed, leaving, hanging drivers, odd sizes."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.support.places import ROOT, TESTS
from tests.support.terminal import Terminal

pytestmark = pytest.mark.terminal

FAKES = str(TESTS / "fakes")


def faked(mode: str, **more: str) -> dict[str, str]:
    return {"PYTHONPATH": FAKES, "GPUTOP_FAKE_NVML": mode, **more}


@pytest.mark.timing
def test_first_gpu_row_comes_within_a_third_of_a_second() -> None:
    seen = []
    for _ in range(3):
        with Terminal(["--demo", "hgx-h100-8"]) as terminal:
            seen.append(terminal.wait_for("H100 80GB"))
            terminal.send("q")
            terminal.wait_end()
    assert min(seen) < 0.35


def test_q_gives_the_terminal_back() -> None:
    with Terminal(["--demo", "hgx-h100-8"], columns=80, lines=24) as terminal:
        terminal.wait_for("H100")
        terminal.send("q")
        terminal.wait_end()
        assert terminal.process.returncode == 0
        assert terminal.sane()
        assert b"\x1b[?1049l" in terminal.written
        assert "Traceback" not in terminal.text()


@pytest.mark.parametrize("mode", ["block-init", "block-later"])
def test_a_driver_that_blocks_freezes_nothing(mode: str, tmp_path: Path) -> None:
    later = tmp_path / "later"
    with Terminal([], environment=faked(mode, GPUTOP_FAKE_LATER=str(later))) as terminal:
        if mode == "block-later":
            terminal.wait_for("Fake GPU")
            later.touch()
        terminal.wait_for("not answer")
        terminal.forget()
        terminal.send("?")
        terminal.wait_for("[Kk]eys")
        terminal.send("\x1b")
        end = time.monotonic() + 60  # long before the driver answers, after 300 seconds
        while terminal.process.poll() is None and time.monotonic() < end:
            _watch(terminal, 0.4)  # a key right behind Esc counts as Alt and that key: once more
            terminal.send("q")
            with suppress(AssertionError):
                terminal.wait_end(10)
        terminal.wait_end()
        assert terminal.sane()
        assert "Traceback" not in terminal.text()


def test_a_gpu_that_vanishes_stays_on_screen_as_lost(tmp_path: Path) -> None:
    later = tmp_path / "later"
    with Terminal([], environment=faked("lost", GPUTOP_FAKE_LATER=str(later))) as terminal:
        terminal.wait_for("Fake GPU")
        later.touch()
        terminal.wait_for("(?i)lost")
        terminal.send("q")
        terminal.wait_end()
        assert "Traceback" not in terminal.text()


def test_hostile_names_are_plain_text() -> None:
    name = "[bold red]X[/] \x1b]0;owned\x07\x1b[2J\x9b31m end"
    with Terminal([], environment=faked("fine", GPUTOP_FAKE_NAME=name)) as terminal:
        terminal.wait_for(r"\[bold red\]X")
        terminal.send("q")
        terminal.wait_end()
        assert b"\x1b]0;owned" not in terminal.written
        assert b"\x9b31m" not in terminal.written


def test_a_tiny_terminal_and_back() -> None:
    with Terminal(["--demo", "sick-h100-8"], columns=80, lines=24) as terminal:
        terminal.wait_for("H100")
        for key in "123":
            terminal.resize(40, 10)
            terminal.send(key)
            _watch(terminal, 0.3)
            terminal.resize(80, 24)
            _watch(terminal, 0.3)
        terminal.send("1")
        terminal.forget()
        terminal.resize(100, 30)
        terminal.wait_for("H100")
        terminal.send("q")
        terminal.wait_end()
        assert "Traceback" not in terminal.text()
        assert terminal.process.returncode == 0


def test_a_terminal_that_goes_away_ends_the_program() -> None:
    with Terminal(["--demo", "hgx-h100-8"]) as terminal:
        terminal.wait_for("H100")
        process = psutil.Process(terminal.process.pid)
        terminal.hang_up()
        assert _gone(process, 60.0)


def test_sigterm_leaves_a_sane_terminal() -> None:
    with Terminal(["--demo", "hgx-h100-8"]) as terminal:
        terminal.wait_for("H100")
        os.kill(terminal.process.pid, signal.SIGTERM)
        terminal.wait_end()
        assert terminal.sane()
        assert "Traceback" not in terminal.text()


def test_a_pipe_instead_of_a_terminal_is_told_what_to_do() -> None:
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "gputop"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 64
    assert "needs a terminal" in done.stderr
    assert done.stdout == ""


@pytest.mark.timing
def test_idle_costs_little_and_memory_does_not_grow() -> None:
    with Terminal(["--demo", "hgx-h100-8"]) as terminal:
        terminal.wait_for("H100")
        _watch(terminal, 3)
        process = psutil.Process(terminal.process.pid)
        before, memory = process.cpu_times(), process.memory_info().rss
        _watch(terminal, 15)
        after = process.cpu_times()
        used = after.user + after.system - before.user - before.system
        assert used / 15 < 0.02
        assert process.memory_info().rss - memory < 4_000_000
        terminal.send("q")
        terminal.wait_end()


def _watch(terminal: Terminal, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        terminal.read()


def _gone(process: psutil.Process, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.02)
    return False
