"""Host memory, and copies between it and made-up GPUs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import pytest

from gputop.probes.engine.cuda import Cuda
from gputop.probes.engine.host_copies import Copier, Copy, CpuCopier, GpuCopier
from gputop.probes.engine.host_memory import HostBuffer
from gputop.probes.engine.kernels import Kernels
from gputop.probes.engine.library import EngineError
from tests.device_kernels.made_up import NOTHING, MadeUpDriver

MIB = 1 << 20


def opened(driver: MadeUpDriver, *words: str, devices: int = 1) -> Cuda:
    driver.becomes(f"devices={devices}", "op_ns=0", *words)
    runtime = Cuda(driver.handle)
    runtime.open(range(devices))
    return runtime


@pytest.mark.parametrize(
    ("kind", "taken", "given"),
    [
        ("pinned", "cuMemHostAlloc", "cuMemFreeHost"),
        ("registered", "cuMemHostRegister_v2", "cuMemHostUnregister"),
        ("pageable", "", ""),
    ],
)
def test_what_is_pinned_is_let_go(driver: MadeUpDriver, kind: str, taken: str, given: str) -> None:
    runtime = opened(driver)
    buffer = HostBuffer(runtime, 0, kind, MIB)
    assert buffer.memory.size_bytes == MIB
    assert driver.counted("pinned") == bool(taken)
    assert ctypes.string_at(buffer.memory.address, MIB) == bytes(MIB)
    buffer.close()
    buffer.close()
    for name in filter(None, (taken, given)):
        assert driver.counted(f"calls.{name}") == 1
    assert driver.holds() == NOTHING


def test_memory_that_cannot_be_pinned_is_an_error(driver: MadeUpDriver) -> None:
    runtime = opened(driver, "cuMemHostRegister_v2=304", "cuMemHostAlloc=2")
    with pytest.raises(EngineError, match=r"cuMemHostRegister_v2 answered 304 .*OS call failed"):
        HostBuffer(runtime, 0, "registered", MIB)
    with pytest.raises(EngineError, match=r"cuMemHostAlloc answered 2 .*out of memory"):
        HostBuffer(runtime, 0, "pinned", MIB)
    assert driver.holds() == NOTHING


def test_the_self_test_pins_nothing() -> None:
    buffer = HostBuffer(None, 0, "pinned", MIB)
    assert buffer.kind == "pageable"
    buffer.close()


def test_copies_of_all_kinds_are_timed(driver: MadeUpDriver) -> None:
    runtime = opened(driver, devices=2)
    copier = GpuCopier(runtime, Kernels(runtime))
    device, other = (copier.device_buffer(index, MIB) for index in (0, 1))
    pinned = copier.host_buffer(0, "pinned", MIB)
    there, back = (Copy(0, way, pinned.memory, device) for way in (True, False))
    assert copier.ends([there], 4)[0][-1] == pytest.approx(4 * MIB / 50e9)
    half = MIB // 2
    both = [
        Copy(0, True, pinned.memory.part(0, half), device.part(0, half)),
        Copy(1, False, pinned.memory.part(half, half), other.part(half, half)),
    ]
    each = [half * (1 + n) / 50e9 for n in range(3)]
    assert [list(ends) for ends in copier.ends(both, 3)] == [pytest.approx(each)] * 2
    assert copier.ends([back], 1)[0][-1] == pytest.approx(MIB / 50e9)
    pageable = copier.host_buffer(0, "pageable", MIB)
    assert copier.waited_seconds(Copy(0, True, pageable.memory, device), 2) > 0
    assert driver.counted("held_late") == 0
    for buffer in (pinned, pageable):
        buffer.close()
    copier.finish(0)
    copier.close()
    copier.close()
    assert driver.counted("memory") == 1, "the kernels' own, for the hold"
    assert (driver.counted("streams"), driver.counted("pinned")) == (0, 0)


@pytest.mark.parametrize(
    ("words", "right"),
    [("", True), ("spoil=memcpy@0", False), ("spoil=any@1", True), ("spoil=any@0", False)],
)
def test_words_that_come_back_are_compared(driver: MadeUpDriver, words: str, right: bool) -> None:
    runtime = opened(driver, words)
    copier = GpuCopier(runtime, Kernels(runtime))
    host, device = copier.host_buffer(0, "pinned", MIB), copier.device_buffer(0, MIB)
    assert copier.comes_back(0, host.memory, device) is right
    assert GpuCopier(runtime, None).comes_back(0, host.memory, device) is None


def test_wrong_bytes_of_the_self_test_do_not_come_back_right() -> None:
    class Losing(CpuCopier):
        """Leaves out the last word of every copy to the device."""

        def ends(self, copies: Sequence[Copy], times: int) -> tuple[tuple[float, ...], ...]:
            (copy,) = copies
            if copy.to_device:
                shorter = MIB - 8
                copy = Copy(0, True, copy.host.part(0, shorter), copy.device.part(0, shorter))
            return super().ends([copy], times)

    for copier, right in ((CpuCopier(), True), (Losing(), False)):
        host, device = copier.host_buffer(0, "pinned", MIB), copier.device_buffer(0, MIB)
        assert copier.comes_back(0, host.memory, device) is right
        host.close()
        copier.close()


def test_after_a_fault_nothing_is_raised_twice(driver: MadeUpDriver) -> None:
    """The fault is what a probe says, and not what became of giving memory back."""
    runtime = opened(driver, "kernel.gputop_hold=719", devices=2)
    copier: Copier = GpuCopier(runtime, Kernels(runtime))
    host, device = copier.host_buffer(0, "pinned", MIB), copier.device_buffer(0, MIB)
    copier.device_buffer(1, MIB)
    with pytest.raises(EngineError, match="unspecified launch failure"):
        copier.ends([Copy(0, True, host.memory, device)], 1)
    copier.close()
    assert driver.counted("memory") == 2, "what lies on the broken GPU"
