"""How the driver of a node is found, and what is said where none serves us."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gputop.probes.engine import kernels, opening
from gputop.probes.engine.cuda import Cuda
from gputop.probes.engine.kernels import SOURCE, CompileError, Kernels, compiled, image_for
from gputop.probes.engine.library import EngineError
from gputop.probes.engine.opening import Hip, open_runtime, shut_files
from tests.device_kernels.made_up import NOTHING, MadeUpDriver

MIB = 1 << 20


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


# HIP's runtime in the same shape, with a made-up library, kernel and compiler: no AMD GPU here.
def kfd(folder: Path, *nodes: dict[str, int]) -> Path:
    """The kernel's list of its CPUs and GPUs."""
    for number, node in enumerate(nodes):
        (folder / str(number)).mkdir(parents=True)
        text = "".join(f"{name} {value}\n" for name, value in node.items())
        (folder / str(number) / "properties").write_text(text)
    return folder


def gpu(bus: int, version: int = 90402, simds: int = 8) -> dict[str, int]:
    return {"simd_count": simds, "simd_per_cu": 4, "gfx_target_version": version,
            "location_id": bus << 8, "domain": 0}  # fmt: skip


CPU = {"cpu_cores_count": 96, "simd_count": 0, "gfx_target_version": 0, "location_id": 0}


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    return kfd(tmp_path / "nodes", CPU, gpu(1), gpu(2, 110001, 384), gpu(3))


@pytest.fixture
def compiler(
    monkeypatch: pytest.MonkeyPatch, made_up_library: Path, tmp_path: Path
) -> Iterator[None]:
    """hiprtc where ROCm's own libraries lie beside a torch."""
    kernels._images.clear()
    # A torch that this process has imported already would be found instead.
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    folder = tmp_path / "site" / "torch" / "lib"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise AssertionError('imported')\n")
    (folder / "libhiprtc.so.7").symlink_to(made_up_library)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    yield
    kernels._images.clear()


def opened(driver: MadeUpDriver, nodes: Path, *words: str) -> Hip:
    driver.becomes("devices=3", *words)
    runtime = Hip(driver.handle, nodes)
    runtime.open([0, 1, 2])
    return runtime


def test_a_gpu_is_what_the_kernel_lists(driver: MadeUpDriver, nodes: Path) -> None:
    runtime = opened(driver, nodes)
    assert runtime.count() == 3
    assert runtime.name(0) == "AMD Instinct MI300X"
    assert runtime.pci_address(1) == "0000:02:00.0"
    assert [runtime.architecture(index) for index in range(3)] == ["gfx942", "gfx1101", "gfx942"]
    assert [runtime.multiprocessors(index) for index in range(3)] == [2, 96, 2]
    assert runtime.uuid(0) is None
    assert runtime.l2_bytes(0) is None, "it lists no caches"
    for place, (level, kilobytes) in enumerate(((1, 32), (2, 4096), (3, 262144))):
        cache = runtime._folder(0) / "caches" / str(place)
        cache.mkdir(parents=True)
        (cache / "properties").write_text(f"level {level}\nsize {kilobytes}\nsibling_map 1,0\n")
    assert runtime.l2_bytes(0) == 4 << 20


@pytest.mark.parametrize(
    ("version", "name"), [(90010, "gfx90a"), (90402, "gfx942"), (90500, "gfx950"),
                          (100300, "gfx1030"), (120001, "gfx1201")]
)  # fmt: skip
def test_architectures_have_the_compilers_names(
    driver: MadeUpDriver, tmp_path: Path, version: int, name: str
) -> None:
    driver.becomes("devices=1")
    assert Hip(driver.handle, kfd(tmp_path, gpu(1, version))).architecture(0) == name


def test_a_gpu_that_the_kernel_does_not_list_has_no_kernels(
    driver: MadeUpDriver, tmp_path: Path
) -> None:
    runtime = opened(driver, kfd(tmp_path, CPU, gpu(7)))
    with pytest.raises(EngineError, match=r"/sys/class/kfd does not list 0000:01:00\.0"):
        Kernels(runtime).prepare(0)
    assert driver.holds() == NOTHING


@pytest.mark.usefixtures("compiler")
def test_kernels_run_and_compare(driver: MadeUpDriver, nodes: Path) -> None:
    runtime = opened(driver, nodes)
    kernels = Kernels(runtime)
    memory = runtime.allocate(2, 8 * 1000)
    runtime.reach(0, 2)
    kernels.random(0, memory, 7)
    assert kernels.unlike_random(2, memory, 7).words == 0
    assert kernels.unlike_random(2, memory, 8).words == 1000
    runtime.clear(2, memory)
    assert runtime.read(2, memory) == bytes(8000)
    assert driver.counted("modules") == 2
    runtime.free(2, memory)
    kernels.close()
    assert driver.holds() == NOTHING


@pytest.mark.usefixtures("compiler")
def test_code_is_compiled_once_for_an_architecture(driver: MadeUpDriver, nodes: Path) -> None:
    runtime = opened(driver, nodes)
    found = [image_for(runtime, index) for index in range(3)]
    assert found[0] is found[2]
    for image, name in zip(found, (b"gfx942", b"gfx1101"), strict=False):
        assert image.startswith(b"code --offload-arch=" + name + b"\n")
        assert image.rstrip(b"\0").endswith(SOURCE.read_bytes())


@pytest.mark.usefixtures("compiler")
def test_a_compiler_that_refuses_is_quoted(driver: MadeUpDriver, nodes: Path) -> None:
    runtime = opened(driver, nodes, "hiprtcCompileProgram=6")
    with pytest.raises(EngineError) as caught:
        image_for(runtime, 0)
    assert str(caught.value) == (
        "no kernels for gfx942: hiprtcCompileProgram answered error 6: "
        "kernels.cu(3): error: told to fail"
    )


def test_without_a_compiler_there_are_no_kernels() -> None:
    with pytest.raises(CompileError, match="no libhiprtc was found"):
        compiled(SOURCE, "gfx942")


def test_streams_and_memory_are_those_of_the_interface(driver: MadeUpDriver, nodes: Path) -> None:
    runtime = opened(driver, nodes, "op_ns=0")
    stream, host = runtime.stream(0), runtime.allocate_host(0, MIB)
    assert driver.counted("pinned_flags") == 1 | 0x20000000, "the caller's node, and portable"
    ctypes.memset(host.address, 5, MIB)
    here, there = runtime.allocate(0, MIB), runtime.allocate(1, MIB)
    runtime.reach(0, 1)
    runtime.reach(0, 1)
    runtime.use(0)
    start = runtime.event(stream)
    runtime.copy(here.address, host.address, MIB, stream)
    runtime.copy(there.address, here.address, MIB, stream)
    end = runtime.event(stream)
    runtime.await_event(end)
    assert runtime.seconds(start, end) == pytest.approx(MIB / 50e9 + MIB / 400e9, rel=0.1)
    assert runtime.read(1, there) == b"\5" * MIB
    assert runtime.free_bytes(1) == runtime.memory_bytes(1) - MIB
    for event in (start, end):
        runtime.drop_event(event)
    runtime.free(0, here)
    runtime.free(1, there)
    runtime.free_host(host)
    runtime.drop_stream(0, stream)
    assert driver.holds() == NOTHING


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "hipInit answered 100 (hipErrorNoDevice: no device is detected)"),
        ("devices=1;hipInit=304", "hipInit answered 304 (hipErrorOperatingSystem: OS call failed "
         "or operation not supported on this OS)"),
    ],
)  # fmt: skip
def test_a_runtime_that_refuses_is_quoted(driver: MadeUpDriver, words: str, said: str) -> None:
    driver.becomes(words)
    with pytest.raises(EngineError) as caught:
        Hip(driver.handle)
    assert str(caught.value) == said


def test_a_runtime_that_lacks_a_call_is_too_old(libraries: Callable[..., str]) -> None:
    folder = Path(libraries("amd", "hipDeviceEnablePeerAccess"))
    library = ctypes.CDLL(str(folder / "libamdhip64.so"))
    library.made_up(b"devices=2")
    runtime = Hip(library)
    runtime.open([0, 1])
    with pytest.raises(EngineError, match="this driver has no hipDeviceEnablePeerAccess: it is"):
        runtime.reach(0, 1)
