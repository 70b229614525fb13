"""Versions, found without importing or loading what they belong to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gputop.topology.model.surroundings import Software
from gputop.topology.nccl.followed import followed
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.sources.files.tree import FolderTree, live_tree
from gputop.topology.sources.linux import software
from tests.support.nccl.shared_object import library
from tests.support.places import ROOT

parse = software.SOURCE.parse


def parsed(**raw: Any) -> Software:
    found = parse({"absent": "not there", "packages": [], **raw}).software
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build", "580.159.04"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12", "535.183.01"),
        ("NVRM version: NVIDIA UNIX aarch64 Kernel Module  570.86", "570.86"),
        ("rubbish", None),
    ],
)
def test_the_driver(text: str, version: str | None) -> None:
    found = parsed(files={"proc/driver/nvidia/version": text})
    assert found.nvidia_driver == version
    assert (found.why("nvidia_driver") is None) == (version is not None)


def test_toolkits() -> None:
    found = parsed(
        files={
            "usr/local/cuda/version.json": '{"cuda": {"name": "CUDA SDK", "version": "12.8.1"}}',
            "opt/rocm/.info/version": "6.4.1-83\n",
            "sys/module/amdgpu/version": "6.12.12",
            "opt/rocm/include/rccl/rccl.h": "/* */\n#define NCCL_MAJOR 2\n#define NCCL_MINOR 21\n"
            '#define NCCL_PATCH 5\n#define NCCL_SUFFIX ""\n',
        }
    )
    assert (found.cuda_toolkit, found.rocm, found.amd_driver) == ("12.8.1", "6.4.1", "6.12.12")
    assert found.rccl == "2.21.5"
    assert parsed(files={"usr/local/cuda/version.txt": "CUDA Version 10.2.89"}).cuda_toolkit == (
        "10.2.89"
    )


def test_the_nccl_beside_torch_counts() -> None:
    found = parsed(
        packages=[
            {"folder": "/a", "nccl": "2.19.3"},
            {"folder": "/b", "torch": "2.11.0+cu130", "nccl": "2.28.9"},
        ],
        libraries=[["/usr/lib64/libnccl.so.2", "libnccl.so.2.18.5"]],
    )
    assert (found.torch, found.torch_path) == ("2.11.0+cu130", "/b/torch")
    assert (found.nccl, found.nccl_path) == ("2.28.9", "/b/nvidia/nccl/lib/libnccl.so.2")


def test_what_the_library_says_of_itself_counts_before_its_packages() -> None:
    packages = {"cu12": "2.28.9", "cu13": "2.30.7"}
    entry = {"folder": "/b", "torch": "2.11.0", "nccl": "2.30.7", "nccl_packages": packages}
    found = parsed(packages=[{**entry, "nccl_inside": "2.28.9"}])
    assert (found.nccl, found.nccl_packages) == ("2.28.9", ("cu12 2.28.9", "cu13 2.30.7"))
    assert parsed(packages=[entry]).nccl == "2.30.7"


def test_the_systems_nccl_by_the_name_of_its_file() -> None:
    found = parsed(
        packages=[{"folder": "/a", "torch": "2.11.0"}],
        libraries=[
            ["/x/libnccl.so.2", "libnccl.so.2"],
            ["/usr/lib64/libnccl.so.2", "libnccl.so.2.28.9"],
        ],
    )
    assert (found.nccl, found.nccl_path) == ("2.28.9", "/usr/lib64/libnccl.so.2")


def test_nothing_found_is_reported() -> None:
    found = parsed()
    assert (found.torch, found.nccl) == (None, None)
    assert found.why("torch") == "not in the active environment, of PATH's Python nor beside gputop"
    assert parse({"absent": "not in this recording", "files": {}}).software is None


def test_environments_and_library_paths_are_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "venv/lib/python3.12/site-packages"
    for name in ("torch-2.9.1+cu130", "nvidia_nccl_cu13-2.27.7", "torchvision-1.0"):
        (site / f"{name}.dist-info").mkdir(parents=True)
    libraries = tmp_path / "lib"
    libraries.mkdir()
    (libraries / "libnccl.so.2.28.9").write_text("")
    (libraries / "libnccl.so.2").symlink_to("libnccl.so.2.28.9")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))
    monkeypatch.setenv("LD_LIBRARY_PATH", f"relative:{libraries}:")
    raw = software.read(live_tree())
    assert raw["packages"][0] == {
        "folder": str(site), "torch": "2.9.1+cu130", "nccl": "2.27.7",
        "nccl_packages": {"cu13": "2.27.7"}, "nccl_inside": None,
    }  # fmt: skip
    assert raw["libraries"][0] == [f"{libraries}/libnccl.so.2", "libnccl.so.2.28.9"]
    found = parse(raw).software
    assert found is not None
    assert (found.torch, found.nccl) == ("2.9.1+cu130", "2.27.7")


def installed(site: Path, torch: str, nccl: bytes) -> str:
    """Torch and the NCCL beside it, as wheels put them there; the path of the library."""
    for name in (f"torch-{torch}", "nvidia_nccl_cu13-2.1"):
        (site / f"{name}.dist-info").mkdir(parents=True)
    path = site / software.WHEEL
    path.parent.mkdir(parents=True)
    path.write_bytes(library(b"NCCL version " + nccl))
    return str(path)


@pytest.mark.parametrize(
    ("case", "torch", "nccl"),
    [
        ("active", "2.9.1", "2.27.7"),  # an environment that somebody activated comes first
        ("path", "2.10.0", "2.28.9"),  # then what a job gets from PATH, newest Python first
        ("link", "2.10.0", "2.28.9"),  # and through a link to it
        ("system", None, "2.26.2"),
    ],
)
def test_a_job_here_gets_the_library_of_the_python_that_starts_it(
    case: str, torch: str | None, nccl: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gputop has an environment of its own, as pipx gives it one."""
    base, system = tmp_path / "base", tmp_path / "system"
    (system / "libnccl.so.2.26.2").parent.mkdir()
    (system / "libnccl.so.2.26.2").write_bytes(library(b"NCCL version 2.26.2"))
    (system / "libnccl.so.2").symlink_to("libnccl.so.2.26.2")
    wheel = ""
    if case != "system":
        installed(base / "lib/python3.9/site-packages", "2.4.0", b"2.20.5+cuda12.4")
        wheel = installed(base / "lib/python3.12/site-packages", "2.10.0", b"2.28.9+cuda13.0")
    (base / "bin").mkdir(parents=True)
    (base / "bin/python3").write_text("")
    (base / "bin/python3").chmod(0o755)
    if case == "active":
        venv = tmp_path / "venv"
        wheel = installed(venv / "lib/python3.12/site-packages", "2.9.1", b"2.27.7+cuda13.0")
        monkeypatch.setenv("VIRTUAL_ENV", str(venv))
    first = base / "bin"
    if case == "link":
        (tmp_path / "made/bin").mkdir(parents=True)
        (tmp_path / "made/bin/python3").symlink_to(base / "bin/python3")
        first = tmp_path / "made/bin"
    if case != "active":
        monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    monkeypatch.setenv("PATH", str(first))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(system))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "own/lib/python3.12/site-packages")])
    found = parse(software.read(live_tree())).software
    assert found is not None
    assert (found.torch, found.nccl) == (torch, nccl)
    machine = replace(DemoFeed("hgx-h100-8").at(0).machine, software=found)
    if case == "system":
        assert followed(machine).endswith(f", the one of this system ({system}/libnccl.so.2)")
    else:
        why = f"a job here would load beside torch {torch} ({wheel})"
        assert followed(machine) == f"predictions follow NCCL {nccl}, which {why}"


def test_a_recording_has_no_python(tmp_path: Path) -> None:
    version = tmp_path / "opt/rocm/.info/version"
    version.parent.mkdir(parents=True)
    version.write_text("6.3.0")
    raw = software.read(FolderTree(tmp_path))
    assert "packages" not in raw
    found = parse(raw).software
    assert found is not None
    assert found.rocm == "6.3.0"
    assert found.why("torch") == "not in this recording"


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from gputop.topology.sources.linux import host, processes, software;"
        "from gputop.topology.sources.pci import network, pci;"
        "from gputop.topology.sources.files.tree import live_tree;"
        "software.SOURCE.parse(software.read(live_tree()));"
        "print(sorted({'torch', 'psutil', 'pynvml', 'textual'} & set(sys.modules)))"
    )
    root = ROOT
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
