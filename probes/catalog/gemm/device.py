"""Times and checks multiplications on one device, or on several side by side."""

import dataclasses
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Optional, Union

from ...devices.sensors import Watch
from ...protocol.messages import DeviceRecord
from ...protocol.status import DeviceKind
from .bench import WARMUP_MS, CallTimes, flush_buffer, median_ms
from .cases import Multiplication
from .work import Multiplier, Unsupported, judged

IN_A_ROW = frozenset({"bf16", "fp8"})
"""Number types without the process-wide TF32 switch, so no device waits for another."""


@dataclasses.dataclass
class GemmResult:
    """The result of one case on one device."""

    times: Optional[CallTimes] = None
    verdict: Optional[str] = None
    why: Optional[str] = None
    error: Optional[float] = None
    library: Optional[str] = None
    unsupported: bool = False
    since: Optional[float] = None
    until: Optional[float] = None
    """When the calls began and ended on the monotonic clock, in seconds."""
    seen: "dict[str, Any]" = dataclasses.field(default_factory=dict)


class GemmBench:
    """One device with its own thread, because cuBLAS keeps workspaces for each thread."""

    def __init__(self, torch: Any, kind: str, record: DeviceRecord, rep_ms: float) -> None:
        self.record = record
        self.thread = ThreadPoolExecutor(max_workers=1)
        self.planned: tuple[Multiplication, ...] = ()
        self.room_bytes: Optional[int] = None
        self.unsupported: set[str] = set()
        """Kinds of cases that failed as unsupported."""
        self.watch = Watch()
        """Sensor readings while cases are timed; empty unless sensors are watched."""
        self._torch = torch
        self._device = "cpu" if kind == DeviceKind.CPU else f"cuda:{record.index}"
        self._rep_ms = rep_ms
        self._warmup_ms = WARMUP_MS if kind != DeviceKind.CPU else 1.0
        self._multiplier = Multiplier(torch, self._device, record.index)
        self._flush = flush_buffer(torch, self._device)

    @property
    def row(self) -> "tuple[Multiplication, ...]":
        """The cases that are timed in a row, in order."""
        return tuple(case for case in self.planned if case.dtype in IN_A_ROW)

    def has(self, case: Multiplication) -> bool:
        """Whether the case is worth a try."""
        return case in self.planned and case.kind not in self.unsupported

    def measure_row(self, report: "Callable[[_Timed], None]", stop: threading.Event) -> None:
        """Time the row without pauses on the device's own thread, until `stop` is set.

        After a pause, a GPU at its power limit clocks higher for a while.
        """
        for case in self.row:
            if stop.is_set():
                return
            if self.has(case):
                self.make_room(case)
                report((self, case, self.measure(case)))

    def measure(self, case: Multiplication) -> GemmResult:
        """Time the calls; `check` looks at the numbers later."""
        result = GemmResult(library=self._multiplier.library(case))
        try:
            work = self._multiplier.prepare(case)
            since = time.monotonic()
            result.times = median_ms(
                self._torch, work, warmup_ms=self._warmup_ms, rep_ms=self._rep_ms,
                flush=self._flush, device=self._device,
            )  # fmt: skip
            result.since, result.until = since, time.monotonic()
        except Unsupported as answer:
            result.why, result.unsupported = str(answer), True
            self.unsupported.add(case.kind)
        except RuntimeError as error:
            self._lacks_memory(error, result)
        finally:
            self._multiplier.release()
        return result

    def check(self, case: Multiplication, timed: GemmResult) -> GemmResult:
        """Check the numbers of one call; wrong numbers take the figure away.

        Without memory for the check the result stays unchecked.
        """
        result = dataclasses.replace(timed)
        try:
            work = self._multiplier.prepare(case)
            result.error = self._multiplier.relative_error(case, work)
            result.verdict, result.why = judged(case.dtype, result.error)
            if result.why:
                result.verdict, result.times, result.unsupported = None, None, True
        except RuntimeError as error:
            self._lacks_memory(error, result)
        finally:
            self._multiplier.release()
        return result

    def make_room(self, case: Multiplication) -> None:
        """Free the memory of earlier cases if this case would not fit beside it.

        It is not freed after every case, because a pause changes the clock of a GPU at its limit.
        """
        if self.room_bytes is not None:
            kept = self._torch.cuda.memory_reserved(self._device)
            if kept + case.memory_bytes > self.room_bytes:
                self._torch.cuda.empty_cache()

    def _lacks_memory(self, error: RuntimeError, result: GemmResult) -> None:
        """Record that another process took the memory; raise any other error again."""
        if not self._multiplier.is_out_of_memory(error):
            raise error
        result.why = "the GPU ran out of memory: another process took it meanwhile"
        self._torch.cuda.empty_cache()

    def close(self) -> None:
        """Free the memory and end the thread."""
        self._multiplier.release()
        self._flush = None
        clear = getattr(self._torch._C, "_cuda_clearCublasWorkspaces", None)
        if self._device != DeviceKind.CPU and clear is not None:
            clear()  # about 32 MiB for each thread that multiplied on a Hopper
        self.thread.shutdown(wait=True)


_Timed = tuple[GemmBench, Multiplication, GemmResult]


def measure_rows(
    benches: "Sequence[GemmBench]",
    report: "Callable[[GemmBench, Multiplication, GemmResult], None]",
) -> None:
    """Let every device time its row at its own pace; `report` is called in this thread.

    If one device fails, the others stop after their current case, and its error is raised.
    """
    came: queue.SimpleQueue[Union[_Timed, Future[None]]] = queue.SimpleQueue()
    stop = threading.Event()
    failed: Optional[BaseException] = None
    try:
        running = [bench.thread.submit(bench.measure_row, came.put, stop) for bench in benches]
        for future in running:
            future.add_done_callback(came.put)
        while running:
            item = came.get()
            if isinstance(item, tuple):
                report(*item)
                continue
            running.remove(item)
            error = item.exception()
            if error is not None:
                stop.set()
                failed = failed or error
    finally:
        stop.set()
    if failed is not None:
        raise failed
