"""A share of the tests under Python 3.10, 3.12 and the newest one that this machine has."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import pytest

from tests.grid import share
from tests.harness.versions import pythons

SHARE = ("tests/versions/smoke.py",)
"""Every module, command and screen."""


@cache
def _found() -> dict[tuple[int, int], Path]:
    return pythons.found()


@pytest.mark.parametrize("which", share(["3.10", "3.12", "newest"], 3))
def test_another_python_runs_a_share_of_the_tests(which: str) -> None:
    newest = ".".join(map(str, pythons.newest(_found())))
    name = newest if which == "newest" else which
    version = tuple(map(int, name.split(".")))
    if version == sys.version_info[:2]:
        pytest.skip(f"this is Python {name}: all tests run on it")
    if version not in _found():
        pytest.skip(f"no Python {name} on PATH, of pyenv or of uv")
    try:
        python = pythons.environment(_found()[version])
    except pythons.NoEnvironment as error:
        pytest.skip(f"no libraries for Python {name}: {error}")
    assert pythons.run_tests(python, "-p", "no:xdist", *SHARE).returncode == 0


def test_versions_are_those_that_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "python3.99").write_text("#!/bin/sh\necho 3 99 final\n")
    (tmp_path / "python3.98").write_text("#!/bin/sh\necho 3 98 alpha\n")
    (tmp_path / "python3.97").write_text("#!/bin/sh\nexit 127\n")
    for path in tmp_path.iterdir():
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    found = pythons.found()
    assert set(found) == {(3, 99)}
    assert pythons.newest(found) == (3, 99)
    assert pythons.newest({}) == (3, 13)
