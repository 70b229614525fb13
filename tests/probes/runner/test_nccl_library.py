"""Which libnccl a job would load: that of its torch by the loader's rules, else what lies here."""

from __future__ import annotations

import importlib.util
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from gputop.probes.runner.interpreters import Interpreter, InterpreterChoice, inspect
from gputop.probes.runner.nccl_library import (
    NCCL,
    NcclLibrary,
    library_for,
    library_of_torch,
    linked,
)

GCC = shutil.which("gcc")


class Place:
    """A machine in a folder: a Python with a torch, and libraries."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.loader = folder / "etc" / "ld.so.conf"
        self.site = folder / "site-packages"
        (folder / "etc").mkdir()
        self.loader.write_text("include /nowhere/*.conf\ninclude conf.d/*.conf  # more\n")

    def library(self, folder: str) -> str:
        path = self.folder / folder / NCCL
        path.parent.mkdir(parents=True)
        path.touch()
        return str(path)

    def torch(self, *options: str, alone: bool = False) -> None:
        """A libtorch_cuda.so that the linker made with these options; `alone`: without NCCL."""
        folder = self.site / "torch" / "lib"
        folder.mkdir(parents=True)
        stub = self.folder / "stub"
        stub.mkdir()
        assert GCC is not None
        link = [GCC, "-shared", "-nostdlib", "-x", "c", "/dev/null"]
        subprocess.run([*link, f"-Wl,-soname,{NCCL}", "-o", str(stub / NCCL)], check=True)
        asks = [] if alone else ["-x", "none", "-Wl,--no-as-needed", str(stub / NCCL)]
        made = [*link, *asks, *options, "-o", str(folder / "libtorch_cuda.so")]
        subprocess.run(made, check=True)

    def python(self, **more: str | None) -> Interpreter:
        known = {
            "torch_version": "2.11.0", "torch_folder": str(self.site / "torch"), "cuda": "13.0",
            **more,
        }  # fmt: skip
        return Interpreter("/a/python", "PATH", "3.12.1", **known)  # type: ignore[arg-type]

    def found(
        self, python: Interpreter, environment: dict[str, str] | None = None
    ) -> NcclLibrary | None:
        """What is found with this Python, which is chosen only if it has torch."""
        chosen = python if python.torch_version else None
        return library_for(InterpreterChoice(chosen, (python,)), environment or {}, self.loader)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


needs_linker = pytest.mark.skipif(GCC is None, reason="no gcc, which links a libtorch_cuda.so")
OLD = "-Wl,--disable-new-dtags"
"""DT_RPATH, as in the wheels of torch."""
WHEEL = "-Wl,-rpath,$ORIGIN/../../nvidia/nccl/lib:$ORIGIN"


@needs_linker
def test_the_wheel_beside_torch_comes_before_everything(place: Place) -> None:
    place.torch(OLD, WHEEL)
    other = str(Path(place.library("other")).parent)
    assert place.found(place.python(), {"LD_LIBRARY_PATH": other}) == NcclLibrary(
        f"{other}/{NCCL}", "the one that torch 2.11.0 of /a/python loads"
    ), "the wheel is not there"
    mine = place.library("site-packages/nvidia/nccl/lib")
    found = place.found(place.python(), {"LD_LIBRARY_PATH": other})
    assert found is not None
    assert (found.path, found.because.split()[0]) == (mine, "RPATH")
    assert library_of_torch(place.python(), {}, place.loader) == found
    preloaded = place.library("preloaded")
    found = place.found(place.python(), {"LD_PRELOAD": f"/x/libasan.so:{preloaded}"})
    assert found is not None
    assert (found.path, found.because) == (preloaded, "LD_PRELOAD")


@needs_linker
def test_a_runpath_comes_after_the_environment_and_the_loader_last(place: Place) -> None:
    place.torch("-Wl,--enable-new-dtags", WHEEL)
    asks = linked(str(place.site / "torch/lib/libtorch_cuda.so"))
    assert asks is not None
    assert (asks.needed, asks.rpath) == ((NCCL,), ())
    assert asks.runpath == (str(place.site / "nvidia/nccl/lib"), str(place.site / "torch/lib"))
    configured = Path(place.library("configured")).parent
    (place.folder / "etc/conf.d").mkdir()
    (place.folder / "etc/conf.d/nccl.conf").write_text(f"# ours\n{configured}\n")
    os.mkfifo(place.folder / "etc/conf.d/a.conf")
    mine = place.library("site-packages/nvidia/nccl/lib")
    other = place.library("other")
    paths = []
    for path, environment in (
        (other, {"LD_LIBRARY_PATH": f"relative:{Path(other).parent}"}), (mine, {}),
    ):  # fmt: skip
        found = place.found(place.python(), environment)
        paths.append(found and found.path)
        Path(path).unlink()
    found = place.found(place.python())
    assert [*paths, found and found.path] == [other, mine, f"{configured}/{NCCL}"]


@needs_linker
def test_a_torch_that_holds_nccl_itself_or_is_for_hip_is_left_to_measure(place: Place) -> None:
    place.torch(alone=True)
    lies_here = str(Path(place.library("other")).parent)
    assert place.found(place.python(), {"LD_LIBRARY_PATH": lies_here}) is None
    hip = place.python(cuda=None, hip="7.0")
    assert place.found(hip, {"LD_LIBRARY_PATH": lies_here}) is None
    nowhere = place.python(torch_folder=str(place.folder / "gone"))
    assert place.found(nowhere, {"LD_LIBRARY_PATH": lies_here}) is None


def test_without_a_torch_for_gpus_everything_usual_is_looked_at(place: Place) -> None:
    package = Path(place.library("site-packages/nvidia/nccl/lib")).parent
    conda = Path(place.library("conda/lib")).parents[1]
    other = Path(place.library("other")).parent
    plain = place.python(torch_version=None, cuda=None, nccl_folder=str(package))
    everything = {"LD_LIBRARY_PATH": str(other), "CONDA_PREFIX": str(conda)}
    order = []
    for _ in range(3):
        found = place.found(plain, everything)
        assert found is not None
        order.append(found)
        Path(found.path).unlink()
    assert order == [
        NcclLibrary(f"{other}/{NCCL}", "LD_LIBRARY_PATH"),
        NcclLibrary(f"{package}/{NCCL}", "the package of /a/python"),
        NcclLibrary(f"{conda}/lib/{NCCL}", "CONDA_PREFIX"),
    ]
    for_cpus = place.python(cuda=None, nccl_folder=str(package))
    Path(package / NCCL).touch()
    assert place.found(for_cpus) == order[1]


def test_a_python_says_where_its_torch_and_its_package_lie(place: Place) -> None:
    package = Path(place.library("nvidia/nccl/lib")).parent
    (place.folder / "torch").mkdir()
    (place.folder / "torch/__init__.py").touch()
    script = place.folder / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={place.folder} exec "{sys.executable}" -S "$@"\n')
    script.chmod(0o755)
    found = inspect(str(script), "PATH")
    assert (found.nccl_folder, found.torch_folder) == (str(package), str(place.folder / "torch"))


# What the loader reads of shared objects: of a real one, and of files that are none.
def test_a_real_library() -> None:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        pytest.skip("no torch")
    path = Path(spec.origin).parent / "lib" / "libtorch_python.so"
    found = linked(str(path))
    assert found is not None
    assert "libtorch_cpu.so" in found.needed
    assert str(path.parent) in (*found.rpath, *found.runpath), "$ORIGIN is the library's folder"


def test_what_is_none(tmp_path: Path) -> None:
    whole = Path(sys.executable).read_bytes()[: 1 << 16]
    for place, content in enumerate((b"", b"no library", whole[:40], whole[:200], bytes(64))):
        path = tmp_path / str(place)
        path.write_bytes(content)
        assert linked(str(path)) is None
    assert linked(str(tmp_path)) is None
    assert linked(str(tmp_path / "gone")) is None
    os.mkfifo(tmp_path / "pipe")
    assert linked(str(tmp_path / "pipe")) is None, "nobody waits for a writer"
    assert linked("/dev/zero") is None


def _library(tags: list[tuple[int, int]], table: bytes = b"", headers_at: int = 64) -> bytes:
    """A library whose file lies at address 0: its header, two program headers, tags and texts."""
    dynamic = b"".join(struct.pack("<QQ", *tag) for tag in tags)
    head = b"\x7fELF\x02\x01".ljust(32, b"\0") + struct.pack("<Q", headers_at)
    head = head.ljust(54, b"\0") + struct.pack("<HH", 56, 2).ljust(10, b"\0")
    load = struct.pack("<IIQQQQQQ", 1, 0, 0, 0, 0, (1 << 64) - 1, 0, 0)
    points = struct.pack("<IIQQQQQQ", 2, 0, 176, 176, 0, len(dynamic), 0, 0)
    return head + load + points + dynamic + table


def test_its_own_folder_is_that_of_the_link(tmp_path: Path) -> None:
    """As the loader takes it, where an installer links packages into an environment."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "lib").mkdir()
    texts = b"\0libnccl.so.2\0$ORIGIN/nccl\0"
    made = _library([(1, 1), (29, 14), (5, 176 + 16 * 4), (0, 0)], texts)
    (tmp_path / "cache" / "x.so").write_bytes(made)
    (tmp_path / "lib" / "x.so").symlink_to("../cache/x.so")
    found = linked(str(tmp_path / "lib" / "x.so"))
    assert found is not None
    assert found.needed == ("libnccl.so.2",)
    assert found.runpath == (str(tmp_path / "lib" / "nccl"),)


def test_places_beyond_every_file(tmp_path: Path) -> None:
    far = (1 << 64) - 8
    path = tmp_path / "damaged.so"
    for made in (_library([(1, 1), (5, far), (0, 0)]), _library([(0, 0)], headers_at=far)):
        path.write_bytes(made)
        assert linked(str(path)) is None
