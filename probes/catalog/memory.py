"""Device memory: copy, read, write and triad, each GPU in its own memory.

The copy follows nvbandwidth's device_local_copy: 512 MiB, 16 copies queued on a held stream. That
test counts a copied byte once; here both the read and the write count, as in STREAM and in
data sheets, and every figure says so. Arrays are far larger than any L2. GPUs share no memory, so
they are measured side by side, each by its own thread.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Optional

from ..devices.devices import Backend
from ..devices.gpus import Gpus
from ..devices.opened import Emit, open_devices
from ..devices.sensors import Sensors
from ..engine.memory_work import (
    DRIVER_COPY,
    KERNEL_COPY,
    L2_READ,
    OPERATIONS,
    QUANTITIES,
    Arrays,
    CpuArrays,
    GpuArrays,
    MemoryOperation,
    l2_size,
    measure,
)
from ..protocol.messages import DeviceRecord, MeasuredValue, Progress, WorkerRequest
from ..protocol.plaintext import one_line
from ..protocol.sizing import GIB, MIB, spare_bytes, too_full
from ..protocol.spec import ProbeSpec, ProbeStopped, level_of
from ..protocol.status import DeviceKind, Status
from ..protocol.timing import Sampled, low_ones

_ARRAYS = 3

SPEC = ProbeSpec(
    name="memory",
    title="Device memory",
    measures=(
        "GB/s of each GPU's own memory: copied by the driver and by a kernel, read, written, and "
        "STREAM's triad, in arrays far larger than any L2, and what the L2 itself gives; each "
        "figure says what it counts."
    ),
    method="memory/2",
    minimum_gpus=1,
    memory_bytes_per_gpu=_ARRAYS * 2 * GIB,
    start_seconds=1.5,
    needs_torch=False,
    seconds_per_gpu=0.05,
    seconds_per_pair=0.0,
    seconds_alone=0.8,
    level_factors={"quick": 0.7, "normal": 1.0, "full": 2.0},
    loads=("memory",),
    quantities=QUANTITIES,
)

_SIZES = {
    "quick": (512 * MIB,),
    "normal": (512 * MIB, 2 * GIB),
    "full": (512 * MIB, 2 * GIB, 8 * GIB),
}
_SMALLER = (256 * MIB, 128 * MIB)
_CPU_SIZES = (MIB,)
_MOST_COPIES, _FEWEST_COPIES, _SAMPLE_BYTES = 16, 4, 16 * GIB
_WARM_SECONDS = 0.25
_Figure = tuple[MemoryOperation, int, Sampled]


def run(request: WorkerRequest, emit: Emit) -> None:
    """Measure every requested device; ProbeStopped where it cannot."""
    level = level_of(request.params)
    samples = request.params.get("samples", 5)
    if type(samples) is not int or not 3 <= samples <= 25:
        raise ProbeStopped(Status.REFUSED, "samples is a number from 3 to 25.")
    backend, devices = open_devices(request, SPEC, emit)
    cpu = backend.kind == DeviceKind.CPU
    if backend.no_kernels:
        text = f"No kernel of ours runs here: {one_line(backend.no_kernels, 200)}."
        raise ProbeStopped(Status.REFUSED, text)
    forced = request.params.get("force") is True
    sizes = [_CPU_SIZES if cpu else fitting_sizes(level, d, forced=forced) for d in devices]
    walk = _Walk(backend, devices, sizes, samples, emit)
    try:
        walk.measure_all()
    finally:
        backend.release()


def fitting_sizes(level: str, device: DeviceRecord, *, forced: bool) -> "tuple[int, ...]":
    """The array sizes of the level that fit three times; ProbeStopped if none does."""
    room = spare_bytes(device, forced=forced)
    fitting = tuple(size for size in _SIZES[level] if _ARRAYS * size <= room)
    fitting = fitting or tuple(size for size in _SMALLER if _ARRAYS * size <= room)[:1]
    if not fitting:
        raise too_full((device,), _ARRAYS * _SMALLER[-1], forced=forced)
    return fitting


class _Walk:
    """Measure all devices side by side, then repeat low or unsteady figures alone."""

    def __init__(
        self,
        backend: Backend,
        devices: "Sequence[DeviceRecord]",
        sizes: "Sequence[tuple[int, ...]]",
        samples: int,
        emit: Emit,
    ) -> None:
        self._backend, self._cpu = backend, backend.kind == DeviceKind.CPU
        self._devices = list(zip(devices, sizes))
        self._samples = samples
        self._emit = emit
        self._sensors = Sensors([device.pci_address for device in devices])
        self._done = 0
        self._l2 = {device.key: self._l2_size(device) for device in devices}
        self._total = sum(len(each) for each in sizes) * len(OPERATIONS)
        self._total += sum(size is not None for size in self._l2.values())
        self._lock = threading.Lock()

    def measure_all(self) -> None:
        """Every operation on every size; the first error of a device ends them all."""
        # Made-up devices share the host's memory, so they run one after the other.
        with ThreadPoolExecutor(1 if self._cpu else len(self._devices)) as threads:
            waiting = [
                threads.submit(self._device, device, sizes) for device, sizes in self._devices
            ]
            results = [each.result() for each in waiting]
        figures = [
            (device, figure)
            for (device, _), found in zip(self._devices, results)
            for figure in found
        ]
        kinds = [
            (f"{device.name} {op.quantity.key} {op.variant} {size}", sampled.median)
            for device, (op, size, sampled) in figures
        ]
        odd = set(low_ones(kinds))
        odd |= {place for place, (_, figure) in enumerate(figures) if figure[2].restless()}
        again: dict[str, list[tuple[MemoryOperation, int]]] = {}
        for place in sorted(odd):
            device, (operation, size, _) = figures[place]
            again.setdefault(device.key, []).append((operation, size))
        for device, sizes in self._devices:
            if device.key in again:
                what = f"{device.key} once more, alone: low or restless at first"
                self._emit(Progress(self._total, self._total, what))
                self._device(device, sizes, again[device.key])
        self._emit(Progress(self._total, self._total, "all memory measured"))

    def _device(
        self,
        device: DeviceRecord,
        sizes: "tuple[int, ...]",
        again: "Optional[list[tuple[MemoryOperation, int]]]" = None,
    ) -> "list[_Figure]":
        """Allocate arrays, measure and free them, in the calling thread."""
        todo = again or [(operation, size) for size in sizes for operation in OPERATIONS]
        if not again and (l2 := self._l2[device.key]) is not None:
            todo.append((L2_READ, l2))
        arrays = self._arrays(device.index, max(sizes))
        found = []
        try:
            warm_seconds = 0.0 if self._cpu else _WARM_SECONDS
            for operation, size in todo:
                with self._lock:
                    done = min(self._done, self._total)
                    self._done += 1
                what = (
                    f"{device.key}: {operation.quantity.key.replace('_', ' ')} {operation.variant}"
                )
                self._emit(Progress(done, self._total, what.strip()))
                copies = max(_FEWEST_COPIES, min(_MOST_COPIES, _SAMPLE_BYTES // size))
                with self._sensors.watching(device.pci_address, 0.005) as watch:
                    sampled = measure(arrays, operation, size, copies, self._samples, warm_seconds)
                warm_seconds = 0.0
                right = arrays.is_right(operation, size)
                engine = arrays.copy_engine if operation is DRIVER_COPY else arrays.kernel_engine
                self._report(
                    device.key, operation, size, copies, sampled, engine, watch.summary(),
                    verdict="verified" if right else "wrong-data", alone=again is not None,
                )  # fmt: skip
                found.append((operation, size, sampled))
        finally:
            arrays.close()
        return found

    def _l2_size(self, device: DeviceRecord) -> "Optional[int]":
        gpus = self._backend
        return l2_size(gpus.runtime, device.index) if isinstance(gpus, Gpus) else None

    def _arrays(self, index: int, size_bytes: int) -> Arrays:
        if not isinstance(self._backend, Gpus):
            return CpuArrays(size_bytes)
        assert self._backend.kernels is not None
        return GpuArrays(self._backend.runtime, self._backend.kernels, index, size_bytes)

    def _report(
        self, key: str, operation: MemoryOperation, size: int, copies: int, sampled: Sampled,
        engine: str, seen: "dict[str, Any]", *, verdict: str, alone: bool,
    ) -> None:  # fmt: skip
        details = dict(seen)
        if operation in (DRIVER_COPY, KERNEL_COPY):
            details["copied_gbs"] = round(sampled.median / 2, 3)
        rest = "" if alone or len(self._devices) == 1 else "; the other GPUs do so in theirs"
        self._emit(
            MeasuredValue(
                name=operation.quantity.key,
                src=key,
                dst="",
                method=SPEC.method,
                device_kind=DeviceKind.CPU if self._cpu else DeviceKind.GPU,
                engine=engine,
                direction=f"{key} {operation.what} its own memory{rest}",
                verdict=verdict,
                unit=operation.quantity.unit,
                bytes_per_copy=size,
                copies_per_sample=copies,
                attempt=2 if alone else 1,
                variant=operation.variant,
                counted=operation.quantity.counted,
                details=details,
                **sampled.fields(),
            )
        )
