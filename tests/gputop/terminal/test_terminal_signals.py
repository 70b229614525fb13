"""Signals at the app in a real terminal: it leaves in order, with its code, at every moment."""

from __future__ import annotations

import os
import re
import signal
import sys
import time

import psutil
import pytest

from gputop.terminal.hangup import RESET
from tests.grid import share
from tests.support.terminal import APP, Terminal

pytestmark = pytest.mark.terminal

ENDS = (
    signal.SIGQUIT, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGTERM, signal.SIGXCPU,
)  # fmt: skip
TAKEN = b"\x1b[?1049h"
GIVEN_BACK = b"\x1b[?1049l"
SHELL = ("bash", "--norc", "-i")
PROMPT = {"PS1": "READY> "}
FAILS = """
import sys
from gputop.app import GpuTop
from gputop.__main__ import main

def fail(self, message):
    raise ValueError("made by the test")

GpuTop.on_report_ready = fail
sys.argv[1:] = ["--demo", "hgx-h100-8"]
main()
"""


@pytest.mark.parametrize("number", share(ENDS, 2), ids=lambda number: number.name)
def test_a_signal_leaves_in_order_with_its_own_code(number: signal.Signals) -> None:
    with Terminal(["--demo", "hgx-h100-8"]) as terminal:
        terminal.wait_for(APP)
        os.kill(terminal.process.pid, number)
        terminal.wait_end()
        assert terminal.process.returncode == 128 + number
        assert terminal.sane()
        assert terminal.written.count(TAKEN) == terminal.written.count(GIVEN_BACK)
        assert "Traceback" not in terminal.text()


@pytest.mark.parametrize("number", ENDS)
def test_a_signal_while_the_screen_is_set_up_gives_it_back(number: signal.Signals) -> None:
    with Terminal(["--demo", "hgx-h100-8"]) as terminal:
        # The escape is written just before the modes change and long before the app listens.
        while TAKEN not in terminal.written:
            terminal.read(0.005)
            assert terminal.process.poll() is None
        _read(terminal, 0.02)
        os.kill(terminal.process.pid, number)
        terminal.wait_end()
        assert terminal.process.returncode == 128 + number
        assert terminal.sane()
        assert GIVEN_BACK in terminal.written
        assert "Traceback" not in terminal.text()


MADE_UP = (
    ("fleet", "--demo"), ("fleet", "--demo", "--text"), ("fleet", "--demo", "--json"),
    ("check", "--demo", "hgx-h100-8"),
)  # fmt: skip


@pytest.mark.parametrize("arguments", share([(one,) for one in MADE_UP], 3), ids=" ".join)
def test_a_signal_while_figures_are_made_up_is_no_answer(arguments: tuple[str, ...]) -> None:
    with Terminal(arguments) as terminal:
        terminal.wait_for(r"\[\d/\d")  # its demos are measured
        os.kill(terminal.process.pid, signal.SIGINT)
        terminal.wait_end(10)
        assert terminal.process.returncode == 128 + signal.SIGINT
        assert terminal.sane()
        assert TAKEN not in terminal.written


def test_what_is_undone_is_all_that_was_asked_of_the_terminal() -> None:
    with Terminal(["--demo", "hgx-h100-8"]) as terminal:
        terminal.wait_for(APP)
        asked = terminal.written
        terminal.send("q")
        terminal.wait_end()
    pairs_itself = {b"2026"}  # one picture at a time: on and off around each
    switched_on = set(re.findall(rb"\x1b\[\?(\d+)h", asked)) - pairs_itself
    switched_off = set(re.findall(rb"\x1b\[\?(\d+)l", asked)) - pairs_itself
    assert {b"1049", b"1000"} <= switched_on
    assert switched_on <= set(re.findall(rb"\x1b\[\?(\d+)l", RESET))
    assert switched_off <= set(re.findall(rb"\x1b\[\?(\d+)h", RESET))


def _app_in_shell(terminal: Terminal) -> psutil.Process:
    """The app, started by a shell with job control and drawn."""
    terminal.wait_for("READY> ")
    terminal.send(f"{sys.executable} -m gputop --demo hgx-h100-8\n")
    terminal.wait_for(APP)
    (app,) = psutil.Process(terminal.process.pid).children()
    _read(terminal, 0.5)
    return app


def test_ctrl_z_stops_and_the_shell_brings_the_picture_back() -> None:
    with Terminal([], command=SHELL, environment=PROMPT, controls=True) as terminal:
        app = _app_in_shell(terminal)
        terminal.forget()
        terminal.send("\x1a")
        terminal.wait_for("Stopped")
        assert GIVEN_BACK in terminal.written
        assert app.status() == psutil.STATUS_STOPPED
        terminal.forget()
        terminal.send("fg\n")
        terminal.wait_for("H100 80GB")
        terminal.send("q")
        terminal.forget()
        terminal.wait_for("READY> ")
        terminal.send("exit\n")
        terminal.wait_end()


def test_a_stop_that_nobody_hears_is_made_good_too() -> None:
    with Terminal([], command=SHELL, environment=PROMPT, controls=True) as terminal:
        app = _app_in_shell(terminal)
        app.suspend()
        terminal.wait_for("Stopped")
        terminal.forget()
        terminal.send("bg\n")
        _read(terminal, 0.5)
        assert TAKEN not in terminal.written, "the terminal is the shell's"
        terminal.send("fg\n")
        terminal.wait_for("H100 80GB")
        assert TAKEN in terminal.written
        terminal.forget()
        terminal.send("q")
        terminal.wait_for("READY> ")
        terminal.send("exit\n")
        terminal.wait_end()


def test_being_continued_without_a_stop_changes_nothing() -> None:
    with Terminal(["--demo", "hgx-h100-8"]) as terminal:
        terminal.wait_for(APP)
        _read(terminal, 0.5)
        process = psutil.Process(terminal.process.pid)
        threads = process.num_threads()
        often = 8  # more than the threads of a start that may still come
        for _ in range(often):
            terminal.forget()
            os.kill(terminal.process.pid, signal.SIGCONT)
            terminal.wait_for("H100 80GB")
        assert process.num_threads() < threads + often
        terminal.send("q")
        terminal.wait_end()
        assert terminal.process.returncode == 0
        assert terminal.sane()


def test_ctrl_z_without_a_shell_stops_nothing() -> None:
    with Terminal(["--demo", "hgx-h100-8"]) as terminal:
        terminal.wait_for("H100")
        terminal.send("\x1a")
        terminal.wait_for(r"Ctrl\+Z stops gputop only")  # the rest is wrapped
        assert psutil.Process(terminal.process.pid).status() != psutil.STATUS_STOPPED
        terminal.send("q")
        terminal.wait_end()


def test_a_fault_of_ours_is_one_line_and_70() -> None:
    with Terminal([], command=[sys.executable, "-c", FAILS]) as terminal:
        terminal.wait_end()
        assert terminal.process.returncode == 70
        said = terminal.text()[terminal.text().rindex("gputop: ") :].splitlines()
        assert said == [
            "gputop: ValueError: made by the test (our fault; GPUTOP_DEBUG=1 shows where)"
        ]
        assert "Traceback" not in terminal.text()
        assert terminal.sane()


def _read(terminal: Terminal, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        terminal.read(0.01)
