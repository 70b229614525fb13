"""Where gputop.pex looks for what it unpacked earlier."""

from __future__ import annotations

import os
import platform
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
