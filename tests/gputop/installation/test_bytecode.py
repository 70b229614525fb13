"""Byte code that Python can keep nowhere beside the code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gputop.installation import bytecode
from tests.support.places import ROOT

START = """
import sys
from gputop.installation import bytecode
bytecode.keep()
compiled = []
sys.addaudithook(lambda event, given: event == "compile" and compiled.append(str(given[1])))
sys.path.insert(0, sys.argv[1])
import a_module_of_this_test
print(*(name for name in compiled if "a_module" in name))
"""


def start(place: Path, *options: str, **variables: str) -> str:
    """The name of a module, if Python had to compile it."""
    done = subprocess.run(
        [sys.executable, *options, "-c", START, str(place / "code")],
        cwd=ROOT,
        env={**os.environ, "HOME": str(place), "XDG_CACHE_HOME": "", **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a_module_of_this_test.py").touch()
    return tmp_path


def test_a_module_is_compiled_once(place: Path) -> None:
    assert start(place, PYTHONDONTWRITEBYTECODE="1").endswith("a_module_of_this_test.py")
    assert start(place, PYTHONDONTWRITEBYTECODE="1") == ""
    assert [path.name for path in (place / "code").iterdir()] == ["a_module_of_this_test.py"]


def test_an_option_of_python_is_obeyed(place: Path) -> None:
    assert start(place, "-B", PYTHONDONTWRITEBYTECODE="")
    assert not (place / ".cache").exists()


def test_no_folder_that_others_may_have_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    folder = tmp_path / ".cache" / "gputop" / "bytecode"
    assert bytecode.own_folder() == str(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.parent.chmod(0o775)
    assert bytecode.own_folder() == str(folder), "the group is trusted"
    folder.parent.chmod(0o777)
    assert bytecode.own_folder() is None
    folder.parent.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert bytecode.own_folder() is None
    monkeypatch.setenv("HOME", "relative")
    assert bytecode.own_folder() is None
