"""The device of a rank through the driver alone, beside NCCL or RCCL without torch."""

import ctypes
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ..devices.gpus import Gpus
from ..engine.kernels import Kernels
from ..engine.memory import Memory
from ..protocol.spec import ProbeStopped
from ..protocol.status import DeviceKind, Status
from .accelerator import Call

_NUMBER_BYTES = 4
_CYCLES_PER_SECOND = 2_000_000_000
"""About the clock of a GPU: a hold at a lower clock may take longer than allowed."""


@dataclass(frozen=True)
class Numbers:
    """Numbers of float32 in the memory of a device."""

    address: int
    count: int

    def numel(self) -> int:
        """How many there are."""
        return self.count

    def __getitem__(self, part: slice) -> "Numbers":
        start, stop, _ = part.indices(self.count)
        return Numbers(self.address + _NUMBER_BYTES * start, stop - start)

    @property
    def memory(self) -> Memory:
        """Their bytes."""
        return Memory(self.address, _NUMBER_BYTES * self.count)


class DriverAccelerator:
    """One opened GPU of the driver; all work is queued on one stream."""

    kind = DeviceKind.GPU

    def __init__(self, gpus: Gpus, index: int) -> None:
        """ProbeStopped where our kernels, which check data and hold the GPU, do not run."""
        if gpus.kernels is None:
            text = f"Without torch nothing can check the data: {gpus.no_kernels}."
            raise ProbeStopped(Status.NO_TORCH, text)
        self._kernels: Kernels = gpus.kernels
        self._runtime = gpus.runtime
        self._index = index
        self.stream = self._runtime.stream(index)
        self._late = self._runtime.allocate_host(index, 4)
        self._never = self._runtime.allocate(index, 4)
        self._runtime.clear(index, self._never)

    @property
    def library(self) -> str:
        """See Accelerator."""
        return "RCCL" if self._runtime.is_hip else "NCCL"

    def wait(self) -> None:
        """See Accelerator."""
        self._runtime.synchronize(self._index)

    def numbers(self, count: int) -> Numbers:
        """See Accelerator."""
        size_bytes = max(1, _NUMBER_BYTES * count)
        made = Numbers(self._runtime.allocate(self._index, size_bytes).address, count)
        self.clear(made)
        return made

    def clear(self, numbers: Numbers) -> None:
        """See Accelerator."""
        self.wait()
        if numbers.count:
            self._runtime.clear(self._index, numbers.memory)

    def copy(self, to: Numbers, source: Numbers) -> None:
        """See Accelerator."""
        self._runtime.copy(to.address, source.address, _NUMBER_BYTES * to.count, self.stream)

    def fill(self, numbers: Numbers, seed: int) -> None:
        """See Accelerator."""
        self.wait()  # the kernel is on another stream
        self._kernels.pattern(self._index, numbers.memory, seed)

    def wrong_bytes(self, numbers: Numbers, seeds: Sequence[int], start: int = 0) -> int:
        """See Accelerator."""
        self.wait()
        asked = numbers.memory, start, seeds[0], len(seeds)
        return _NUMBER_BYTES * self._kernels.unlike_pattern(self._index, *asked).words

    def seconds(self, work: Call, times: int) -> float:
        """See Accelerator."""
        return self.in_a_row([work] * times)[0]

    def in_a_row(self, calls: Sequence[Call]) -> "tuple[float, float]":
        """See Accelerator."""
        before = self._runtime.event(self.stream)
        start = time.perf_counter()
        for call in calls:
            call()
        queued = time.perf_counter() - start
        return self._between(before, len(calls)), queued / len(calls)

    def held(self, lead: Call, calls: Sequence[Call], seconds: float) -> Optional[float]:
        """See Accelerator; it always takes `seconds`.

        A hold that waits for a word of the host costs every small call 0.1 to 0.3 us on two H200,
        and one that the host ends late several us; one that ends by its own clock costs nothing.
        """
        late = ctypes.c_uint.from_address(self._late.address)
        late.value = 0
        cycles = int(seconds * _CYCLES_PER_SECOND)
        ends = self._never.address, cycles, self._late.address
        self._kernels.hold(self._index, *ends, self.stream)
        lead()
        before = self._runtime.event(self.stream)
        for call in calls:
            call()
        was_late = late.value != 0
        taken = self._between(before, len(calls))
        return None if was_late else taken

    def _between(self, before: Any, calls: int) -> float:
        """Seconds of one call since an event, until all that is queued now is done."""
        runtime = self._runtime
        after = runtime.event(self.stream)
        runtime.await_event(after)
        seconds = runtime.seconds(before, after)
        for event in (before, after):
            runtime.drop_event(event)
        return seconds / calls
