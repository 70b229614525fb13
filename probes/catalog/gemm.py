"""Matrix multiplication: TFLOP/s of each number type on the shapes of a large model.

The method of Triton's do_bench (see bench.py) on normally distributed inputs: zeros and constants
flatter a card that is limited by its power. Clock, power and throttle reasons are read while the
calls run, since neither vendor's sheet says what clock it keeps under load.
"""

import dataclasses
import importlib
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

from ..gemm_bench import GemmBench, Result
from ..gemm_cases import Case, cases
from ..gemm_room import plan, room_bytes
from ..gemm_work import precision
from ..opened import open_devices
from ..plaintext import one_line
from ..protocol import DeviceRecord, Measurement, Message, Note, Progress, Request
from ..sensors import Sensors
from ..sizing import MIB
from ..spec import ProbeSpec, level_of
from ..timing import low_ones

SPEC = ProbeSpec(
    name="gemm",
    title="Matrix multiplication",
    measures=(
        "TFLOP/s of bf16, fp16, tf32, fp32 and fp8 on the shapes of a 70B model and 8192 cubed, "
        "through matmul and linear, with the clock, power and throttling seen meanwhile."
    ),
    method="gemm/4",
    minimum_gpus=1,
    memory_bytes_per_gpu=2048 * MIB,
    start_seconds=4.5,
    seconds_per_gpu=0.2,
    seconds_per_pair=0.0,
    seconds_alone=5.0,
    level_factors={"quick": 0.24, "normal": 1.0, "full": 3.0},
    loads=("compute", "memory"),
)

ENTRY_DIFFERENCE = 0.03
"""Two ways to the same product that differ by more are worth a word."""
_CALLS = {
    "matmul": "torch.matmul",
    "linear": "F.linear",
    "scaled_mm": "torch._scaled_mm",
    "scaled_mm fast": "torch._scaled_mm with fast accumulation",
}
_STEERING = (
    "NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "TORCH_BLAS_PREFER_CUBLASLT",
    "TORCH_BLAS_PREFER_HIPBLASLT", "DISABLE_ADDMM_CUDA_LT", "DISABLE_ADDMM_HIP_LT",
    "CUBLAS_WORKSPACE_CONFIG", "CUBLASLT_WORKSPACE_SIZE", "HIPBLASLT_ALLOW_TF32",
    "HIPBLASLT_WORKSPACE_SIZE", "PYTORCH_TUNABLEOP_ENABLED", "PYTORCH_TUNABLEOP_TUNING",
    "TENSILE_STREAMK_DYNAMIC_GRID", "ROCBLAS_USE_HIPBLASLT",
)  # fmt: skip
"""Left as the job has them, and named in the result, since they choose the kernels."""

Emit = Callable[[Message], None]


def run(request: Request, emit: Emit) -> None:
    """Time the level's cases on every requested device; ProbeStopped where it cannot.

    `alone`: one device after the other; else all at once, for each computes in its own memory.
    """
    level = level_of(request.params)
    backend, opened = open_devices(request, SPEC, emit)
    steering = {name: os.environ[name] for name in _STEERING if name in os.environ}
    if steering:
        shown = ", ".join(f"{name}={one_line(text, 40)}" for name, text in steering.items())
        emit(Note("gemm-variables", f"The GEMM library runs with {shown}.", steering))
    torch = importlib.import_module("torch")
    walk = _Walk(torch, backend.kind, opened, request, level, emit)
    try:
        walk.measure_all()
    finally:
        walk.close()


@dataclasses.dataclass(frozen=True)
class _Taken:
    """What one device gave for one case."""

    bench: GemmBench
    result: Result
    attempt: int
    together: bool
    """Whether other devices did the same meanwhile."""
    checked: bool = False
    """Whether the numbers were looked at: a second report, which replaces the first."""


class _Walk:
    """All cases, one after the other, each on all devices that it fits."""

    def __init__(
        self,
        torch: Any,
        kind: str,
        devices: Sequence[DeviceRecord],
        request: Request,
        level: str,
        emit: Emit,
    ) -> None:
        self._torch = torch
        self._kind = kind
        self._emit = emit
        self._alone = request.params.get("alone") is True
        forced = request.params.get("force") is True
        wanted = cases(level, cpu=kind == "cpu")
        rooms = [room_bytes(device, kind, forced=forced) for device in devices]
        plans = [plan(device, wanted, room, emit) for device, room in zip(devices, rooms)]
        self._cases = tuple(dict.fromkeys(case for plan in plans for case in plan))
        rep_ms = 5.0 if kind == "cpu" else 100.0 if level == "quick" else 200.0
        sensors = Sensors([device.pci_address for device in devices])
        self._benches = [GemmBench(torch, kind, device, sensors, rep_ms) for device in devices]
        for bench, planned, room in zip(self._benches, plans, rooms):
            bench.planned, bench.room_bytes = planned, room
        self._figures: dict[tuple[str, Case], float] = {}
        self._taken: dict[tuple[str, Case], _Taken] = {}
        self._unsupported: set[tuple[str, str]] = set()

    def measure_all(self) -> None:
        """Every case; once more where a device is slower than its like; then the numbers.

        All times come first: what ran just before moves a power-limited clock, and the reference
        starts from rest and goes from one shape to the next without a pause.
        """
        steps = 2 * len(self._cases)
        for place, case in enumerate(self._cases):
            self._emit(Progress(place, steps, case.name))
            benches = [bench for bench in self._benches if self._has(bench, case)]
            with precision(self._torch, case.dtype):
                found = self._measure(case, benches, 1)
                low = low_ones([(b.record.name, figure) for b, figure in found])
                if low:
                    self._measure(case, [found[one][0] for one in low], 2)
        for place, case in enumerate(self._cases):
            self._emit(Progress(len(self._cases) + place, steps, f"checking {case.name}"))
            self._check(case)
        self._compare_entries()
        self._emit(Progress(steps, steps, "all shapes measured"))

    def _has(self, bench: GemmBench, case: Case) -> bool:
        return case in bench.planned and (bench.record.key, case.kind) not in self._unsupported

    def _measure(
        self, case: Case, benches: "list[GemmBench]", attempt: int
    ) -> "list[tuple[GemmBench, float]]":
        """Time and report; the devices that gave a figure, with it."""
        for bench in benches:
            bench.make_room(case)
        if self._alone:
            results = [bench.thread.submit(bench.measure, case).result() for bench in benches]
        else:
            waiting = [bench.thread.submit(bench.measure, case) for bench in benches]
            results = [one.result() for one in waiting]
        together, found = len(benches) > 1 and not self._alone, []
        for bench, result in zip(benches, results):
            one = _Taken(bench, result, attempt, together)
            self._taken[bench.record.key, case] = one
            self._report(case, one)
            if result.times is not None:
                found.append((bench, case.tflops(result.times.median)))
        return found

    def _check(self, case: Case) -> None:
        """Report once more, with what the numbers say."""
        timed = [
            self._taken[bench.record.key, case]
            for bench in self._benches
            if (bench.record.key, case) in self._taken
        ]
        timed = [one for one in timed if one.result.times is not None]
        for one in timed:
            one.bench.make_room(case)
        with precision(self._torch, case.dtype):
            waiting = [one.bench.thread.submit(one.bench.check, case, one.result) for one in timed]
            results = [answer.result() for answer in waiting]
        for one, result in zip(timed, results):
            self._report(case, dataclasses.replace(one, result=result, checked=True))
            if result.times is not None:
                figure = case.tflops(result.times.median)
                self._figures[one.bench.record.key, case] = figure

    def _report(self, case: Case, taken: "_Taken") -> None:
        """One figure, or why there is none; what a device does not have is said once."""
        key, result = taken.bench.record.key, taken.result
        if result.unsupported:
            self._unsupported.add((key, case.kind))
        figures: dict[str, Any] = {}
        details: dict[str, Any] = {
            "dtype": case.dtype, "m": case.m, "k": case.k, "n": case.n, "entry": case.entry,
            "library": result.library, **result.seen,
        }  # fmt: skip
        why, times = result.why, result.times
        if result.error is not None and math.isfinite(result.error):
            details["relative_error"] = float(f"{result.error:.3g}")
        if case.dtype == "fp8":
            fast = case.entry == "scaled_mm fast"
            details |= {"format": "e4m3", "fast_accumulation": fast}
        if times is not None:
            figures = {
                "value": case.tflops(times.median),
                "minimum": case.tflops(times.maximum),
                "maximum": case.tflops(times.minimum),
            }
            details |= {
                "time_ms": round(times.median, 5),
                "time_p20_ms": round(times.quantile(0.2), 5),
                "time_p80_ms": round(times.quantile(0.8), 5),
                "calls": len(times.samples),
            }
            if taken.attempt > 1 and why is None:
                why = "measured twice: slower than its like at first"
        call = _CALLS[case.entry]
        others = "while other GPUs do the same" if taken.together else "nothing else running"
        self._emit(
            Measurement(
                name="gemm",
                src=key,
                dst="",
                method=SPEC.method,
                device_kind=self._kind,
                engine=f"{result.library} by {call}" if result.library else call,
                direction=f"{key} multiplies in its own memory, {others}",
                verdict=result.verdict,
                unit="TFLOP/s",
                why=why,
                attempt=taken.attempt,
                variant=case.kind if result.unsupported and not taken.checked else case.name,
                counted="2MNK floating point operations",
                details=details,
                **figures,
            )
        )

    def _compare_entries(self) -> None:
        """A note where matmul and linear of one shape differ."""
        differences = []
        for (key, case), figure in self._figures.items():
            other = self._figures.get((key, dataclasses.replace(case, entry="linear")))
            if case.entry != "matmul" or other is None:
                continue
            if abs(figure - other) > ENTRY_DIFFERENCE * max(figure, other):
                differences.append((key, case, figure, other))
        if not differences:
            return
        worst = max(differences, key=lambda d: abs(d[2] / d[3] - 1))
        key, case, figure, other = worst
        text = (
            f"matmul and linear give different speeds for the same product, most on {key} with "
            f"{case.dtype} M{case.m} K{case.k} N{case.n}: {figure:.4g} and {other:.4g} TFLOP/s. "
            "They differ in the layout of the second matrix, and torch may take another library."
        )
        listed = [
            {"device": d[0], "shape": d[1].name, "matmul_tflops": d[2], "linear_tflops": d[3]}
            for d in differences
        ]
        self._emit(Note("gemm-entry", text, {"differences": listed}))

    def close(self) -> None:
        """Give all memory back, also after an error."""
        for bench in self._benches:
            bench.close()
        if self._kind != "cpu":
            self._torch.cuda.empty_cache()
