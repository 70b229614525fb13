"""Our own kernels: compiled for the host behind the driver's names, and what happens without."""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gputop.probes.devices import kernel_compiler
from gputop.probes.devices.kernel_compiler import (
    SOURCE,
    CompileError,
    Compiler,
    candidates,
    find_compiler,
)
from gputop.probes.devices.kernels import Kernels
from tests.support.places import TESTS

HOST_SOURCE = TESTS / "device_kernels" / "on_the_host.cpp"
STREAM = SimpleNamespace(cuda_stream=0x5717)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    path = tmp_path_factory.mktemp("kernels") / "on_the_host.so"
    subprocess.run(
        ["g++", "-std=c++20", "-O1", "-fPIC", "-shared", "-pthread", "-w",
         f'-DKERNELS="{SOURCE}"', str(HOST_SOURCE), "-o", str(path)],
        check=True,
    )  # fmt: skip
    return path


@pytest.fixture
def library(built: Path) -> Any:
    loaded = ctypes.CDLL(str(built))
    loaded.last_option.restype = ctypes.c_char_p
    ctypes.c_int.in_dll(loaded, "told_compile_error").value = 0
    return loaded


def count(library: Any, name: str) -> int:
    return ctypes.c_int.in_dll(library, name).value


def torch_of(major: int = 9, minor: int = 0, hip: str | None = None, **more: Any) -> Any:
    @contextmanager
    def device(index: int) -> Iterator[None]:
        yield

    properties = SimpleNamespace(major=major, minor=minor, multi_processor_count=2, **more)
    cuda = SimpleNamespace(
        device=device,
        current_device=lambda: 0,
        get_device_properties=lambda index: properties,
    )
    return SimpleNamespace(cuda=cuda, version=SimpleNamespace(hip=hip), __file__="/t/torch/x.py")


@pytest.fixture
def kernels(library: Any) -> Iterator[Kernels]:
    found = Kernels.open_or_why(torch_of(), (0,), library, Compiler(library, False))
    assert isinstance(found, Kernels), found
    with found:
        yield found
        assert count(library, "contexts_pushed") == 0
    for name in ("modules_loaded", "contexts_held"):
        assert count(library, name) == 0, name


def words(count: int, seed: int = 1) -> Any:
    """Unlike each other, 16-byte aligned as device memory is."""
    raw = (ctypes.c_uint * (count + 8))()
    shift = (-ctypes.addressof(raw) % 16) // 4
    view = (ctypes.c_uint * count).from_buffer(raw, 4 * shift)
    for place in range(count):
        view[place] = (place * 2654435761 + seed * 40503) & 0xFFFFFFFF
    return view


# 1024 threads with 12 pieces each are one turn of the fast loop: below it, at it, beyond it.
@pytest.mark.parametrize("pieces", [1, 1023, 12 * 1024, 12 * 1024 * 2 + 517])
def test_a_copy_is_whole_whatever_its_length(kernels: Kernels, pieces: int) -> None:
    source, to = words(4 * pieces), words(4 * pieces + 4, seed=9)
    guard = to[4 * pieces :]
    at = ctypes.addressof(to), ctypes.addressof(source)
    kernels.copy(0, *at, 16 * pieces, STREAM, passes=2)
    assert to[: 4 * pieces] == source[:]
    assert to[4 * pieces :] == guard


@pytest.mark.parametrize("pieces", [3, 12 * 1024 + 5])
def test_a_read_adds_every_word_once_a_pass(kernels: Kernels, pieces: int) -> None:
    source, total = words(4 * pieces), ctypes.c_uint(0)
    kernels.read(
        0, ctypes.addressof(source), 16 * pieces, ctypes.addressof(total), STREAM, passes=3
    )
    assert total.value == 3 * sum(source) % 2**32


def test_a_fill_leaves_its_word(kernels: Kernels) -> None:
    to = words(4 * 5000)
    kernels.fill(0, ctypes.addressof(to), 16 * 5000, 0xFFFFFFFF, STREAM, passes=3)
    assert set(to) == {0xFFFFFFFF}


def test_a_triad_multiplies_and_adds(kernels: Kernels) -> None:
    count = 4 * (6 * 1024 + 3)
    to, left, right = words(count), words(count), words(count)
    floats = [(ctypes.c_float * count).from_buffer(memory) for memory in (to, left, right)]
    for place in range(count):
        floats[1][place], floats[2][place] = place % 1000, place % 7
    at = [ctypes.addressof(memory) for memory in (to, left, right)]
    kernels.triad(0, at[0], at[1], at[2], 0.5, 4 * count, STREAM)
    assert list(floats[0]) == [place % 1000 + 0.5 * (place % 7) for place in range(count)]


def test_a_chase_follows_the_ring(kernels: Kernels, library: Any) -> None:
    slots = 64
    ring = (ctypes.c_ulonglong * (16 * slots))()
    for slot in range(slots):
        ring[16 * slot] = 16 * ((slot + 3) % slots)
    end = ctypes.c_ulonglong(7)
    kernels.chase(0, ctypes.addressof(ring), 1000, ctypes.addressof(end), STREAM)
    assert end.value == 16 * (3 * 1000 % slots)
    assert ctypes.c_void_p.in_dll(library, "last_stream").value == STREAM.cuda_stream


def test_sizes_are_whole_pieces(kernels: Kernels) -> None:
    for size in (0, 8, 24):
        with pytest.raises(ValueError, match="no multiple of 16"):
            kernels.copy(0, 16, 16, size, STREAM)


@pytest.mark.parametrize(
    ("version", "option", "code"),
    [
        ((9, 0), b"--gpu-architecture=sm_90", b"cubin"),
        ((10, 0), b"--gpu-architecture=compute_90", b"ptx"),
        ((8, 6), b"--gpu-architecture=compute_80", b"ptx"),
    ],
)
def test_code_is_for_the_gpu_or_the_newest_below(
    library: Any, version: tuple[int, int], option: bytes, code: bytes
) -> None:
    assert Compiler(library, False).image("{}.{}".format(*version)) == code
    assert library.last_option() == option


def test_a_gpu_older_than_the_compiler_has_no_kernels(library: Any) -> None:
    why = Kernels.open_or_why(torch_of(7, 0), (0,), library, Compiler(library, False))
    assert why == "NVRTC knows no architecture as old as 7.0."


def test_of_unlike_gpus_one_without_kernels_leaves_nothing_loaded(library: Any) -> None:
    torch_ = torch_of()
    old, new = torch_of(7, 0).cuda, torch_.cuda.get_device_properties
    torch_.cuda.get_device_properties = lambda index: (
        old.get_device_properties(index) if index == 1 else new(index)
    )
    why = Kernels.open_or_why(torch_, (0, 1), library, Compiler(library, False))
    assert why == "NVRTC knows no architecture as old as 7.0."
    assert count(library, "modules_loaded") == 0
    assert count(library, "contexts_held") == 0


def test_a_compiler_that_refuses_is_quoted(library: Any) -> None:
    ctypes.c_int.in_dll(library, "told_compile_error").value = 6
    why = Kernels.open_or_why(torch_of(), (0,), library, Compiler(library, False))
    assert why == "nvrtcCompileProgram answered error 6: kernels.cu(3): error: told to fail"


def test_without_libraries_there_are_no_kernels(
    library: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(kernel_compiler, "candidates", lambda *of: iter([tmp_path / "none.so"]))
    with pytest.raises(CompileError, match="no NVRTC library"):
        find_compiler(False, tmp_path)
    assert Kernels.open(torch_of(5, 2), (0,)) is None
    why = Kernels.open_or_why(torch_of(hip="6.4", gcnArchName="gfx942"), (0,), library)
    assert why == "no hiprtc library beside torch or on the system"
    nothing = SimpleNamespace()  # a library without one of the calls
    why = Kernels.open_or_why(torch_of(), (0,), nothing, Compiler(library, False))
    assert isinstance(why, str)
    assert count(library, "contexts_held") == 0


def test_the_compiler_of_torch_comes_before_the_systems(tmp_path: Path) -> None:
    torch = tmp_path / "torch"
    names = ("torch/lib/libnvrtc-672ee683.so.11.2", "torch/lib/libnvrtc-builtins.so.11.8",
             "nvidia/cu13/lib/libnvrtc.so.13", "nvidia/cu13/lib/libnvrtc.alt.so.13",
             "torch/lib/libhiprtc.so", "torch/lib/libnvrtcx.so")  # fmt: skip
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    cuda, hip = ([str(p) for p in candidates(is_hip, torch)] for is_hip in (False, True))
    ours = [path for path in cuda if path.startswith(str(tmp_path))]
    assert ours == [str(tmp_path / names[0]), str(tmp_path / names[2])]
    assert cuda.index("libnvrtc.so.12") > cuda.index(ours[-1])
    assert str(tmp_path / names[4]) in hip
    assert not set(ours) & set(hip)


def test_a_real_compiler_takes_the_source(tmp_path: Path) -> None:
    """Where NVRTC is on this machine; it needs no GPU."""
    try:
        compiler = find_compiler(False, Path(pytest.importorskip("torch").__file__).parent)
    except CompileError as error:
        pytest.skip(str(error))
    image = compiler.image("9.0")
    assert image[:4] == b"\x7fELF"
    (machine,) = struct.unpack_from("<H", image, 18)
    assert machine == 190, "not EM_CUDA"
    for name in ("copy", "read", "fill", "triad", "chase"):
        assert b"gputop_" + name.encode() in image
