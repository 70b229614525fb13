"""What is found of libraries, NCCL, Pythons and device files."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gputop.answers import doctor
from gputop.installation import machine
from gputop.installation.machine import FoundNccl, FoundPython, JobNccl
from tests.support.nccl.shared_object import library as made_library


def test_libraries_are_those_of_the_loader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "libbroken.so"
    broken.write_text("no library\n")
    monkeypatch.setattr(machine, "LIBRARIES", ("libc.so.6", "libnone.so.1", str(broken)))
    found, missing, unfit = machine.libraries()
    assert found.path is not None
    assert found.path.endswith("libc.so.6")
    assert missing.why_not == "not found"
    assert "too short" in (unfit.why_not or "") or "invalid ELF" in (unfit.why_not or "")


def test_nccl_of_a_python_that_does_not_run_here_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    system, link = tmp_path / "usr", tmp_path / "link"
    system.mkdir()
    link.symlink_to(system)
    paths = [f"{folder}/libnccl.so.2" for folder in (system, link)]
    raw = {"libraries": [[path, "libnccl.so.2.21.5"] for path in paths]}
    monkeypatch.setattr("gputop.topology.sources.linux.software.read", lambda _: raw)
    site = tmp_path / "lib" / "python3.12" / "site-packages"
    library = site / "nvidia" / "nccl" / "lib" / "libnccl.so.2"
    library.parent.mkdir(parents=True)
    library.touch()
    (site / "nvidia_nccl_cu12-2.28.9.dist-info").mkdir()
    python = FoundPython(
        str(tmp_path / "bin" / "python"), "PATH", "3.12.1", None, None, "has no torch"
    )
    assert machine.nccl_libraries([python]) == (
        FoundNccl(paths[0], "2.21.5"),
        FoundNccl(str(library), "2.28.9", ("cu12 2.28.9",)),
    )


def test_of_two_packages_in_one_place_the_file_says_which_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Packages for CUDA 12 and 13 put their library at the same path."""
    monkeypatch.setattr("gputop.topology.sources.linux.software.read", lambda _: {})
    site = tmp_path / "lib" / "python3.12" / "site-packages"
    file = site / "nvidia" / "nccl" / "lib" / "libnccl.so.2"
    file.parent.mkdir(parents=True)
    file.write_bytes(made_library(b"NCCL version 2.30.7+cuda13.3"))
    for name in ("cu12-2.28.9", "cu13-2.30.7"):
        (site / f"nvidia_nccl_{name}.dist-info").mkdir()
    python = FoundPython(str(tmp_path / "bin" / "python"), "PATH", "3.12.1", None, None, None)
    (found,) = machine.nccl_libraries([python])
    assert found == FoundNccl(str(file), "2.30.7", ("cu12 2.28.9", "cu13 2.30.7"))
    file.write_bytes(b"")
    (unread,) = machine.nccl_libraries([python])
    assert unread.version is None
    assert doctor._jobs((), (found,)) == (
        f"cu12 2.28.9 and cu13 2.30.7 lie over each other at {file}"
    )
    job = JobNccl("/a/python", str(file), "2.30.7", "LD_LIBRARY_PATH")
    monkeypatch.setenv("NCCL_TUNER_PLUGIN", "aws")
    text = doctor._jobs((job,), ())
    assert text == (
        f"under /a/python NCCL 2.30.7 is loaded from {file} (LD_LIBRARY_PATH); "
        "NCCL_TUNER_PLUGIN=aws"
    )


def test_hip_is_found_where_probes_look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken, elsewhere = tmp_path / "libamdhip64.so.6", tmp_path / "lib" / "libamdhip64.so.7"
    broken.write_text("no library")
    places = ["libnone.so.1", broken, elsewhere]
    monkeypatch.setattr(machine, "LIBRARIES", ("libamdhip64.so",))
    monkeypatch.setattr(machine, "hip_places", lambda: places)
    (found,) = machine.libraries()
    assert "file too short" in (found.why_not or "") or "invalid ELF" in (found.why_not or "")
    places[2] = "libc.so.6"
    (found,) = machine.libraries()
    assert found.why_not is None


def test_device_files_come_in_the_order_of_their_numbers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("nvidia10", "nvidia2", "nvidiactl"):
        (tmp_path / name).touch()
    patterns = (f"{tmp_path}/nvidia[0-9]*", f"{tmp_path}/nvidiactl")
    monkeypatch.setattr(machine, "DEVICES", patterns)
    monkeypatch.setattr(machine, "may_open", lambda path: not path.endswith("10"))
    found = machine.devices()
    assert [Path(each.path).name for each in found] == ["nvidia2", "nvidia10", "nvidiactl"]
    assert [each.usable for each in found] == [True, False, True]


def test_a_driver_that_does_not_let_go_keeps_nobody(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    released = threading.Event()
    for name in ("nvidia0", "nvidia1"):
        (tmp_path / name).touch()
    monkeypatch.setattr(machine, "DEVICES", (f"{tmp_path}/nvidia[0-9]*",))
    monkeypatch.setattr(machine, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(machine, "may_open", lambda path: path.endswith("1") or released.wait(60.0))
    found = machine.devices()
    released.set()
    assert [each.usable for each in found] == [None, True]


def test_a_library_that_lacks_another_is_not_called_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    end = "cannot open shared object file: No such file or directory"

    def load(place: str, mode: int = 0) -> None:
        lacking = "libdrm.so.2" if "amd" in place else place
        raise OSError(f"{lacking}: {end}")

    monkeypatch.setattr("gputop.installation.machine.ctypes.CDLL", load)
    monkeypatch.setattr(machine, "hip_places", lambda: ["/opt/rocm/lib/libamdhip64.so"])
    found = {each.name: each.why_not for each in machine.libraries()}
    assert found["libcuda.so.1"] == "not found"
    hip = next(why for name, why in found.items() if name.startswith("libamdhip64"))
    assert hip == f"libdrm.so.2: {end}"
