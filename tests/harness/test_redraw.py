"""A share of what `python -m tests.harness.redraw` presses: a cursor that moves on each list."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.redraw import Trial, sources

QUIET_SECONDS = 0.1
LISTS = "1356"
"""Keys of screens whose cursor is drawn by different widgets."""


@pytest.mark.terminal
def test_what_a_key_changed_is_drawn(tmp_path: Path) -> None:
    sick = next(one for one in sources(tmp_path / "checks") if one.name == "sick-h100-8")
    trial = Trial(sick, (80, 24), str(tmp_path))
    assert trial.pressed({screen: {"down": ""} for screen in LISTS}, QUIET_SECONDS) == []
