"""What the loader reads of shared objects: of a real one, and of files that are none."""

from __future__ import annotations

import importlib.util
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
