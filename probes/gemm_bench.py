"""One device that multiplies: a case's numbers checked, its calls timed, its sensors watched."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Optional

from .bench import WARMUP_MS, CallTimes, flush_buffer, median_ms
from .gemm_cases import Case
from .gemm_work import Multiplier, Unsupported, judged
from .protocol import DeviceRecord
from .sensors import Sensors


@dataclasses.dataclass
class Result:
    """What one device had to say about one case."""

    times: Optional[CallTimes] = None
    verdict: Optional[str] = None
    why: Optional[str] = None
    error: Optional[float] = None
    library: Optional[str] = None
    unsupported: bool = False
    seen: "dict[str, Any]" = dataclasses.field(default_factory=dict)


class GemmBench:
    """One device with its thread: cuBLAS keeps handles and workspaces for each thread."""

    def __init__(
        self, torch: Any, kind: str, record: DeviceRecord, sensors: Sensors, rep_ms: float
    ) -> None:
        self.record = record
        self.thread = ThreadPoolExecutor(max_workers=1)
        self.planned: tuple[Case, ...] = ()
        self.room_bytes: Optional[int] = None
        self._torch = torch
        self._sensors = sensors
        self._device = "cpu" if kind == "cpu" else f"cuda:{record.torch_index}"
        self._rep_ms = rep_ms
        self._warmup_ms = WARMUP_MS if kind != "cpu" else 1.0
        self._multiplier = Multiplier(torch, self._device, record.torch_index)
        self._flush = flush_buffer(torch, self._device)

    def measure(self, case: Case) -> Result:
        """Time the calls; `check` looks at the numbers later."""
        result = Result(library=self._multiplier.library(case))
        try:
            work = self._multiplier.prepare(case)
            with self._sensors.watching(self.record.pci_address) as watched:
                result.times = median_ms(
                    self._torch, work, warmup_ms=self._warmup_ms, rep_ms=self._rep_ms,
                    flush=self._flush, device=self._device,
                )  # fmt: skip
            result.seen = watched.summary()
        except Unsupported as answer:
            result.why, result.unsupported = str(answer), True
        except RuntimeError as error:
            self._lacks_memory(error, result)
        finally:
            self._multiplier.release()
        return result

    def check(self, case: Case, timed: Result) -> Result:
        """The same with what the numbers of one call say of it: no figure where they are no such.

        For lack of memory it stays unchecked.
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

    def make_room(self, case: Case) -> None:
        """Give memory of earlier cases back where it would be too much together with this one's.

        Not after every case: what ran just before moves a power-limited clock, and so does a pause.
        """
        if self.room_bytes is not None:
            kept = self._torch.cuda.memory_reserved(self._device)
            if kept + case.memory_bytes > self.room_bytes:
                self._torch.cuda.empty_cache()

    def _lacks_memory(self, error: RuntimeError, result: Result) -> None:
        """Say so where another process took the memory; any other error goes on."""
        if not self._multiplier.is_out_of_memory(error):
            raise error
        result.why = "the GPU ran out of memory: another process took it meanwhile"
        self._torch.cuda.empty_cache()

    def close(self) -> None:
        """Let go of memory and thread."""
        self._multiplier.release()
        self._flush = None
        clear = getattr(self._torch._C, "_cuda_clearCublasWorkspaces", None)
        if self._device != "cpu" and clear is not None:
            clear()  # about 32 MiB for each thread that multiplied on a Hopper
        self.thread.shutdown(wait=True)
