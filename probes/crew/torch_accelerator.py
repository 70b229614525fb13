"""The device of a rank through torch: a GPU, or the host in the self-test."""

import time
from collections.abc import Sequence
from typing import Any, Optional

from ..protocol.status import DeviceKind
from .accelerator import Call

_PIECE = 1 << 23
"""Numbers per piece of a pattern; temporaries take a few hundred MiB at most."""
_TRY_CYCLES = 2_000_000


class TorchAccelerator:
    """One GPU of this process, through NCCL or RCCL; for the self-test the host, through gloo."""

    def __init__(self, torch: Any, index: int, *, cpu: bool) -> None:
        self._torch = torch
        self._cpu = cpu
        self.kind = DeviceKind.CPU if cpu else DeviceKind.GPU
        self.device = "cpu" if cpu else f"cuda:{index}"
        """torch's name of the device."""
        self.backend = "gloo" if cpu else "nccl"
        """torch's name of the library; "nccl" is RCCL in a ROCm build."""
        self._cycles_per_second = 0.0
        if cpu:
            torch.set_num_threads(1)  # the ranks share the cores of the host
        else:
            torch.cuda.set_device(index)

    @property
    def library(self) -> str:
        """See Accelerator."""
        if self._cpu:
            return "gloo"
        return "RCCL" if getattr(self._torch.version, "hip", None) else "NCCL"

    def torch_device(self) -> Any:
        """The device as torch's object."""
        return self._torch.device(self.device)

    def wait(self) -> None:
        """See Accelerator."""
        if not self._cpu:
            self._torch.cuda.synchronize()

    def numbers(self, count: int) -> Any:
        """See Accelerator."""
        return self._torch.empty(count, dtype=self._torch.float32, device=self.device).zero_()

    def clear(self, numbers: Any) -> None:
        """See Accelerator."""
        numbers.zero_()

    def copy(self, to: Any, source: Any) -> None:
        """See Accelerator."""
        to.copy_(source)

    def seconds(self, work: Call, times: int) -> float:
        """See Accelerator."""
        return self.in_a_row([work] * times)[0]

    def in_a_row(self, calls: Sequence[Call]) -> "tuple[float, float]":
        """See Accelerator."""
        if self._cpu:
            start = time.perf_counter()
            for call in calls:
                call()
            taken = (time.perf_counter() - start) / len(calls)
            return taken, taken
        before, after = self._events()
        before.record()
        start = time.perf_counter()
        for call in calls:
            call()
        queued = time.perf_counter() - start
        after.record()
        after.synchronize()
        return float(before.elapsed_time(after)) / 1000 / len(calls), queued / len(calls)

    def held(self, lead: Call, calls: Sequence[Call], seconds: float) -> Optional[float]:
        """See Accelerator; it always takes `seconds`."""
        if self._cpu:
            return None
        before, after = self._events()
        self._torch.cuda._sleep(int(seconds * self._speed()))
        lead()
        before.record()
        for call in calls:
            call()
        after.record()
        was_held = not before.query()
        after.synchronize()
        return float(before.elapsed_time(after)) / 1000 / len(calls) if was_held else None

    def _events(self) -> "tuple[Any, Any]":
        cuda = self._torch.cuda
        return cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)

    def _speed(self) -> float:
        """Measure the cycles per second of the kernel that holds the GPU."""
        if not self._cycles_per_second:
            sleep = self._torch.cuda._sleep
            sleep(_TRY_CYCLES)  # the first call loads the kernel
            taken = self.seconds(lambda: sleep(_TRY_CYCLES), 1)
            self._cycles_per_second = _TRY_CYCLES / taken
        return self._cycles_per_second

    def fill(self, numbers: Any, seed: int) -> None:
        """See Accelerator; piece by piece."""
        for at in range(0, numbers.numel(), _PIECE):
            piece = numbers[at : at + _PIECE]
            piece.copy_(self._pattern(piece.numel(), seed, at))

    def wrong_bytes(self, numbers: Any, seeds: Sequence[int], start: int = 0) -> int:
        """See Accelerator."""
        wrong = self._torch.zeros((), dtype=self._torch.int64, device=self.device)
        for at in range(0, numbers.numel(), _PIECE):
            piece = numbers[at : at + _PIECE]
            expected = self._pattern(piece.numel(), seeds[0], start + at)
            for seed in seeds[1:]:
                expected += self._pattern(piece.numel(), seed, start + at)
            wrong += (piece != expected).sum()
        return 4 * int(wrong.item())

    def _pattern(self, count: int, seed: int, start: int) -> Any:
        """The same numbers as gputop_pattern_at in engine/kernels.cu."""
        torch = self._torch
        places = torch.arange(start, start + count, dtype=torch.int64, device=self.device)
        return ((places * 2654435761 + seed * 40503) >> 7).bitwise_and_(0xFFFF).to(torch.float32)
