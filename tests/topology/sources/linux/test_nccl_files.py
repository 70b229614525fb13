"""Which NCCL a file is and which one a process has loaded, from made-up files and maps."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.topology.model.versions import LoadedLibrary
from gputop.topology.sources.files.tree import FolderTree, Unreadable
from gputop.topology.sources.linux.nccl_files import VersionsRead, loaded_by, version_inside
from tests.support.nccl.shared_object import CODE, library


def version(folder: Path, data: bytes) -> str | None:
    (folder / "lib.so").write_bytes(data)
    return version_inside(FolderTree(folder), "lib.so")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"NCCL version 2.32.3+cuda13.4", "2.32.3"),
        (b"NCCL version 2.28.9 compiled with CUDA 12.9", "2.28.9"),
        (b"RCCL version 2.21.5+hip6.3 HEAD:abc", "2.21.5"),
        (b"NCCL version %d.%d.%d+cuda", None),
        (b"nothing", None),
    ],
)
def test_a_library_names_its_version(tmp_path: Path, text: bytes, found: str | None) -> None:
    assert version(tmp_path, library(text)) == found


def test_code_and_sections_of_gpu_code_are_not_read(tmp_path: Path) -> None:
    text = b"NCCL version 2.30.7+cuda13.3"
    assert version(tmp_path, library(text, flags=CODE)) is None
    assert version(tmp_path, library(text, lengths=(1 << 40, (1 << 64) - 1))) == "2.30.7"


def test_damaged_files_have_no_version(tmp_path: Path) -> None:
    whole = library(b"NCCL version 2.30.7+cuda13.3")
    for data in (b"", b"text", whole[:63], whole[:-100], whole[:40] + b"\xff" * 24 + whole[64:]):
        assert version(tmp_path, data) is None
    assert version_inside(FolderTree(tmp_path), "gone") is None


def process(root: Path, pid: int, *mapped: str) -> None:
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True)
    lines = [f"7f00-7f01 r-xp 00000000 fd:00 12 {' ' * 20}{path}" for path in mapped]
    (folder / "maps").write_text("\n".join(["00400000-00452000 r-xp 0 00:00 0", *lines, ""]))
    (folder / "root").mkdir()


def test_each_process_shows_what_it_loaded(tmp_path: Path) -> None:
    wheel = "/opt/my env/nvidia/nccl/lib/libnccl.so.2"
    process(tmp_path, 1, "/usr/lib/libc.so.6", wheel, wheel)
    process(tmp_path, 2, f"{wheel} (deleted)")
    process(tmp_path, 3, "/usr/lib/libnccl.so.2.19.3")
    process(tmp_path, 4, "/usr/lib/libnccl-net.so")
    inner = tmp_path / "proc" / "1" / "root" / wheel[1:]
    inner.parent.mkdir(parents=True)
    inner.write_bytes(library(b"NCCL version 2.30.7+cuda13.3"))
    tree = FolderTree(tmp_path)
    read: VersionsRead = {}
    assert [loaded_by(tree, pid, read) for pid in (1, 2, 3, 4)] == [
        LoadedLibrary(path=wheel, version="2.30.7"),
        LoadedLibrary(path=wheel, replaced=True),
        LoadedLibrary(path="/usr/lib/libnccl.so.2.19.3"),
        None,
    ]
    assert isinstance(loaded_by(tree, 5, read), Unreadable)
    assert read == {
        (wheel, inner.stat().st_size): "2.30.7",
        ("/usr/lib/libnccl.so.2.19.3", None): None,
    }
