"""Where gputop.pex looks for what it unpacked earlier."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT

UNPACK = ROOT / "recipes" / "single-file" / "unpack.sh"


@pytest.mark.parametrize(
    ("machine", "python", "taken"),
    [
        (platform.machine(), "python3.99", True),
        ("another", "python3.99", False),
        (platform.machine(), "python3.98", False),
        (platform.machine(), None, False),
    ],
    ids=["fits", "of another machine", "Python replaced", "Python gone"],
)
def test_a_start_takes_what_was_unpacked_for_a_python_of_this_node(
    tmp_path: Path, machine: str, python: str | None, taken: bool
) -> None:
    unpacked = tmp_path / "all of this file" / "one"
    library = unpacked / f"lib/python3.99/site-packages/msgspec/_core.cp-{machine}-linux-gnu.so"
    library.parent.mkdir(parents=True)
    library.touch()
    (unpacked / "bin").mkdir()
    target = tmp_path / (python or "gone")
    if python:
        target.symlink_to(sys.executable)
    (unpacked / "bin" / "python3.99").symlink_to(target)
    script = '. "$1"; INSTALLED_PEX=none; gputop_unpacked "$2"; echo "$INSTALLED_PEX"'
    done = subprocess.run(
        ["sh", "-euc", script, "sh", UNPACK, unpacked.parent],
        env={**os.environ, "PEX_ROOT": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == (str(unpacked) if taken else "none")


@pytest.mark.parametrize(
    ("there", "chosen"),
    [
        (("python3.10", "python3.12"), "python3.12"),
        (("python3.10", "python3"), "python3"),
        (("python3.10",), None),
        ((), None),
    ],
    ids=["the next one", "the one without a number", "none that runs", "none"],
)
def test_a_python_that_is_only_a_name_does_not_unpack(
    tmp_path: Path, there: tuple[str, ...], chosen: str | None
) -> None:
    for name in there:
        works = name != "python3.10"
        body = f'exec {sys.executable} "$@"' if works else f"echo {name}: not found >&2; exit 127"
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "uname").symlink_to(str(shutil.which("uname")))
    script = '. "$1"; INSTALLED_PEX=none; gputop_unpacked "$1.none"; echo "$DEFAULT_PYTHON"'
    done = subprocess.run(
        [str(shutil.which("sh")), "-euc", script, "sh", UNPACK],
        env={"PATH": str(tmp_path), "PEX_ROOT": "/kept/here"},
        capture_output=True,
        text=True,
        check=False,
    )
    if chosen is None:
        assert (done.returncode, done.stdout) == (70, "")
        assert done.stderr == "gputop: no Python 3.10 to 3.15 on PATH\n"
    else:
        assert done.stdout.strip() == str(tmp_path / chosen)
        assert done.stderr == "gputop: unpacking to /kept/here, once\n"
