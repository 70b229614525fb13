"""COLUMNS and LINES that hold no size of a terminal: the terminal itself is asked instead."""

from __future__ import annotations

import os
from itertools import product

import pytest

from gputop.terminal import size
from tests.grid import share
from tests.support.command import gputop
from tests.support.terminal import Terminal

ODD = ("0", "-5", "99999", "999999999999", "many", "", "\u00b2", " 80 ", "8e1", "80.0")


@pytest.mark.parametrize("name", ["COLUMNS", "LINES"])
def test_odd_sizes_are_forgotten(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for odd in ODD:
        monkeypatch.setenv(name, odd)
        size.forget_odd_sizes()
        assert name not in os.environ, odd
    for usual in ("1", "80", "1000"):
        monkeypatch.setenv(name, usual)
        size.forget_odd_sizes()
        assert os.environ[name] == usual


def test_text_is_never_wider_than_any_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("shutil.get_terminal_size", lambda _: os.terminal_size((65535, 24)))
    assert size.text_width() == size.terminal_width() == size.WIDEST
    assert size.text_width(120) == 120


WRAPPED = [
    ["explain", "--demo", "hgx-h100-8"],
    ["flags", "NCCL_IB_HCA", "--demo", "hgx-h100-8"],
    ["log", "tests/recordings/real-faults/memory.txt"],
    ["rules"],
    ["rule", "pcie-width"],
    ["about", "H100"],
]
"""Commands whose answers are paragraphs."""


@pytest.mark.parametrize("command", WRAPPED, ids=lambda command: str(command[0]))
def test_paragraphs_in_a_pipe_take_the_columns_that_are_asked_for(command: list[str]) -> None:
    longest = {
        columns: max(map(len, gputop(*command, COLUMNS=columns).stdout.splitlines()))
        for columns in ("60", "100", "odd")
    }
    assert longest["60"] <= 60 < longest["odd"] <= 80 < longest["100"] <= 100


@pytest.mark.terminal
@pytest.mark.parametrize("odd", share(["0", "-1", "99999", "many"], 2))
def test_the_app_takes_the_size_of_the_terminal(odd: str) -> None:
    sizes = {"COLUMNS": odd, "LINES": odd}
    with Terminal(["--demo", "hgx-h100-8"], columns=80, lines=24, environment=sizes) as terminal:
        terminal.wait_for("H100")
        terminal.send("q")
        terminal.wait_end()
        assert terminal.process.returncode == 0
        assert "Traceback" not in terminal.text()


@pytest.mark.terminal
@pytest.mark.parametrize(
    ("command", "odd"),
    share(product(["explain", "--help", "check"], ["0", "99999", "-1", "many"]), 3),
)
def test_a_plain_command_takes_the_size_of_the_terminal(command: str, odd: str) -> None:
    node = [] if command == "--help" else ["--demo", "hgx-h100-8"]
    quick = ["--quick"] * (command == "check")  # the line of progress is drawn over itself
    with Terminal([command, *node, *quick], columns=80, environment={"COLUMNS": odd}) as terminal:
        terminal.wait_end()
        assert terminal.process.returncode == 0, terminal.text()
        assert max(map(len, terminal.text().splitlines())) <= 80
