"""What an installed gputop holds."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

from gputop import __version__
from gputop.topology.toml import tomllib
from tests.support.layers import python_files
from tests.support.packages import PROJECT, listed
from tests.support.places import ROOT

CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())


BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
"""What pip asks of the backend that pyproject.toml names; pip would first install that again."""


def test_version_imports_nothing_of_gputop() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "gputop", "--version"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"gputop {__version__}\n"
    names = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert {name for name in names if name.startswith("gputop")} == {"gputop"}
    ours = {re.split(r"[<=>]", each)[0] for each in CONFIG["project"]["dependencies"]}
    assert ours.isdisjoint(names)


def test_every_folder_with_code_is_a_package() -> None:
    text = PROJECT.read_text("utf-8")
    assert text == listed(text), "python -m tests.support.packages writes the list"
    assert text != listed(text).replace('    "gputop.answers",\n', "")


def test_wheel_holds_one_top_level_name(tmp_path: Path) -> None:
    assert CONFIG["build-system"]["build-backend"] == "setuptools.build_meta"
    # Through a copy: a wheel made in the checkout would pick up an old build folder.
    source = tmp_path / "source"
    files = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for name in files:
        origin = ROOT / name
        if origin.is_file() and not name.startswith("tests/"):
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(origin.read_bytes())
    subprocess.run(
        [sys.executable, "-c", BUILD, str(tmp_path)], cwd=source, check=True, capture_output=True
    )
    (wheel,) = tmp_path.glob("gputopo-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith((".dist-info", ".data"))} == {"gputop"}
    code = {f"gputop/{path}".replace("gputop/gputop/", "gputop/") for path in python_files(ROOT)}
    assert code - set(names) == set()
    assert any(name.endswith(".data/data/share/man/man1/gputop.1") for name in names)
    for needed in (
        "topology/recorded/shapes/hgx-h100-8.toml",
        "themes/gputop.tcss",
        "probes/worker.py",
        "probes/engine/kernels.cu",
        "probes/engine/kernels.ptx",
    ):
        assert f"gputop/{needed}" in names


def test_nothing_is_tracked_that_a_build_makes() -> None:
    command = ["git", "ls-files", "-ci", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
