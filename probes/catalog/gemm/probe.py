"""Matrix multiplication: TFLOP/s of each number type on the shapes of a large model.

The method is Triton's do_bench (see bench.py) on normally distributed inputs, because zeros and
constants flatter a card at its power limit. Clock, power and throttle reasons are read while the
calls run, since no data sheet says which clock a card keeps under load.
"""

import contextlib
import dataclasses
import importlib
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Optional

from ...devices.opened import open_torch_devices
from ...devices.sensors import Sensors
from ...protocol.messages import DeviceRecord, Message, Note, Progress, WorkerRequest
from ...protocol.plaintext import one_line
from ...protocol.sizing import MIB, spare_bytes
from ...protocol.spec import ProbeSpec, ProbeStopped, level_of
from ...protocol.status import DeviceKind, Status
from ...protocol.timing import low_ones
from .bench import FLUSH_BYTES
from .cases import LIBRARY_BYTES, Multiplication, asked_shape, cases, fitting
from .device import IN_A_ROW, GemmBench, GemmResult, measure_rows
from .report import GEMM, GEMM_INT8, Taken, entries_note, measurement
from .work import precision

SPEC = ProbeSpec(
    name="gemm",
    title="Matrix multiplication",
    measures=(
        "TFLOP/s of bf16, fp16, tf32, fp32 and fp8 on the shapes of a 70B model and 8192 cubed, "
        "through matmul and linear, fp64 and int8 on a cube, with the clock, power and throttling "
        "seen meanwhile."
    ),
    method="gemm/5",
    minimum_gpus=1,
    memory_bytes_per_gpu=2048 * MIB,
    start_seconds=3.0,
    seconds_per_gpu=0.2,
    seconds_per_pair=0.0,
    seconds_alone=6.0,
    level_factors={"quick": 0.2, "normal": 1.0, "full": 2.7},
    loads=("compute", "memory"),
    quantities=(GEMM, GEMM_INT8),
)

_STEERING = (
    "NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "TORCH_BLAS_PREFER_CUBLASLT",
    "TORCH_BLAS_PREFER_HIPBLASLT", "DISABLE_ADDMM_CUDA_LT", "DISABLE_ADDMM_HIP_LT",
    "CUBLAS_WORKSPACE_CONFIG", "CUBLASLT_WORKSPACE_SIZE", "HIPBLASLT_ALLOW_TF32",
    "HIPBLASLT_WORKSPACE_SIZE", "PYTORCH_TUNABLEOP_ENABLED", "PYTORCH_TUNABLEOP_TUNING",
    "TENSILE_STREAMK_DYNAMIC_GRID", "ROCBLAS_USE_HIPBLASLT",
)  # fmt: skip
"""Variables that choose the kernels; they stay as in the job and the result names them."""

Emit = Callable[[Message], None]


def run(request: WorkerRequest, emit: Emit) -> None:
    """Time the cases of a level on every requested device; ProbeStopped if it cannot.

    `alone` times one device after the other; else all run at once, each in its own memory.
    """
    level = level_of(request.params)
    shape = asked_shape(request.params)
    backend, opened = open_torch_devices(request, SPEC, emit)
    steering = {name: os.environ[name] for name in _STEERING if name in os.environ}
    if steering:
        shown = ", ".join(f"{name}={one_line(text, 40)}" for name, text in steering.items())
        emit(Note("gemm-variables", f"The GEMM library runs with {shown}.", steering))
    torch = importlib.import_module("torch")
    cpu = backend.kind == DeviceKind.CPU
    walk = _Walk(torch, backend.kind, opened, request, emit, cases(level, cpu=cpu, shape=shape))
    try:
        walk.measure_all()
    finally:
        walk.close()


class _Walk:
    """Runs all cases on all devices: those in a row first, then those that need a switch."""

    def __init__(
        self,
        torch: Any,
        kind: str,
        devices: Sequence[DeviceRecord],
        request: WorkerRequest,
        emit: Emit,
        wanted: "tuple[Multiplication, ...]",
    ) -> None:
        self._torch = torch
        self._kind = kind
        self._emit = emit
        self._alone = request.params.get("alone") is True
        forced = request.params.get("force") is True
        level, smaller = level_of(request.params), asked_shape(request.params) is None
        rooms = [room_bytes(device, kind, forced=forced) for device in devices]
        plans = [
            plan(device, wanted, room, emit, smaller=smaller)
            for device, room in zip(devices, rooms)
        ]
        self._cases = tuple(dict.fromkeys(case for plan in plans for case in plan))
        rep_ms = 5.0 if kind == DeviceKind.CPU else 100.0 if level == "quick" else 200.0
        self._sensors = Sensors([device.pci_address for device in devices])
        self._benches = [GemmBench(torch, kind, device, rep_ms) for device in devices]
        for bench, planned, room in zip(self._benches, plans, rooms):
            bench.planned, bench.room_bytes = planned, room
        self._figures: dict[tuple[str, Multiplication], float] = {}
        self._taken: dict[tuple[str, Multiplication], Taken] = {}
        self._began = 0.0
        self._done, self._steps = 0, 2 * sum(map(len, plans))

    def measure_all(self) -> None:
        """Time every case, repeat it on slow devices, then check the numbers.

        Checks come last because they would change the clock of a GPU at its power limit; the
        reference starts from rest and goes from shape to shape without a pause.
        """
        self._began = time.monotonic()
        with contextlib.ExitStack() as watches:
            for bench in self._benches:
                watched = self._sensors.watching(bench.record.pci_address)
                bench.watch = watches.enter_context(watched)
            self._measure_rows()
            for case in self._cases:
                if case.dtype not in IN_A_ROW:
                    self._progress(case.name)
                    self._measure(case, [bench for bench in self._benches if bench.has(case)], 1)
                    self._measure_low(case)
                    self._done += self._planned(case)
        for case in self._cases:
            self._progress(f"checking {case.name}")
            self._check(case)
            self._done += self._planned(case)
        note = entries_note(self._figures)
        if note is not None:
            self._emit(note)
        self._progress("all shapes measured")

    def _progress(self, what: str) -> None:
        """Report progress; each case of a device is one step to time and one to check."""
        self._emit(Progress(self._done, self._steps, what))

    def _planned(self, case: Multiplication) -> int:
        return sum(case in bench.planned for bench in self._benches)

    def _measure_rows(self) -> None:
        """Time the cases in which no device waits for another, then repeat the slow ones."""
        benches = [bench for bench in self._benches if bench.row]
        steps = sum(len(bench.row) for bench in benches)
        together = len(benches) > 1 and not self._alone

        def report(bench: GemmBench, case: Multiplication, result: GemmResult) -> None:
            self._take(case, bench, result, attempt=1, together=together)
            self._done += 1
            self._progress(case.name)

        self._progress(self._cases[0].name)
        with precision(self._torch, "bf16"):
            for group in [[bench] for bench in benches] if self._alone else [benches]:
                measure_rows(group, report)
        self._done = steps  # includes cases whose type the device does not have
        for case in self._cases:
            if case.dtype in IN_A_ROW:
                self._measure_low(case)

    def _measure(self, case: Multiplication, benches: "list[GemmBench]", attempt: int) -> None:
        """Time one case on these devices at once, or one after the other, and report."""
        for bench in benches:
            bench.make_room(case)
        with precision(self._torch, case.dtype):
            if self._alone:
                results = [bench.thread.submit(bench.measure, case).result() for bench in benches]
            else:
                waiting = [bench.thread.submit(bench.measure, case) for bench in benches]
                results = [future.result() for future in waiting]
        together = len(benches) > 1 and not self._alone
        for bench, result in zip(benches, results):
            self._take(case, bench, result, attempt=attempt, together=together)

    def _measure_low(self, case: Multiplication) -> None:
        """Time the case again on devices that are slower than equal ones."""
        found = []
        for bench in self._benches:
            taken = self._taken.get((bench.record.key, case))
            if taken is not None and taken.result.times is not None:
                found.append((bench, case.tflops(taken.result.times.median)))
        low = low_ones([(bench.record.name, figure) for bench, figure in found])
        if low:
            self._measure(case, [found[place][0] for place in low], 2)

    def _take(
        self,
        case: Multiplication,
        bench: GemmBench,
        result: GemmResult,
        *,
        attempt: int,
        together: bool,
    ) -> None:
        """Keep and report a result with its sensor readings."""
        if result.since is not None and result.until is not None:
            result.seen = {
                **bench.watch.summary(result.since, result.until),
                "at_s": round(result.since - self._began, 3),
            }
        taken = Taken(bench, result, attempt, together)
        self._taken[bench.record.key, case] = taken
        self._report(case, taken)

    def _check(self, case: Multiplication) -> None:
        """Check the numbers and report the results again."""
        timed = [
            self._taken[bench.record.key, case]
            for bench in self._benches
            if (bench.record.key, case) in self._taken
        ]
        timed = [taken for taken in timed if taken.result.times is not None]
        for taken in timed:
            taken.bench.make_room(case)
        with precision(self._torch, case.dtype):
            waiting = [
                taken.bench.thread.submit(taken.bench.check, case, taken.result) for taken in timed
            ]
            results = [answer.result() for answer in waiting]
        for taken, result in zip(timed, results):
            self._report(case, dataclasses.replace(taken, result=result, checked=True))
            if result.times is not None:
                figure = case.tflops(result.times.median)
                self._figures[taken.bench.record.key, case] = figure

    def _report(self, case: Multiplication, taken: Taken) -> None:
        self._emit(measurement(case, taken, device_kind=self._kind, method=SPEC.method))

    def close(self) -> None:
        """Free all memory, also after an error, once no thread uses it."""
        for bench in self._benches:
            bench.thread.shutdown(wait=True)
        for bench in self._benches:
            bench.close()
        if self._kind != DeviceKind.CPU:
            self._torch.cuda.empty_cache()


# Chooses the matrix multiplications that fit into a device's free memory.
def room_bytes(device: DeviceRecord, kind: str, *, forced: bool) -> Optional[int]:
    """Memory for operands, results and the flush buffer; None on a CPU, which has no limit.

    `forced`: take more of the device (see `sizing.reserve_bytes`).
    """
    return None if kind == DeviceKind.CPU else spare_bytes(device, forced=forced) - LIBRARY_BYTES


def plan(
    device: DeviceRecord,
    wanted: "tuple[Multiplication, ...]",
    room: Optional[int],
    emit: Emit,
    *,
    smaller: bool = True,
) -> "tuple[Multiplication, ...]":
    """The cases that fit, else a smaller cube where that serves; ProbeStopped if none does."""
    if room is None:
        return wanted
    kept, dropped = fitting(
        wanted, lambda case: case.memory_bytes + FLUSH_BYTES <= room, smaller=smaller
    )
    if not kept:
        raise ProbeStopped(
            Status.REFUSED,
            f"{device.key} has {(device.free_bytes or 0) // MIB} MiB free: too little for any "
            f"shape beside the {((device.free_bytes or 0) - room - LIBRARY_BYTES) // MIB} MiB that "
            "stay free.",
        )
    if dropped:
        shapes = ", ".join(case.name for case in dropped[:3]) + (" ..." if len(dropped) > 3 else "")
        text = f"{device.key}: {len(dropped)} cases do not fit the free memory: {shapes}."
        emit(Note("gemm-memory", text, {"left_out": [case.name for case in dropped]}))
    return kept
