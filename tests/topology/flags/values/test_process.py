"""The environment of another process: only what is listed, and clear words where it is closed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.topology.flags.values import process


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"NCCL_P2P_LEVEL": "SYS", "MY_SECRET": "hunter2", "HOME": "/nonexistent"},
    )
    assert child.stdout is not None
    child.stdout.readline()
    yield child
    child.kill()
    child.wait()
    child.stdout.close()
    assert child.stdin is not None
    child.stdin.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_a_process_of_ones_own_is_read(sleeper: subprocess.Popen[bytes]) -> None:
    found = process.read(sleeper.pid)
    mine = {variable.name: (variable.value, variable.origin) for variable in found.environment}
    assert mine["NCCL_P2P_LEVEL"] == ("SYS", "environment")
    assert "hunter2" not in repr(found)
    assert found.library is None
    assert any("program's start" in note for note in found.notes)


def made(tmp_path: Path, maps: str = "", environ: bytes = b"NCCL_DEBUG=INFO\0TOKEN=x\0") -> Path:
    folder = tmp_path / "77"
    (folder / "root" / "etc").mkdir(parents=True)
    (folder / "environ").write_bytes(environ)
    (folder / "comm").write_text("python\n")
    (folder / "maps").write_text(maps)
    return folder


def test_the_containers_files_count_and_its_library_is_named(tmp_path: Path) -> None:
    maps = (
        "7f00-7f01 r-xp 0 08:01 1   /opt/venv/nvidia/nccl/lib/libnccl.so.2.27.5\n"
        "7f02-7f03 r-xp 0 08:01 2   /opt/venv/torch/lib/libtorch_cuda.so\n"
        "7f04-7f05 rw-p 0 00:00 0\n"
    )
    folder = made(tmp_path, maps, b"NCCL_DEBUG=INFO\0HOME=/home/u\0BROKEN\0\xff=1\0")
    (folder / "root" / "etc" / "nccl.conf").write_text("NCCL_PROTO=LL\nNCCL_DEBUG=WARN\n")
    (folder / "root" / "home" / "u").mkdir(parents=True)
    (folder / "root" / "home" / "u" / ".nccl.conf").write_text("NCCL_ALGO=Ring\n")
    found = process.read(77, proc=tmp_path)
    assert {variable.name: (variable.value, variable.origin) for variable in found.environment} == {
        "NCCL_ALGO": ("Ring", "/home/u/.nccl.conf"),
        "NCCL_DEBUG": ("INFO", "environment"),
        "NCCL_PROTO": ("LL", "/etc/nccl.conf"),
    }
    assert (found.library_name, found.library_version) == ("nccl", "2.27.5")
    assert found.torch == "/opt/venv/torch/lib/libtorch_cuda.so"
    assert found.command == "python"


def test_a_link_in_a_container_is_not_followed_to_our_files(tmp_path: Path) -> None:
    folder = made(tmp_path)
    mine = tmp_path / "mine.conf"
    mine.write_text("NCCL_PROTO=LL\n")
    (folder / "root" / "etc" / "nccl.conf").symlink_to(mine)
    found = process.read(77, proc=tmp_path)
    assert [variable.name for variable in found.environment] == ["NCCL_DEBUG"]
    assert any("is a link" in note for note in found.notes)


def test_rccl_is_distinguished_from_nccl(tmp_path: Path) -> None:
    made(tmp_path, "1-2 r-xp 0 0:0 1 /opt/rocm/lib/librccl.so.1.0\n")
    found = process.read(77, proc=tmp_path)
    assert found.library_name == "rccl"
    assert found.library_version is None


def test_a_missing_process_is_reported(tmp_path: Path) -> None:
    with pytest.raises(process.ProcessError, match="no process 12") as caught:
        process.read(12, proc=tmp_path)
    assert caught.value.missing


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_no_permission_names_the_owner(tmp_path: Path) -> None:
    (made(tmp_path) / "environ").chmod(0)
    with pytest.raises(process.ProcessError, match="belongs to") as caught:
        process.read(77, proc=tmp_path)
    assert not caught.value.missing
