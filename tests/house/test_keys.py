"""A key has one meaning: docs/screens.md says which, and on which screens it works."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from gputop.screens import NAMES
from gputop.widgets.key import Key
from tests.support.places import ROOT

WRITTEN = {
    "delete": "Del", "backspace": "Backspace", "left_square_bracket": "[",
    "right_square_bracket": "]", "space": "Space", "tab": "Tab", "shift+tab": "Shift+Tab",
    "ampersand": "&",
}  # fmt: skip
MOVES = frozenset(
    {
        "up", "down", "left", "right", "h", "j", "k", "l", "J", "K", "home", "end", "pageup",
        "pagedown", "escape",
    }
)  # fmt: skip
"""Keys that move or scroll on every screen, and go back."""


def told() -> dict[str, set[str]]:
    """Key -> the screens of its row."""
    text = (ROOT / "docs" / "screens.md").read_text(encoding="utf-8")
    chapter = text.partition("## Keys of single screens")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \| (.*?) \| .* \|$", chapter, re.MULTILINE)
    keys = [key for cell, _ in rows for key in re.findall("`(.+?)`", cell)]
    assert len(keys) == len(set(keys)), keys
    found: dict[str, set[str]] = {}
    for cell, screens in rows:
        for key in re.findall("`(.+?)`", cell):
            found.setdefault(key, set()).update(name.lower() for name in screens.split(", "))
    return found


def bound() -> dict[str, set[str]]:
    """Key -> the screens that bind it for themselves."""
    found: dict[str, set[str]] = {}
    for name in NAMES:
        keys: tuple[Key, ...] = import_module(f"gputop.screens.{name}.screen").SCREEN.KEYS
        for key in (part for one in keys for part in one.key.split(",") if part):
            if key not in MOVES:
                found.setdefault(WRITTEN.get(key, key), set()).add(name)
    return found


@pytest.mark.parametrize("key", sorted(bound()))
def test_the_table_has_each_key_with_its_screens(key: str) -> None:
    assert told().get(key) == bound()[key]


def test_the_table_has_no_key_that_nothing_binds() -> None:
    assert not told().keys() - bound().keys()
