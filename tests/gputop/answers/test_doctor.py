"""`gputop doctor`: ten lines that say nothing of whose machine it is."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gputop.__main__ import run
from gputop.installation import machine
from gputop.installation.machine import DeviceFile, FoundLibrary, FoundNccl, ProbedNccl
from gputop.probes.runner.interpreters import Interpreter
from tests.support.command import powerless

TORCH = Interpreter("/home/ada/env/bin/python", "PATH", "3.12.1", "2.8.0+cu128", "12.8")
NCCL = "/home/ada/env/lib/libnccl.so.2"


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with one driver library, one NCCL, one torch and a GPU nobody may open."""
    library = FoundLibrary("libcuda.so.1", "/usr/lib/libcuda.so.550.54.15", "550.54.15")
    answers = {
        "interpreters": (TORCH,),
        "libraries": (library, FoundLibrary("libamdhip64.so", why_not="not found")),
        "devices": (DeviceFile("/dev/nvidia0", False), DeviceFile("/dev/nvidiactl", True)),
    }
    for name, answer in answers.items():
        monkeypatch.setattr(machine, name, lambda answer=answer: answer)
    nccl = (FoundNccl(NCCL, "2.28.9"),)
    monkeypatch.setattr(machine, "probed_nccl", lambda _: ProbedNccl(NCCL, "CONDA_PREFIX"))
    monkeypatch.setattr(machine, "nccl_libraries", lambda _: nccl)
    monkeypatch.setattr("socket.gethostname", lambda: "rack7node3")
    monkeypatch.setenv("TERM", "rack7node3-term")


def test_lines_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor"]) == 0
    out = capsys.readouterr().out
    program, _, gpus, *others = out.splitlines()
    assert len(others) == 7
    assert program.endswith("; no other distribution is called gputop here; no plugins")
    assert gpus.startswith("gpus       none seen; ")
    assert "libcuda.so.1 550.54.15, libamdhip64.so not found" in out
    assert "2.8.0+cu128, CUDA 12.8, Python 3.12.1" in out
    assert "2.28.9 (" in out
    assert ", CONDA_PREFIX; predictions follow NCCL " in out, "the one that probes load"
    assert "no permission: /dev/nvidia0\n" in out
    assert "ada" not in out
    assert "rack7node3" not in out


def test_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--json"]) == 0
    out = capsys.readouterr().out
    assert "ada/env" not in out
    document = json.loads(out)
    assert document["schema"] == "gputop.doctor/1"
    assert document["devices"][0] == {"path": "/dev/nvidia0", "usable": False}
    assert document["pythons"][0]["torch"] == "2.8.0+cu128"
    assert document["probed_nccl"]["how_found"] == "CONDA_PREFIX"
    assert document["answers"]["gpus"]
    assert document["followed"].startswith("predictions follow NCCL ")
    assert document["answers"]["nccl"].endswith(f"; {document['followed']}")


def test_one_python_is_no_list(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = Interpreter("/usr/bin/python3", "this Python", "3.12.1", None, None)
    monkeypatch.setattr(machine, "interpreters", lambda: (bare,))
    assert run(["doctor"]) == 0
    assert "torch      not in this Python; neither" in capsys.readouterr().out


def test_folders_of_another_user_are_passed_over(tmp_path: Path) -> None:
    """After `sudo -u` or in a container, PATH and its like still name those of root."""
    locked = tmp_path / "root"
    locked.mkdir(mode=0)
    named = dict.fromkeys(("ROCM_PATH", "HIP_PATH", "VIRTUAL_ENV", "CUDA_HOME"), f"{locked}/x")
    done = powerless("doctor", PATH=f"{locked}/bin{os.pathsep}{os.environ['PATH']}", **named)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 10
