"""Daemons that serve the GPUs: the fabric manager, MPS, the channels of IMEX, the module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gputop.topology.model.surroundings import Host
from gputop.topology.sources.files.tree import FolderTree
from gputop.topology.sources.linux import daemons, host

VERSION = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (a@b)\n"
    "GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)\n"
)


def parsed(**raw: Any) -> Host:
    found = host.SOURCE.parse({"absent": "not there", **raw}).host
    assert found is not None
    return found


def write(root: Path, path: str, text: str = "") -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_a_running_fabric_manager_is_found_by_its_cut_name(tmp_path: Path) -> None:
    write(tmp_path, "proc/1/comm", "systemd\n")
    write(tmp_path, "proc/4242/comm", "nv-fabricmanage\n")
    tree = FolderTree(tmp_path)
    assert daemons.read(tree, {}) == {"fabric_manager": "running", "mps_daemon": False}
    (tmp_path / "proc/4242/comm").write_text("bash\n")
    assert daemons.read(tree, {})["fabric_manager"] == "absent"
    write(tmp_path, "usr/bin/nv-fabricmanager")
    assert daemons.read(tree, {})["fabric_manager"] == "installed"
    inside = daemons.read(tree, {"signs": [".dockerenv"]})["fabric_manager"]
    assert inside == {"error": "the host's processes are hidden from this container"}
    assert parsed(fabric_manager=inside).why("fabric_manager") == inside["error"]


def test_a_daemon_of_mps_is_found_by_its_cut_name(tmp_path: Path) -> None:
    write(tmp_path, "proc/1/comm", "systemd\n")
    write(tmp_path, "proc/77/comm", "nvidia-cuda-mps\n")
    tree = FolderTree(tmp_path)
    assert daemons.read(tree, {})["mps_daemon"] is True
    assert daemons.read(tree, {"signs": [".dockerenv"]})["mps_daemon"] is True
    (tmp_path / "proc/77/comm").write_text("bash\n")
    assert daemons.read(tree, {"signs": [".dockerenv"]})["mps_daemon"] == {
        "error": daemons.IN_CONTAINER
    }


def test_hidden_processes_prove_no_absence(tmp_path: Path) -> None:
    write(tmp_path, "proc/4242/comm", "bash\n")
    found = daemons.read(FolderTree(tmp_path), {})
    assert found == {key: {"error": daemons.HIDDEN} for key in ("fabric_manager", "mps_daemon")}
    machine = parsed(**found)
    assert (machine.fabric_manager, machine.mps_daemon) == (None, None)
    assert machine.why("mps_daemon") == machine.why("fabric_manager") == daemons.HIDDEN


def test_too_many_processes_prove_no_absence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid in range(1, 6):
        write(tmp_path, f"proc/{pid}/comm", "bash\n")
    monkeypatch.setattr(daemons, "LIMIT_PROCESSES", 3)
    assert daemons.read(FolderTree(tmp_path), {})["mps_daemon"] == {"error": daemons.TOO_MANY}


def test_channels_of_imex_that_may_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = FolderTree(tmp_path)
    monkeypatch.setattr(daemons, "IMEX_CHANNELS", str(tmp_path)[1:] + "/channels")
    live = FolderTree(Path("/"), live=True)
    assert daemons.imex_channels(live) is False
    write(tmp_path, "channels/README")
    assert daemons.imex_channels(live) is False
    write(tmp_path, "channels/channel0")
    assert daemons.imex_channels(live) is True
    assert tree.exists("channels/channel0")


@pytest.mark.parametrize("odd", ["yes", 1, None, [], {"error": 7}])
def test_only_truth_is_taken_for_truth(odd: object) -> None:
    machine = parsed(mps_daemon=odd, imex_channels=odd)
    assert (machine.mps_daemon, machine.imex_channels) == (None, None)
    assert machine.why("mps_daemon") == machine.why("imex_channels") == "not there"


def test_the_version_of_the_loaded_module() -> None:
    machine = parsed(files={"proc/driver/nvidia/version": VERSION})
    assert (machine.nvidia_module, machine.nvidia_module_version) == ("open", "580.159.04")
    machine = parsed(files={"proc/driver/nvidia/version": "NVRM version: \x1b[31mnothing"})
    assert machine.nvidia_module_version is None
    assert "no version in" in (machine.why("nvidia_module_version") or "")
    denied = {"proc/driver/nvidia/version": {"error": "no permission"}}
    assert parsed(files=denied).why("nvidia_module_version") == "no permission"
    assert parsed(files={}).why("nvidia_module_version") == "not there"
