"""What is done in the memory of a device: that it is done at all, and what a figure counts."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Iterator

import pytest

from gputop.probes.engine.cuda import Cuda
from gputop.probes.engine.kernels import Kernels
from gputop.probes.engine.library import EngineError
from gputop.probes.engine.memory_work import (
    DRIVER_COPY,
    KERNEL_COPY,
    L2_READ,
    OPERATIONS,
    READ,
    TRIAD,
    WRITE,
    CpuArrays,
    GpuArrays,
    MemoryOperation,
    l2_size,
    measure,
)
from tests.device_kernels.made_up import NOTHING, MadeUpDriver

SIZE = 64 * 1024
KERNEL_OF = {
    DRIVER_COPY: "memcpy",
    KERNEL_COPY: "gputop_copy",
    READ: "gputop_read",
    WRITE: "gputop_fill",
    TRIAD: "gputop_triad",
}


@dataclasses.dataclass
class Gpu:
    """A made-up GPU with its arrays."""

    driver: MadeUpDriver
    runtime: Cuda
    kernels: Kernels
    arrays: GpuArrays

    def becomes(self, *words: str) -> None:
        """Have new faults, and new arrays."""
        self.driver.becomes("devices=1", "op_ns=0", *words)
        self.runtime = Cuda(self.driver.handle)
        self.runtime.open([0])
        self.kernels = Kernels(self.runtime)
        self.arrays = GpuArrays(self.runtime, self.kernels, 0, SIZE)

    def close(self) -> None:
        self.arrays.close()
        self.kernels.close()


@pytest.fixture
def gpu(driver: MadeUpDriver) -> Iterator[Gpu]:
    made = object.__new__(Gpu)
    made.driver = driver
    made.becomes()
    yield made
    made.close()
    assert driver.holds() == NOTHING


def test_bytes_are_counted_as_it_says(gpu: Gpu) -> None:
    """One array at 2000 GB/s each time; what is counted is what the operation touches."""
    figures = {op: measure(gpu.arrays, op, SIZE, 4, 3, 0.0).median for op in OPERATIONS}
    assert figures == {
        DRIVER_COPY: pytest.approx(2 * 2000),
        KERNEL_COPY: pytest.approx(2 * 2000),
        READ: pytest.approx(2000),
        WRITE: pytest.approx(2000),
        TRIAD: pytest.approx(3 * 2000),
    }


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda o: KERNEL_OF[o])
def test_one_wrong_bit_is_found(gpu: Gpu, operation: MemoryOperation) -> None:
    assert gpu.arrays.is_right(operation, SIZE)
    assert gpu.arrays.is_right(operation, SIZE // 2), "of a part of the arrays"
    gpu.close()
    gpu.becomes(f"spoil={KERNEL_OF[operation]}@0")
    assert not gpu.arrays.is_right(operation, SIZE)
    for other in OPERATIONS:
        assert gpu.arrays.is_right(other, SIZE) is (other is not operation)


def test_the_l2_is_read_many_times_by_one_launch(gpu: Gpu) -> None:
    small = l2_size(gpu.runtime, 0)
    assert small == SIZE // 4
    assert measure(gpu.arrays, L2_READ, small, 4, 3, 0.0).median == pytest.approx(2000), (
        "every pass counts"
    )
    assert gpu.arrays.is_right(L2_READ, small)
    gpu.close()
    gpu.becomes("spoil=gputop_read@0", "l2_bytes=0")
    assert not gpu.arrays.is_right(L2_READ, small)
    assert l2_size(gpu.runtime, 0) is None, "the driver does not tell it"


def test_a_sum_is_right_where_a_hold_gave_up(gpu: Gpu) -> None:
    gpu.close()
    gpu.becomes("late_holds=100")
    assert gpu.arrays.is_right(READ, SIZE)


@pytest.mark.parametrize(
    "words", ["cuMemAlloc_v2=2@5", "cuMemAlloc_v2=2@2", "cuStreamCreate=2", "cuLaunchKernel=1"]
)
def test_arrays_that_cannot_be_made_leave_nothing(driver: MadeUpDriver, words: str) -> None:
    driver.becomes("devices=1", words)
    runtime = Cuda(driver.handle)
    runtime.open([0])
    kernels = Kernels(runtime)
    with pytest.raises(EngineError):
        GpuArrays(runtime, kernels, 0, SIZE)
    kernels.close()
    assert driver.holds() == NOTHING


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda o: KERNEL_OF[o])
def test_the_self_test_finds_a_wrong_byte(
    operation: MemoryOperation, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = CpuArrays(SIZE)
    assert arrays.is_right(operation, SIZE)
    run = CpuArrays._run

    def shorter(self: CpuArrays, operation: MemoryOperation, size: int) -> None:
        run(self, operation, size - 16)

    monkeypatch.setattr(CpuArrays, "_run", shorter)
    assert not arrays.is_right(operation, SIZE)
    assert arrays.seconds(operation, SIZE, 2) > 0
    arrays.close()


def test_arrays_of_the_self_test_hold_unlike_data() -> None:
    arrays = CpuArrays(SIZE)
    one, other, _ = (ctypes.string_at(memory.address, SIZE) for memory in arrays._all)
    assert one != other
