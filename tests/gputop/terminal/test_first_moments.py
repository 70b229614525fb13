"""Ctrl+C at every moment of the start: what was asked of the terminal is undone, and comes last."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.first_moments import WAYS
from tests.support.places import ROOT

pytestmark = pytest.mark.terminal
STEP = 24


def walked(*arguments: str) -> list[str]:
    command = [sys.executable, "-m", "tests.support.first_moments", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()


@pytest.mark.parametrize(
    ("way", "function"),
    [("late, threads first", "write"), ("early", "_heed_windows")],
    ids=["the screen was asked for", "pictures are under way"],
)
def test_a_terminal_that_was_just_taken_is_given_back(way: str, function: str) -> None:
    assert walked(way, function) == ["1 tried"]


@pytest.mark.grid
@pytest.mark.parametrize("first", range(1, STEP, 12))
@pytest.mark.parametrize("way", WAYS)
def test_every_moment_gives_the_terminal_back(way: str, first: int) -> None:
    *wrong, tried = walked(way, str(first), str(STEP))
    assert not wrong
    assert int(tried.split()[0]) > 10
