"""The other distribution called gputop: what is said where it was installed too."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from gputop.installation import namesake
from tests.support.places import ROOT


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("gputop-0.3.0.dist-info", "0.3.0"),
        ("gputop-0.3.0-py3.10.egg-info", "0.3.0"),
        ("gputopo-0.1.0.dist-info", None),
        ("gputop", None),
    ],
)
def test_the_other_one_beside_is_named(tmp_path: Path, name: str, version: str | None) -> None:
    (tmp_path / name).mkdir()
    folder = str(tmp_path / "gputop" / "installation")
    assert namesake.other_version(folder) == version
    assert (version or "no version") in (namesake.other_gputop(folder) or "no version")


def test_a_start_says_so_and_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from gputop.__main__ import run

    (tmp_path / "gputop-0.3.0.dist-info").mkdir()
    folder = str(tmp_path / "gputop" / "installation")
    monkeypatch.setattr(namesake.other_gputop, "__defaults__", (folder,))
    monkeypatch.setattr(namesake.other_version, "__defaults__", (folder,))
    assert run(["completion", "bash"]) == 0
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "gputop 0.3.0" in said


@pytest.mark.parametrize("theirs", ['__version__ = "0.3.0"\n', None])
def test_files_that_the_other_one_overwrote_or_removed_end_the_start_in_one_line(
    tmp_path: Path, theirs: str | None
) -> None:
    package = tmp_path / "gputop"
    package.mkdir()
    for name in ("__main__.py", "installation", "exits.py", "terminal"):
        (package / name).symlink_to(ROOT / "gputop" / name)
    (package / "topology").symlink_to(ROOT / "topology")
    if theirs is not None:
        (package / "__init__.py").write_text(theirs)
    ended = subprocess.run(
        # -S: an editable gputop of this environment stays out, and its libraries come by name.
        [sys.executable, "-S", "-m", "gputop", "--version"],
        env={**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout) == (70, "")
    assert ended.stderr.count("\n") == 1
    assert "pip install --force-reinstall --no-deps gputopo" in ended.stderr
