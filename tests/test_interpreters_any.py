"""Programs that are called Python and answer anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.probes.interpreters import inspect


@pytest.mark.parametrize("said", ["[" * 100_000, "[1, 2]", "{}", "\x1b[31m", "", "NaN"])
def test_what_answers_nothing_sensible_is_no_python(said: str, tmp_path: Path) -> None:
    (tmp_path / "said").write_text(said)
    program = tmp_path / "python3"
    program.write_text(f"#!/bin/sh\nexec cat '{tmp_path}/said'\n")
    program.chmod(0o755)
    assert inspect(str(program), "a test").why_not == "is no Python that answers"
