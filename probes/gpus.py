"""GPUs through torch, CUDA and HIP alike (HIP answers under torch.cuda too).

The storing kernel. ATen's device-to-device `copy_` (aten/src/ATen/native/cuda/Copy.cu,
copy_device_to_device) calls memcpy only if both sides have one type and are contiguous after their
dimensions are coalesced; otherwise, if the driver grants peer access, it launches an elementwise
kernel *on the source device* that writes through the peer mapping. So a destination with two
dimensions swapped makes A's own kernel store into B's memory. Without peer access ATen stages
through temporaries instead: `store` must not be called for such a pair.
"""

import contextlib
import importlib
import os
from collections.abc import Sequence
from typing import Any, Optional

from .devices import StoreCheck, Versions, normal_pci
from .driver import Driver, kernel_driver_version
from .protocol import DeviceRecord

_HOLD_SECONDS = 0.0015
_HOLD_TRIES = 4
_ROW_BYTES = 256
_OVERRULED = (
    "CUDA_LAUNCH_BLOCKING", "AMD_SERIALIZE_COPY", "AMD_SERIALIZE_KERNEL", "HIP_LAUNCH_BLOCKING",
    "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
)  # fmt: skip
"""With these a stream cannot be held, or buffers are not plain device memory."""


def drop_overruled_variables() -> list[str]:
    """Take out of this process's environment what would falsify a figure; call before torch."""
    return [name for name in _OVERRULED if os.environ.pop(name, None) is not None]


class Gpus:
    """The GPUs of one torch."""

    kind = "gpu"
    grantor = "driver"
    store_engine = "kernel store"

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._is_hip = getattr(torch.version, "hip", None) is not None
        self._driver = Driver(self._is_hip)
        self._copy_call = self._driver.copy_call()
        self.copy_engine = "copy engine" if self._copy_call else "copy engine, by torch copy_"
        self._streams: dict[int, Any] = {}
        self._out: dict[int, Any] = {}
        self._into: dict[int, Any] = {}
        self._hold_cycles: dict[int, int] = {}

    def versions(self) -> Versions:
        """Software versions."""
        torch = self._torch
        nccl: Optional[str] = None
        with contextlib.suppress(ImportError, AttributeError, RuntimeError, TypeError):
            found = importlib.import_module("torch.cuda.nccl").version()
            nccl = ".".join(str(part) for part in found) if isinstance(found, tuple) else str(found)
        return Versions(
            torch=str(torch.__version__),
            cuda=getattr(torch.version, "cuda", None),
            hip=getattr(torch.version, "hip", None),
            driver=kernel_driver_version(self._is_hip),
            nccl=nccl,
        )

    def devices(self) -> tuple[DeviceRecord, ...]:
        """Every device torch sees."""
        return tuple(self._record(index) for index in range(self._torch.cuda.device_count()))

    def _record(self, index: int) -> DeviceRecord:
        properties = self._torch.cuda.get_device_properties(index)
        address = self._driver.pci_address(index)
        if address is None and hasattr(properties, "pci_bus_id"):
            domain = int(getattr(properties, "pci_domain_id", 0))
            bus, device = int(properties.pci_bus_id), int(properties.pci_device_id)
            address = f"{domain:04x}:{bus:02x}:{device:02x}.0"
        address = normal_pci(address) if address else None
        uuid = self._driver.uuid(index) or str(getattr(properties, "uuid", "")) or None
        is_part = " MIG " in properties.name
        if uuid and not self._is_hip and "-" not in uuid[:4]:
            uuid = ("MIG-" if is_part else "GPU-") + uuid
        return DeviceRecord(
            # Two partitions of one GPU share its address.
            key=(uuid if is_part else address) or uuid or f"torch:{index}",
            torch_index=index,
            name=str(properties.name),
            pci_address=address,
            uuid=uuid,
            memory_bytes=int(properties.total_memory),
        )

    def free_bytes(self, index: int) -> int:
        """Free memory of one device; creates its context."""
        return int(self._torch.cuda.mem_get_info(index)[0])

    def allocate(self, indices: Sequence[int], buffer_bytes: int) -> None:
        """Buffers, a stream and a calibrated hold for each device."""
        torch = self._torch
        for index in indices:
            with torch.cuda.device(index):
                self._streams[index] = torch.cuda.Stream(device=index)
                words = buffer_bytes // 8
                out = torch.empty(words, dtype=torch.int64, device=f"cuda:{index}").random_()
                self._out[index] = out.view(torch.uint8)
                self._into[index] = torch.zeros_like(self._out[index])
                torch.cuda.synchronize(index)
                self._hold_cycles[index] = self._cycles_for_hold(index)

    def _cycles_for_hold(self, index: int) -> int:
        """Argument of torch.cuda._sleep that holds a stream for _HOLD_SECONDS."""
        torch, cycles = self._torch, 200_000
        torch.cuda._sleep(1000)
        start, end = self._event(), self._event()
        start.record()
        torch.cuda._sleep(cycles)
        end.record()
        torch.cuda.synchronize(index)
        return int(cycles * _HOLD_SECONDS * 1000 / max(start.elapsed_time(end), 0.001))

    def _event(self) -> Any:
        return self._torch.cuda.Event(enable_timing=True)

    def can_access(self, src: int, dst: int) -> bool:
        """Whether the driver grants it."""
        return bool(self._torch.cuda.can_device_access_peer(src, dst))

    def store(self, src: int, dst: int, size_bytes: int) -> StoreCheck:
        """Rung 3: a kernel of `src` stores, `dst` reads its own memory and compares every byte.

        What `dst` compares with comes to it from the host, and its buffer holds the complement
        before, so that no byte is right by chance or left over.
        """
        torch = self._torch
        rows = size_bytes // _ROW_BYTES // 2
        shape = (2, rows, _ROW_BYTES // 4)
        host = torch.frombuffer(bytearray(os.urandom(rows * 2 * _ROW_BYTES)), dtype=torch.int32)
        expected = host.to(f"cuda:{dst}")
        target = ~expected
        source = host.view(shape).transpose(0, 1).contiguous().to(f"cuda:{src}")
        torch.cuda.synchronize(dst)
        torch.cuda.synchronize(src)
        target.view(shape).transpose(0, 1).copy_(source, non_blocking=True)
        torch.cuda.synchronize(src)
        torch.cuda.synchronize(dst)
        differs = target.view(torch.uint8) != expected.view(torch.uint8)
        wrong = int(differs.sum().item())
        first = int(differs.to(torch.uint8).argmax().item()) if wrong else None
        return StoreCheck(int(differs.numel()), wrong, first)

    def _queue(self, src: int, dst: int, size_bytes: int, copies: int) -> None:
        """Queue copies on the source's stream; the source is the current device."""
        stream = self._streams[src]
        if self._copy_call is not None:
            to, source = self._into[dst].data_ptr(), self._out[src].data_ptr()
            for _ in range(copies):
                self._copy_call(to, source, size_bytes, stream.cuda_stream)
            return
        with self._torch.cuda.stream(self._streams[dst]), self._torch.cuda.stream(stream):
            to_tensor, from_tensor = self._into[dst][:size_bytes], self._out[src][:size_bytes]
            for _ in range(copies):
                to_tensor.copy_(from_tensor, non_blocking=True)

    def one_way_seconds(self, src: int, dst: int, size_bytes: int, copies: int) -> float:
        """Events round the copies, all queued while a spin kernel holds the stream."""
        torch, stream = self._torch, self._streams[src]
        for _ in range(_HOLD_TRIES):
            with torch.cuda.stream(stream):
                start, end = self._event(), self._event()
                torch.cuda._sleep(self._hold_cycles[src])
                start.record(stream)
                self._queue(src, dst, size_bytes, copies)
                end.record(stream)
                held = not start.query()
            end.synchronize()
            if held:
                break
            self._hold_cycles[src] *= 2
        return float(start.elapsed_time(end)) / 1000

    def both_ways_seconds(
        self, src: int, dst: int, size_bytes: int, copies: int
    ) -> tuple[float, float, float]:
        """As above; the other stream waits for this one's start, this one for the other's end."""
        torch, stream, back = self._torch, self._streams[src], self._streams[dst]
        for _ in range(_HOLD_TRIES):
            with torch.cuda.stream(stream):
                start, end, both = self._event(), self._event(), self._event()
                torch.cuda._sleep(self._hold_cycles[src])
                start.record(stream)
            with torch.cuda.stream(back):
                back_start, back_end = self._event(), self._event()
                back.wait_event(start)
                back_start.record(back)
                self._queue(dst, src, size_bytes, copies)
                back_end.record(back)
            with torch.cuda.stream(stream):
                self._queue(src, dst, size_bytes, copies)
                end.record(stream)
                stream.wait_event(back_end)
                both.record(stream)
                held = not start.query()
            both.synchronize()
            if held:
                break
            self._hold_cycles[src] *= 2
        times = start.elapsed_time(end), back_start.elapsed_time(back_end), start.elapsed_time(both)
        return times[0] / 1000, times[1] / 1000, times[2] / 1000

    def copied_right(self, src: int, dst: int, size_bytes: int) -> bool:
        """Sums of 64-bit words, each taken by the GPU that holds them."""
        torch = self._torch
        words = size_bytes // 8 * 8
        sent = self._out[src][:words].view(torch.int64).sum().item()
        came = self._into[dst][:words].view(torch.int64).sum().item()
        return bool(sent == came)

    def trace_store(self, src: int, dst: int, size_bytes: int) -> list[dict[str, Any]]:
        """GPU activities of one `store`, as the profiler's trace has them."""
        profiling = importlib.import_module(__package__ + ".profiling")
        kernels: list[dict[str, Any]] = profiling.gpu_activities(
            self._torch, lambda: self.store(src, dst, size_bytes)
        )
        return kernels
