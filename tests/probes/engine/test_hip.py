"""HIP's runtime in the same shape, with a made-up library, kernel and compiler: no AMD GPU here."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputop.probes.engine import images
from gputop.probes.engine.hip import Hip
from gputop.probes.engine.images import SOURCE, CompileError, compiled, image_for
from gputop.probes.engine.kernels import Kernels
from gputop.probes.engine.library import EngineError
from tests.device_kernels.made_up import NOTHING, MadeUpDriver

MIB = 1 << 20


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
    images._images.clear()
    # A torch that this process has imported already would be found instead.
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    folder = tmp_path / "site" / "torch" / "lib"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise AssertionError('imported')\n")
    (folder / "libhiprtc.so.7").symlink_to(made_up_library)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    yield
    images._images.clear()


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
