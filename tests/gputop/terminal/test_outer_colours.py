"""COLORTERM counts where it tells of the terminal that draws."""

from __future__ import annotations

import os

import pytest

from gputop.terminal.outer_colours import forget_outer_colours


@pytest.mark.parametrize(
    ("around", "left"), [({}, True), ({"STY": "1.x"}, False), ({"STY": "1.x", "TMUX": "/y"}, True)]
)
def test_only_screen_hides_the_terminal(
    around: dict[str, str], left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("STY", "TMUX"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**around, "COLORTERM": "truecolor"}.items():
        monkeypatch.setenv(name, value)
    forget_outer_colours()
    assert ("COLORTERM" in os.environ) == left
