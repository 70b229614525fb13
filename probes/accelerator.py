"""What a rank needs of its device: memory, a clock, and a library to talk to the others."""

import time
from collections.abc import Callable
from typing import Any


class Accelerator:
    """One GPU of this process, through NCCL or RCCL; for the self-test the host, through gloo."""

    def __init__(self, torch: Any, index: int, *, cpu: bool) -> None:
        self._torch = torch
        self._cpu = cpu
        self.device = "cpu" if cpu else f"cuda:{index}"
        self.backend = "gloo" if cpu else "nccl"
        """torch's name; its nccl is RCCL where torch was built for ROCm."""
        if cpu:
            torch.set_num_threads(1)  # the ranks share the host's cores
        else:
            torch.cuda.set_device(index)

    @property
    def library(self) -> str:
        """The name of the library for people."""
        if self._cpu:
            return "gloo"
        return "RCCL" if getattr(self._torch.version, "hip", None) else "NCCL"

    def torch_device(self) -> Any:
        """The same as torch's object."""
        return self._torch.device(self.device)

    def wait(self) -> None:
        """Until all that was queued is done."""
        if not self._cpu:
            self._torch.cuda.synchronize()

    def seconds(self, work: Callable[[], object], times: int) -> float:
        """Time of one `work`, out of so many in a row: device events, the host's clock on a CPU."""
        if self._cpu:
            start = time.perf_counter()
            for _ in range(times):
                work()
            return (time.perf_counter() - start) / times
        before, after = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        for _ in range(times):
            work()
        after.record()
        after.synchronize()
        return float(before.elapsed_time(after)) / 1000 / times

    def pattern(self, size_bytes: int, seed: int) -> Any:
        """Whole numbers under 65536 as float32: sums of up to 256 are exact in any order."""
        torch = self._torch
        places = torch.arange(size_bytes // 4, dtype=torch.int64, device=self.device)
        return ((places * 2654435761 + seed * 40503) >> 7).bitwise_and_(0xFFFF).to(torch.float32)

    def wrong_bytes(self, came: Any, expected: Any) -> int:
        """Bytes of the numbers that differ."""
        return 4 * int((came != expected).sum().item())
