"""The device of a rank: memory, timing, and the communication library."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Optional

_PIECE = 1 << 23
"""Numbers per piece of a pattern; temporaries take a few hundred MiB at most."""
_TRY_CYCLES = 2_000_000


class Accelerator:
    """One GPU of this process, through NCCL or RCCL; for the self-test the host, through gloo."""

    def __init__(self, torch: Any, index: int, *, cpu: bool) -> None:
        self._torch = torch
        self._cpu = cpu
        self.device = "cpu" if cpu else f"cuda:{index}"
        self.backend = "gloo" if cpu else "nccl"
        """torch's name of the library; "nccl" is RCCL in a ROCm build."""
        self._cycles_per_second = 0.0
        if cpu:
            torch.set_num_threads(1)  # the ranks share the cores of the host
        else:
            torch.cuda.set_device(index)

    @property
    def library(self) -> str:
        """The name of the library in messages."""
        if self._cpu:
            return "gloo"
        return "RCCL" if getattr(self._torch.version, "hip", None) else "NCCL"

    def torch_device(self) -> Any:
        """The device as torch's object."""
        return self._torch.device(self.device)

    def wait(self) -> None:
        """Wait until all queued work is done."""
        if not self._cpu:
            self._torch.cuda.synchronize()

    def empty(self, count: int) -> Any:
        """So many float32 numbers."""
        return self._torch.empty(count, dtype=self._torch.float32, device=self.device)

    def seconds(self, work: Callable[[], object], times: int) -> float:
        """Seconds of one `work` in a row of calls, by device events; on a CPU by its clock."""
        return self.in_a_row([work] * times)[0]

    def in_a_row(self, calls: Sequence[Callable[[], object]]) -> "tuple[float, float]":
        """Seconds of one call in a row, and seconds of queueing one call."""
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

    def held(
        self, lead: Callable[[], object], calls: Sequence[Callable[[], object]], seconds: float
    ) -> Optional[float]:
        """Seconds of one call when all calls are queued while the GPU is held.

        `lead` runs first, untimed. None if the hold ended before all were queued, and on a CPU.
        """
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

    def pattern(self, size_bytes: int, seed: int, start: int = 0) -> Any:
        """Integers below 65536 as float32; sums of up to 256 of them are exact in any order."""
        torch = self._torch
        end = start + size_bytes // 4
        places = torch.arange(start, end, dtype=torch.int64, device=self.device)
        return ((places * 2654435761 + seed * 40503) >> 7).bitwise_and_(0xFFFF).to(torch.float32)

    def fill(self, tensor: Any, seed: int) -> None:
        """Write a pattern, piece by piece."""
        for at in range(0, tensor.numel(), _PIECE):
            piece = tensor[at : at + _PIECE]
            piece.copy_(self.pattern(4 * piece.numel(), seed, at))

    def wrong_bytes_of(self, came: Any, seeds: Sequence[int], start: int) -> int:
        """Bytes of the numbers that differ from the sum of these patterns from `start` on."""
        wrong = self._torch.zeros((), dtype=self._torch.int64, device=self.device)
        for at in range(0, came.numel(), _PIECE):
            piece = came[at : at + _PIECE]
            expected = self.pattern(4 * piece.numel(), seeds[0], start + at)
            for seed in seeds[1:]:
                expected += self.pattern(4 * piece.numel(), seed, start + at)
            wrong += (piece != expected).sum()
        return 4 * int(wrong.item())

    def wrong_bytes(self, came: Any, expected: Any) -> int:
        """Bytes of the numbers that differ."""
        return 4 * int((came != expected).sum().item())
