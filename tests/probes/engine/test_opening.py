"""How the driver of a node is found, and what is said where none serves us."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path
from typing import Any

import pytest

from gputop.probes.engine import opening
from gputop.probes.engine.cuda import Cuda
from gputop.probes.engine.library import EngineError
from gputop.probes.engine.opening import open_runtime, shut_files
from tests.device_kernels.made_up import MadeUpDriver


def found(monkeypatch: pytest.MonkeyPatch, **drivers: Any) -> None:
    """Say which libraries the loader finds, by the first word of their names."""
    monkeypatch.setattr(
        opening, "_loaded", lambda place, _: drivers.get(Path(str(place)).name.partition(".")[0])
    )


@pytest.fixture
def shut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Device files, of which a cgroup keeps three from us, one of them of another driver."""
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-caps", "null", "kfd"):
        (tmp_path / name).write_text("")
    really = os.open

    def refuse(path: str, *rest: Any) -> int:
        if path.endswith(("nvidia0", "nvidia1", "kfd")):
            raise PermissionError(errno.EPERM, "Operation not permitted")
        return really(path, *rest)

    monkeypatch.setattr(os, "open", refuse)
    return tmp_path


def test_files_that_may_not_be_opened_are_named(
    shut: Path, driver: MadeUpDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [str(shut / "nvidia0"), str(shut / "nvidia1")]
    assert shut_files(shut, ("nvidia*", "null")) == files
    found(monkeypatch, libcuda=driver.handle)
    with pytest.raises(EngineError) as caught:
        open_runtime(shut)
    assert str(caught.value) == (
        "cuInit answered 100 (CUDA_ERROR_NO_DEVICE: no device is detected); "
        f"this user may not open {files[0]}, {files[1]}"
    )


def test_a_node_without_any_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found(monkeypatch)
    with pytest.raises(EngineError, match=r"^there is no libcuda\.so\.1 and no libamdhip64\.so$"):
        open_runtime(tmp_path)


def test_the_driver_that_has_gpus_is_taken(
    monkeypatch: pytest.MonkeyPatch, driver: MadeUpDriver, tmp_path: Path
) -> None:
    found(monkeypatch, libcuda=driver.handle, libamdhip64=driver.handle)
    driver.becomes("devices=1")
    assert isinstance(open_runtime(tmp_path), Cuda)
    driver.becomes("devices=1", "cuInit=100")
    assert open_runtime(tmp_path).is_hip
    driver.becomes("devices=1", "cuInit=100", "hipInit=100")
    with pytest.raises(EngineError, match="cuInit answered 100"):
        open_runtime(tmp_path)


def test_a_driver_that_counts_no_gpu(
    monkeypatch: pytest.MonkeyPatch, driver: MadeUpDriver, tmp_path: Path
) -> None:
    """CUDA_VISIBLE_DEVICES= leaves it so."""
    found(monkeypatch, libcuda=driver.handle)
    driver.becomes("devices=1", "cuDeviceGetCount=100")
    with pytest.raises(EngineError, match="cuDeviceGetCount answered 100"):
        open_runtime(tmp_path)


def test_a_library_that_cannot_be_loaded_is_not_called_absent(
    monkeypatch: pytest.MonkeyPatch, driver: MadeUpDriver, tmp_path: Path
) -> None:
    """Images that were made from a container have an empty libcuda.so.1."""
    empty = tmp_path / "libcuda.so.1"
    empty.write_text("")
    monkeypatch.setattr(opening, "_CUDA", str(empty))
    monkeypatch.setattr(opening, "hip_places", lambda: [str(tmp_path / "libamdhip64.so")])
    with pytest.raises(EngineError) as caught:
        open_runtime(tmp_path)
    assert str(caught.value) == f"{empty} cannot be loaded: {empty}: file too short"


def test_what_the_driver_of_the_gpus_here_says_comes_first(
    monkeypatch: pytest.MonkeyPatch, driver: MadeUpDriver, tmp_path: Path
) -> None:
    found(monkeypatch, libcuda=driver.handle, libamdhip64=driver.handle)
    driver.becomes("devices=1", "cuInit=100", "hipInit=999")
    (tmp_path / "kfd").write_text("")
    with pytest.raises(EngineError, match=r"^hipInit answered 999"):
        open_runtime(tmp_path)
    (tmp_path / "nvidiactl").write_text("")
    with pytest.raises(EngineError, match=r"^cuInit answered 100"):
        open_runtime(tmp_path)


def test_the_file_of_the_memory_driver_is_missed(
    monkeypatch: pytest.MonkeyPatch, driver: MadeUpDriver, tmp_path: Path
) -> None:
    """Nothing makes it at the start of a node without a display, and cuInit only says 999."""
    found(monkeypatch, libcuda=driver.handle)
    driver.becomes("devices=1", "cuInit=999")
    (tmp_path / "nvidiactl").write_text("")
    with pytest.raises(EngineError, match=f"; there is no {tmp_path}/nvidia-uvm, which "):
        open_runtime(tmp_path)
    (tmp_path / "nvidia-uvm").write_text("")
    with pytest.raises(EngineError, match=r"\(CUDA_ERROR_UNKNOWN: unknown error\)$"):
        open_runtime(tmp_path)


def test_a_limit_of_addresses_is_told_where_the_driver_finds_no_memory(
    monkeypatch: pytest.MonkeyPatch, driver: MadeUpDriver, tmp_path: Path
) -> None:
    """As of CUDA on an H100 under `ulimit -v 3000000`."""
    found(monkeypatch, libcuda=driver.handle)
    driver.becomes("devices=1", "cuInit=2")
    limit = 3000000 << 10
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    with pytest.raises(EngineError, match=r"^cuInit answered 2 .* 2929 MiB that ulimit -v allows"):
        open_runtime(tmp_path)
    limit = resource.RLIM_INFINITY
    with pytest.raises(EngineError, match=r"^cuInit answered 2 \(\w+: out of memory\)$"):
        open_runtime(tmp_path)


@pytest.mark.parametrize(
    ("maps", "first"),
    [
        (None, "libamdhip64.so"),
        (b"7f0 r-xp 0 0:0 1 /opt/\xff/libamdhip64.so.7\n", "/opt/\udcff/libamdhip64.so.7"),
    ],
    ids=["no /proc", "a name that is no UTF-8"],
)
def test_hip_is_looked_for_whatever_proc_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, maps: bytes | None, first: str
) -> None:
    path = tmp_path / "maps"
    if maps is not None:
        path.write_bytes(maps)
    monkeypatch.setattr(opening, "_MAPS", path)
    assert str(next(opening.hip_places())) == first
