"""What the loader reads of shared objects: of a real one, and of files that are none."""

from __future__ import annotations

import importlib.util
import os
import struct
import sys
from pathlib import Path

import pytest

from gputop.probes.runner.elf import linked


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
