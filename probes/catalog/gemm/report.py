"""Messages about matrix multiplications: the figure of a case, and a note on differences."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Optional

from ...protocol.messages import MeasuredValue, Note
from ...protocol.quantity import Quantity
from .cases import FP8, INT8, Entry, Multiplication
from .device import GemmBench, GemmResult

GEMM = Quantity(
    "gemm", "", unit="TFLOP/s", counted="2MNK floating point operations", main_variant="bf16"
)
GEMM_INT8 = Quantity("gemm_int8", "", unit="TOP/s", counted="2MNK operations of whole numbers")
ENTRY_DIFFERENCE = 0.03
"""If two functions for the same product differ by more, a note says so."""
_CALLS = {
    Entry.MATMUL: "torch.matmul",
    Entry.LINEAR: "F.linear",
    Entry.SCALED: "torch._scaled_mm",
    Entry.SCALED_FAST: "torch._scaled_mm with fast accumulation",
    Entry.INT_MM: "torch._int_mm",
}


@dataclasses.dataclass(frozen=True)
class Taken:
    """The result of one device for one case."""

    bench: GemmBench
    result: GemmResult
    attempt: int
    together: bool
    """Whether other devices multiplied at the same time."""
    checked: bool = False
    """Whether the numbers were checked; this second report replaces the first."""


def measurement(
    case: Multiplication, taken: Taken, *, device_kind: str, method: str
) -> MeasuredValue:
    """The figure in TFLOP/s, of int8 in TOP/s, or the reason why there is none."""
    quantity = quantity_of(case)
    key, result = taken.bench.record.key, taken.result
    figures: dict[str, Any] = {}
    details: dict[str, Any] = {
        "dtype": case.dtype, "m": case.m, "k": case.k, "n": case.n, "entry": case.entry,
        "library": result.library, **result.seen,
    }  # fmt: skip
    why, times = result.why, result.times
    if result.error is not None and math.isfinite(result.error):
        details["relative_error"] = float(f"{result.error:.3g}")
    if case.dtype == FP8:
        fast = case.entry == Entry.SCALED_FAST
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
    others = "while other GPUs multiply too" if taken.together else "nothing else running"
    return MeasuredValue(
        name=quantity.key,
        src=key,
        dst="",
        method=method,
        device_kind=device_kind,
        engine=f"{result.library} by {call}" if result.library else call,
        direction=f"{key} multiplies in its own memory, {others}",
        verdict=result.verdict,
        unit=quantity.unit,
        why=why,
        attempt=taken.attempt,
        variant=case.kind if result.unsupported and not taken.checked else case.name,
        counted=quantity.counted,
        details=details,
        **figures,
    )


def quantity_of(case: Multiplication) -> Quantity:
    """The quantity of a multiplication: whole numbers are no floating point operations."""
    return GEMM_INT8 if case.dtype == INT8 else GEMM


def entries_note(figures: "Mapping[tuple[str, Multiplication], float]") -> Optional[Note]:
    """A note where matmul and linear of one shape differ; `figures`: TFLOP/s by device key."""
    differences = []
    for (key, case), figure in figures.items():
        other = figures.get((key, dataclasses.replace(case, entry=Entry.LINEAR)))
        if case.entry != Entry.MATMUL or other is None:
            continue
        if abs(figure - other) > ENTRY_DIFFERENCE * max(figure, other):
            differences.append((key, case, figure, other))
    if not differences:
        return None
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
    return Note("gemm-entry", text, {"differences": listed})
