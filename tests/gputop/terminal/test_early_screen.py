"""The terminal before Textual has it: it is taken once, and given back whatever comes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from rich.console import Console

from gputop.terminal.early_screen import ENTER, HIDE_CURSOR, LEAVE, SHOW_CURSOR
from gputop.terminal.inks import EarlyInks, colour_system
from tests.support.terminal import APP, Terminal

DRAWS = """
import os, signal, sys
from gputop.terminal import hangup
from gputop.terminal.early_screen import EarlyScreen
if sys.argv[1] == "only reads keys":
    os.dup2(os.open(os.ttyname(0), os.O_RDONLY | os.O_NOCTTY), 0)
hangup.guard()
screen = EarlyScreen()
screen.draw("a picture")
if sys.argv[1] == "ends":
    screen.give_back()
else:
    os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.terminal
@pytest.mark.parametrize("how", ["ends", "is killed", "only reads keys"])
def test_it_is_given_back_without_an_app(how: str) -> None:
    with Terminal([how], command=[sys.executable, "-c", DRAWS]) as terminal:
        terminal.wait_end()
        assert terminal.sane()
        taken, drawn, given_back = terminal.written.decode().partition("a picture")
        assert taken == ENTER + HIDE_CURSOR
        assert drawn
        assert {LEAVE, SHOW_CURSOR} <= set(re.findall(r"\x1b\[\?\d+[hl]", given_back))


@pytest.mark.terminal
def test_the_app_takes_it_over_with_the_picture_on_it() -> None:
    with Terminal(["--demo", "hgx-h100-8"]) as terminal:
        terminal.wait_for(APP)
        # Whether both came in one reading is up to the machine; the order is not.
        assert re.search(f"H100.*{APP}", terminal.text(), re.DOTALL)
        libraries = Path(f"/proc/{terminal.process.pid}/maps").read_text()
        assert "libc" in libraries
        assert "libssl" not in libraries
        assert "libcrypto" not in libraries  # OpenSSL takes 5 MiB
        assert terminal.sane() is False
        terminal.send("q")
        terminal.wait_end()
        assert terminal.process.returncode == 0
        assert terminal.written.count(ENTER.encode()) == terminal.written.count(LEAVE.encode()) == 1
        assert terminal.sane()


@pytest.mark.parametrize("colours", ["truecolor", "24bit", "no", ""])
@pytest.mark.parametrize("term", ["xterm", "xterm-256color", "xterm-kitty", "linux-16color", ""])
def test_colours_are_counted_as_textual_does(
    term: str, colours: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("COLORTERM", colours)
    console = Console(force_terminal=True, _environ={"TERM": term, "COLORTERM": colours})
    assert console._color_system == colour_system()


def test_who_wants_no_colour_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    inks = EarlyInks.of_terminal()
    assert inks is not None
    assert inks.text("slow", "bad", "background") == "\x1b[0;1mslow"
    assert inks.text("quiet", "muted", "surface") == "\x1b[mquiet"
