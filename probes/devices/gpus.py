"""GPUs through torch.cuda, which serves CUDA and HIP.

The storing kernel: ATen's device-to-device `copy_` (aten/src/ATen/native/cuda/Copy.cu,
copy_device_to_device) calls memcpy only if both sides have one type and are contiguous after their
dimensions are coalesced; otherwise, if the driver grants peer access, it launches an elementwise
kernel *on the source device* that writes through the peer mapping. So a destination with two
dimensions swapped makes A's own kernel store into B's memory. Without peer access ATen stages
through temporaries instead: `store` must not be called for such a pair.
"""

import contextlib
import dataclasses
import importlib
import os
from collections.abc import Sequence
from typing import Any, Optional

from ..protocol.messages import DeviceRecord
from .devices import Flow, FlowTimes, StoreCheck, Versions, normal_pci
from .driver import Driver, kernel_driver_version
from .gpu_copies import Copies
from .kernels import Kernels

_ROW_BYTES = 256
_RING_BYTES = 2 << 20
"""Bytes that a pointer chase walks through, as in nvbandwidth."""
_RING_STEP_BYTES = 128
_OVERRULED = (
    "CUDA_LAUNCH_BLOCKING", "AMD_SERIALIZE_COPY", "AMD_SERIALIZE_KERNEL", "HIP_LAUNCH_BLOCKING",
    "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
)  # fmt: skip
"""Variables that prevent held streams or plain device memory."""
_left_out: "list[str]" = []


def drop_overruled_variables() -> list[str]:
    """Remove variables that would falsify figures from this process; call it before torch.

    Returns all names removed so far, since a worker runs several probes.
    """
    _left_out.extend(name for name in _OVERRULED if os.environ.pop(name, None) is not None)
    return list(dict.fromkeys(_left_out))


class Gpus:
    """The GPUs of one torch."""

    kind = "gpu"
    grantor = "driver"
    store_engine = "kernel store"

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._is_hip = getattr(torch.version, "hip", None) is not None
        self._driver = Driver(self._is_hip)
        copy_call = self._driver.copy_call()
        self.copy_engine = "copy engine" if copy_call else "copy engine, by torch copy_"
        self._copies = Copies(torch, copy_call)
        self._out: dict[int, Any] = {}
        self._into: dict[int, Any] = {}
        self._rings: dict[int, Any] = {}
        self._kernels: Optional[Kernels] = None
        self.no_kernels: Optional[str] = "they were not asked for"

    @property
    def kernel_engine(self) -> str:
        """The kernel of copies: our own, or ATen's."""
        return "kernel" if self._kernels is not None else "kernel, by torch copy_"

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
        """Every device that torch sees."""
        found = [self._record(index) for index in range(self._torch.cuda.device_count())]
        keys = [record.key for record in found]
        # Partitions of one AMD GPU may share an address, and its UUID too.
        return tuple(
            record
            if keys.count(record.key) == 1
            else dataclasses.replace(record, key=f"{record.key}/{record.torch_index}")
            for record in found
        )

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

    def open(self, indices: Sequence[int]) -> None:
        """Create the contexts of these devices."""
        self._torch.cuda.init()
        self._driver.open_contexts(indices)

    def free_bytes(self, index: int) -> int:
        """Free memory of one device; creates its context."""
        return int(self._torch.cuda.mem_get_info(index)[0])

    def allocate(self, indices: Sequence[int], buffer_bytes: int) -> None:
        """Buffers of whole 64-bit words; data that differs from device to device."""
        torch = self._torch
        for index in indices:
            with torch.cuda.device(index):
                words = torch.empty(buffer_bytes // 8, dtype=torch.int64, device=f"cuda:{index}")
                # Without seeds all devices would generate the same data.
                generator = torch.Generator(device=f"cuda:{index}")
                generator.manual_seed(int.from_bytes(os.urandom(7), "little"))
                self._out[index] = words.random_(generator=generator).view(torch.uint8)
                self._into[index] = torch.zeros_like(self._out[index])
        for index in indices:
            torch.cuda.synchronize(index)

    def release(self) -> None:
        """Drop buffers, streams and kernels, and empty torch's cache."""
        torch = self._torch
        used = list(self._out)
        with contextlib.suppress(RuntimeError):  # after a fault every call fails
            for index in used:
                torch.cuda.synchronize(index)
            if self._kernels is not None:
                self._kernels.close()
        self._kernels = None
        for kept in (self._out, self._into, self._rings):
            kept.clear()
        self._copies.drop()
        if used:
            with contextlib.suppress(RuntimeError, AttributeError):
                torch.cuda.empty_cache()
                torch._C._host_emptyCache()  # torch 2.1 lacks the call

    def can_access(self, src: int, dst: int) -> bool:
        """Whether the driver grants it."""
        return bool(self._torch.cuda.can_device_access_peer(src, dst))

    def store(self, src: int, dst: int, size_bytes: int) -> StoreCheck:
        """Rung 3: a kernel of `src` stores, `dst` reads its own memory and compares every byte.

        `dst` gets the expected bytes from the host, and before the store its buffer holds their
        complement, so that no byte is right by chance or from before.
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

    def flow_seconds(self, flows: Sequence[Flow], size_bytes: int, copies: int) -> FlowTimes:
        """Time copies of the copy engine, with a held stream for each flow."""
        ends = {flow: flow.ends(self._into, self._out, size_bytes) for flow in flows}

        def queue(flow: Flow, stream: Any) -> None:
            other = self._copies.stream(flow.src if flow.reads else flow.dst)
            self._copies.queue_copy(*ends[flow], stream, other)

        return self._copies.timed(flows, queue, copies)

    def open_kernels(self, indices: Sequence[int]) -> None:
        """Compile our kernels for these devices."""
        if self._kernels is None:
            found = Kernels.open_or_why(self._torch, indices)
            self._kernels = found if isinstance(found, Kernels) else None
            self.no_kernels = found if isinstance(found, str) else None

    def kernel_seconds(self, flow: Flow, size_bytes: int, copies: int) -> Optional[float]:
        """Time copies by a kernel; without our own, ATen's can write and none can read."""
        kernels = self._kernels
        if kernels is None and flow.reads:
            return None

        def queue(flow: Flow, stream: Any) -> None:
            to, source = flow.ends(self._into, self._out, size_bytes)
            if kernels is not None:
                ends = to.data_ptr(), source.data_ptr()
                kernels.copy(flow.doer, *ends, size_bytes, stream, passes=copies)
                return
            rows = size_bytes // _ROW_BYTES // 2
            into = to.view(self._torch.int32).view(2, rows, -1).transpose(0, 1)
            words = source.view(self._torch.int32).view(rows, 2, -1)
            current = self._torch.cuda.stream
            with current(self._copies.stream(flow.dst)), current(stream):
                for _ in range(copies):
                    into.copy_(words, non_blocking=True)

        return self._copies.timed([flow], queue, 1).together

    def staged_seconds(self, src: int, dst: int, size_bytes: int) -> float:
        """Time a copy through pinned host memory."""
        ends = self._into[dst], self._out[src]
        return self._copies.staged_seconds(src, dst, *ends, size_bytes)

    def chase_seconds(self, src: int, dst: int, hops: int) -> Optional[float]:
        """Time one thread of `src` in a ring of 128-byte steps in memory of `dst`."""
        torch, kernels = self._torch, self._kernels
        if kernels is None:
            return None
        if dst not in self._rings:
            step = _RING_STEP_BYTES // 8
            count = _RING_BYTES // _RING_STEP_BYTES
            ring = torch.zeros((count, step), dtype=torch.int64, device=f"cuda:{dst}")
            ring[:, 0] = (torch.arange(1, count + 1, device=f"cuda:{dst}") % count) * step
            torch.cuda.synchronize(dst)
            self._rings[dst] = ring
        end = torch.zeros(1, dtype=torch.int64, device=f"cuda:{src}")
        torch.cuda.synchronize(src)

        def queue(flow: Flow, stream: Any) -> None:
            kernels.chase(src, self._rings[dst].data_ptr(), hops, end.data_ptr(), stream)

        seconds = self._copies.timed([Flow(src, dst)], queue, 1).together
        reached, count = int(end.item()), _RING_BYTES // _RING_STEP_BYTES
        if reached != hops % count * (_RING_STEP_BYTES // 8):
            raise RuntimeError(f"a pointer chase through {hops} places ended at word {reached}")
        return seconds

    def clear(self, index: int) -> None:
        """Fill with zeros."""
        self._into[index].zero_()
        self._torch.cuda.synchronize(index)

    def copied_right(self, src: int, dst: int, size_bytes: int) -> bool:
        """Compare sums of 64-bit words, each computed by the GPU that holds them."""
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
