"""CUDA's driver interface: what is asked, what is refused and in which words."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputop.probes.engine.cuda import Cuda
from gputop.probes.engine.library import EngineError
from gputop.probes.engine.memory import Memory
from tests.device_kernels.made_up import NOTHING, MadeUpDriver

MIB = 1 << 20


def opened(driver: MadeUpDriver, devices: int, *words: str) -> Cuda:
    driver.becomes(f"devices={devices}", *words)
    runtime = Cuda(driver.handle)
    runtime.open(range(devices))
    return runtime


def test_a_gpu_is_described(driver: MadeUpDriver) -> None:
    driver.becomes("devices=3", "memory_mib=2048", "multiprocessors=132", "version=13010")
    runtime = Cuda(driver.handle)
    assert runtime.count() == 3
    assert runtime.name(1) == "NVIDIA H200"
    assert runtime.pci_address(2) == "0000:03:00.0"
    assert runtime.memory_bytes(0) == 2048 * MIB
    assert (runtime.architecture(0), runtime.multiprocessors(0)) == ("9.0", 132)
    assert runtime.version_text() == "13.1"
    assert runtime.uuid(1) == "GPU-21212121-2121-2121-2121-212121212121"


def test_an_instance_has_a_uuid_of_its_own(driver: MadeUpDriver) -> None:
    """The older call would give that of the GPU."""
    driver.becomes("devices=2", "name.1=NVIDIA H100 80GB HBM3 MIG 1g.10gb")
    runtime = Cuda(driver.handle)
    assert runtime.uuid(0) == "GPU-20202020-2020-2020-2020-202020202020"
    assert runtime.uuid(1) == "MIG-21212121-2121-2121-2121-212121212121"
    driver.becomes("devices=1", "cuDeviceGetUuid_v2=999")
    assert Cuda(driver.handle).uuid(0) == "GPU-10101010-1010-1010-1010-101010101010"
    driver.becomes("devices=1", "cuDeviceGetUuid_v2=999", "cuDeviceGetUuid=999")
    assert Cuda(driver.handle).uuid(0) is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "cuInit answered 100 (CUDA_ERROR_NO_DEVICE: no device is detected)"),
        ("devices=1;cuInit=802", "cuInit answered 802 (CUDA_ERROR_SYSTEM_NOT_READY: system not "
         "yet initialized)"),
        ("devices=1;cuInit=999", "cuInit answered 999 (CUDA_ERROR_UNKNOWN: unknown error)"),
        ("devices=1;cuInit=12345", "cuInit answered 12345"),
        ("devices=1;version=11020", "the driver is of CUDA 11.2: 11.4 is needed"),
    ],
)  # fmt: skip
def test_a_driver_that_refuses_is_quoted(driver: MadeUpDriver, words: str, said: str) -> None:
    driver.becomes(words)
    with pytest.raises(EngineError) as caught:
        Cuda(driver.handle)
    assert str(caught.value) == said


def test_the_oldest_driver_is_that_of_cuda_11_4(driver: MadeUpDriver) -> None:
    driver.becomes("devices=1", "version=11040")
    assert Cuda(driver.handle).version_text() == "11.4"


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("cuInit", lambda runtime: None),
        ("cuDevicePrimaryCtxRetain", lambda runtime: runtime.open([0])),
        ("cuMemHostRegister_v2", lambda runtime: runtime.pin(0, Memory(4096, 4096))),
    ],
)
def test_a_driver_that_lacks_a_call_is_too_old(
    libraries: Callable[..., str], name: str, use: Callable[[Cuda], object]
) -> None:
    library = ctypes.CDLL(str(Path(libraries("nvidia", name)) / "libcuda.so.1"))
    library.made_up(b"devices=1")

    def go() -> None:
        runtime = Cuda(library)
        if name != "cuDevicePrimaryCtxRetain":
            runtime.open([0])
        use(runtime)

    with pytest.raises(EngineError) as caught:
        go()
    assert str(caught.value) == f"this driver has no {name}: it is too old for gputop"


def test_a_driver_without_the_newer_uuid_is_asked_the_older(
    libraries: Callable[..., str],
) -> None:
    library = ctypes.CDLL(str(Path(libraries("nvidia", "cuDeviceGetUuid_v2")) / "libcuda.so.1"))
    library.made_up(b"devices=1")
    assert Cuda(library).uuid(0) == "GPU-10101010-1010-1010-1010-101010101010"


def test_contexts_are_created_at_the_same_time() -> None:
    meeting = threading.Barrier(3, timeout=60)
    opened: list[int] = []

    class Library:
        """As many functions as opening asks."""

        def __getitem__(self, name: str) -> Callable[..., int]:
            known: dict[str, Callable[..., int]] = {
                "cuInit": lambda flags: 0,
                "cuDriverGetVersion": lambda to: self.say(to, 12000),
                "cuDeviceGet": self.say,
                "cuDevicePrimaryCtxRetain": self.retain,
            }
            return known[name]

        def say(self, to: Any, number: int) -> int:
            to._obj.value = number
            return 0

        def retain(self, to: Any, handle: int) -> int:
            meeting.wait()  # broken unless three are under way at once
            opened.append(handle)
            return 0

    Cuda(Library()).open([0, 2, 3])
    assert sorted(opened) == [0, 2, 3]


def test_a_context_that_cannot_be_made_is_an_error(driver: MadeUpDriver) -> None:
    with pytest.raises(EngineError, match="cuDevicePrimaryCtxRetain answered 2 "):
        opened(driver, 3, "cuDevicePrimaryCtxRetain=2@2")


def test_a_peer_is_mapped_once(driver: MadeUpDriver) -> None:
    runtime = opened(driver, 2)
    assert runtime.can_access(0, 1)
    for _ in range(3):
        runtime.reach(0, 1)
    assert driver.counted("calls.cuCtxEnablePeerAccess") == driver.counted("mapped") == 1
    other = Cuda(driver.handle)  # the next probe of the same worker
    other.open([0, 1])
    other.reach(0, 1)
    assert driver.counted("mapped") == 1


def test_a_peer_that_is_not_granted_cannot_be_mapped(driver: MadeUpDriver) -> None:
    runtime = opened(driver, 2, "denied=0>1")
    assert not runtime.can_access(0, 1)
    assert runtime.can_access(1, 0)
    with pytest.raises(EngineError, match="peer access is not supported between these two"):
        runtime.reach(0, 1)


def test_copies_between_gpus_need_no_mapping(driver: MadeUpDriver) -> None:
    """The driver takes them through the host."""
    runtime = opened(driver, 2, "denied=0>1,1>0", "op_ns=0", "call_ns=0")
    here, there = (runtime.allocate(index, MIB) for index in (0, 1))
    sent = ctypes.create_string_buffer(bytes(range(256)) * 4096, MIB)
    runtime.use(0)
    stream = runtime.stream(0)
    runtime.copy(here.address, ctypes.addressof(sent), MIB, stream)
    start = runtime.event(stream)
    runtime.copy(there.address, here.address, MIB, stream)
    end = runtime.event(stream)
    runtime.await_event(end)
    assert runtime.seconds(start, end) == pytest.approx(MIB / 20e9)
    assert runtime.read(1, there) == sent.raw


def test_memory_is_counted_and_given_back(driver: MadeUpDriver) -> None:
    runtime = opened(driver, 2)
    free = runtime.free_bytes(1)
    memory = runtime.allocate(1, MIB)
    assert (runtime.free_bytes(1), runtime.free_bytes(0)) == (free - MIB, free)
    assert runtime.read(1, memory.part(MIB - 16, 16)) == bytes(16)
    runtime.free(1, memory)
    assert runtime.free_bytes(1) == free
    assert driver.holds() == NOTHING
    with pytest.raises(EngineError, match=r"cuMemAlloc_v2 answered 2 .*out of memory"):
        runtime.allocate(1, free + 1)


def test_pinned_memory_belongs_to_every_context(driver: MadeUpDriver) -> None:
    runtime = opened(driver, 1)
    memory = runtime.allocate_host(0, MIB)
    assert driver.counted("pinned_flags") == 1, "not CU_MEMHOSTALLOC_PORTABLE"
    runtime.free_host(memory)
    assert driver.holds() == NOTHING


def test_a_thread_has_a_context_of_its_own(driver: MadeUpDriver) -> None:
    runtime = opened(driver, 2)
    runtime.use(1)
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(runtime.allocate(0, 4096).address))
    thread.start()
    thread.join()
    here = runtime.allocate(1, 4096)
    assert runtime.free_bytes(0) == runtime.free_bytes(1)
    runtime.free(1, here)
    runtime.free(0, Memory(found[0], 4096))


def test_a_context_is_chosen_only_when_it_changes(driver: MadeUpDriver) -> None:
    runtime = opened(driver, 2)
    for index in (0, 0, 1, 1, 0):
        runtime.use(index)
    assert driver.counted("calls.cuCtxSetCurrent") == 3


def test_a_refusal_names_the_gpu(driver: MadeUpDriver) -> None:
    with pytest.raises(EngineError, match=r"Retain answered 2 .* on 0000:0[123]:00\.0$"):
        opened(driver, 3, "cuDevicePrimaryCtxRetain=2@3")
    runtime = opened(driver, 3, "cuMemAlloc_v2=2", "cuCtxSetCurrent=719@3", "cuEventCreate=719")
    for index in (1, 2):
        with pytest.raises(EngineError, match=rf"cuMemAlloc_v2 .* on 0000:0{index + 1}:00\.0$"):
            runtime.allocate(index, MIB)
    with pytest.raises(EngineError, match=r"cuEventCreate .* on 0000:03:00\.0$") as caught:
        runtime.event(None)
    assert caught.value.code == 719
    with pytest.raises(EngineError, match=r"cuCtxSetCurrent .* on 0000:01:00\.0$"):
        runtime.use(0)


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        (0, ""),
        (2, "; its compute mode is Prohibited: no process may use it"),
        (3, "; its compute mode is Exclusive_Process: one process at a time may use it"),
    ],
)
def test_a_gpu_for_nobody_or_for_one_process(driver: MadeUpDriver, mode: int, said: str) -> None:
    with pytest.raises(EngineError) as caught:
        opened(driver, 1, f"mode={mode}", "cuDevicePrimaryCtxRetain=46")
    assert str(caught.value).endswith(f"busy or unavailable) on 0000:01:00.0{said}")


def test_the_stub_of_the_toolkit_is_no_driver(driver: MadeUpDriver) -> None:
    """It has no words for its own answer."""
    driver.becomes("devices=1", "cuInit=34")
    with pytest.raises(EngineError, match=r"the toolkit's stub for linking, not the driver's$"):
        Cuda(driver.handle)
