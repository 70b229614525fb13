"""Matrix multiplications on one device: operands, call, check, and the library that ran."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Optional

from ...protocol.errors import WorkerError
from ...protocol.plaintext import one_line
from ...protocol.status import DeviceKind
from .cases import FP8, INT8, TF32, Entry, Multiplication

TOLERANCE = {
    "bf16": 1e-2, "fp16": 5e-3, "tf32": 2e-3, "fp32": 3e-5, "fp8": 5e-2, "int8": 0.0, "fp64": 1e-12,
}  # fmt: skip
"""Limits of the relative root mean square error: a few times the rounding errors."""
FULL_PRECISION = 3e-5
"""The error of fp32 stays below this; that of TF32, with 10 bits of mantissa, does not."""
_CHECKED_ROWS = 8
_CHECKED_COLUMNS = 1024
"""How many columns of B are copied as float64 at a time."""

Work = Callable[[], Any]


class Unsupported(WorkerError):  # noqa: N818  (an answer, not an error)
    """The device or torch lacks the multiplication; the text says why."""


@contextlib.contextmanager
def precision(torch: Any, dtype: str) -> Iterator[None]:
    """Let float32 multiplications use TF32 only for the case `tf32`, and restore the switch.

    The switch applies to all devices and threads of the process.
    """
    switch = torch.backends.cuda.matmul
    before = switch.allow_tf32
    switch.allow_tf32 = dtype == TF32
    try:
        yield
    finally:
        switch.allow_tf32 = before


class Multiplier:
    """Prepares and checks cases on one device; for a single thread."""

    def __init__(self, torch: Any, device: str, seed: int = 0) -> None:
        self._torch = torch
        self.device = device
        self._is_hip = getattr(torch.version, "hip", None) is not None
        self._random = torch.Generator(device=device).manual_seed(1234 + seed)
        self._a: Any = None
        self._b: Any = None

    def prepare(self, case: Multiplication) -> Work:
        """Draw operands (see `_drawn`) and build the call; Unsupported if there is none."""
        why = self._missing(case.dtype)
        if why:
            raise Unsupported(why)
        self.release()
        # All functions but matmul take B as N x K: linear as weight, scaled_mm by columns.
        b_shape = (case.k, case.n) if case.entry == Entry.MATMUL else (case.n, case.k)
        self._a, self._b = (
            self._drawn(case.dtype, case.m, case.k),
            self._drawn(case.dtype, *b_shape),
        )
        try:
            work = self._call(case)
            work()
        except RuntimeError as error:
            if (
                self.is_out_of_memory(error)
                or "CUDA error" in str(error)
                or "HIP error" in str(error)
            ):
                raise
            raise Unsupported(one_line(str(error), 300)) from error
        return work

    def _drawn(self, dtype: str, rows: int, columns: int) -> Any:
        """Normally distributed numbers; of int8 every value alike."""
        torch, made_with = self._torch, {"generator": self._random, "device": self.device}
        if dtype == INT8:
            return torch.randint(-128, 128, (rows, columns), dtype=torch.int8, **made_with)
        kind = {
            "fp16": torch.float16, "tf32": torch.float32, "fp32": torch.float32,
            "fp64": torch.float64,
        }.get(dtype, torch.bfloat16)  # fmt: skip
        made = torch.randn(rows, columns, dtype=kind, **made_with)
        return made.to(self._float8()) if dtype == FP8 else made

    def _call(self, case: Multiplication) -> Work:
        torch, a, b = self._torch, self._a, self._b
        if case.entry == Entry.MATMUL:
            return lambda: torch.matmul(a, b)
        if case.entry == Entry.LINEAR:
            return lambda: torch.nn.functional.linear(a, b)
        if case.entry == Entry.INT_MM:
            if not hasattr(torch, "_int_mm"):
                raise Unsupported(f"torch {torch.__version__} has no _int_mm")
            return lambda: torch._int_mm(a, b.t())
        scale, columns = torch.ones((), device=self.device, dtype=torch.float32), b.t()
        # Up to torch 2.4 the scales are keyword-only and the result is a tuple.
        more = {"use_fast_accum": True} if case.entry == Entry.SCALED_FAST else {}

        def scaled() -> Any:
            out = torch._scaled_mm(
                a, columns, scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16, **more
            )
            return out[0] if isinstance(out, tuple) else out

        try:
            scaled()
        except TypeError as error:  # torch 2.1 lacks the argument
            raise Unsupported(one_line(str(error), 300)) from error
        return scaled

    def _float8(self) -> Any:
        """The e4m3 type of this device; that of MI300 has no negative zero."""
        old = self._arch() in ("gfx940", "gfx941", "gfx942")
        name = "float8_e4m3fnuz" if old else "float8_e4m3fn"
        if not (hasattr(self._torch, name) and hasattr(self._torch, "_scaled_mm")):
            raise Unsupported(f"torch {self._torch.__version__} has no {name} or no _scaled_mm")
        return getattr(self._torch, name)

    def _arch(self) -> str:
        if not self._is_hip or self.device == DeviceKind.CPU:
            return ""
        properties = self._torch.cuda.get_device_properties(self.device)
        return str(getattr(properties, "gcnArchName", "")).partition(":")[0]

    def _missing(self, dtype: str) -> str:
        """Why the device lacks the type; empty if it may have it."""
        torch = self._torch
        if self.device == DeviceKind.CPU:
            return "a CPU has no TF32" if dtype == TF32 else ""
        if self._is_hip:
            arch = self._arch()
            if dtype == FP8 and arch in ("gfx900", "gfx906", "gfx908", "gfx90a"):
                return f"{arch} has no FP8 matrix units: MI300 (gfx942) and newer do"
            if dtype == FP8 and arch.startswith(("gfx10", "gfx11")):
                return f"{arch} has no FP8 matrix units: gfx12 and gfx942 do"
            if dtype == TF32 and not arch.startswith("gfx94"):
                return f"{arch} has no TF32 matrix units: MI300 (gfx942) does"
            return ""
        major, minor = torch.cuda.get_device_capability(self.device)
        if dtype == FP8 and (major, minor) < (8, 9):
            return f"compute capability {major}.{minor} has no FP8 tensor cores: 8.9 and newer do"
        if dtype == INT8 and (major, minor) < (7, 5):
            return f"compute capability {major}.{minor} has no INT8 tensor cores: 7.5 and newer do"
        if dtype in ("tf32", "bf16") and major < 8:
            return f"compute capability {major}.{minor} has no such tensor cores: 8.0 and newer do"
        return ""

    def relative_error(self, case: Multiplication, work: Work) -> float:
        """Root mean square error of a few rows against float64, relative to the rows."""
        torch = self._torch
        came = work()
        rows = torch.linspace(0, case.m - 1, min(_CHECKED_ROWS, case.m)).long().tolist()
        # Row by row: older versions of torch cannot index float8 with a list.
        exact_rows = torch.stack([self._exact(self._a[row]) for row in rows])
        off, size = 0.0, 0.0
        for low in range(0, case.n, _CHECKED_COLUMNS):
            part = slice(low, low + _CHECKED_COLUMNS)
            b = self._b[:, part] if case.entry == Entry.MATMUL else self._b[part].t()
            exact = exact_rows @ self._exact(b)
            off += float((came[rows][:, part].double() - exact).square().sum().item())
            size += float(exact.square().sum().item())
        return float((off / size) ** 0.5) if size else float("nan")

    def _exact(self, numbers: Any) -> Any:
        """The same numbers in float64, which torch does not make of float8 in one step."""
        torch = self._torch
        return numbers if numbers.dtype == torch.float64 else numbers.to(torch.float32).double()

    def library(self, case: Multiplication) -> Optional[str]:
        """The library that torch reports for the call; None where torch does not say."""
        if self.device == DeviceKind.CPU:
            return None
        if case.entry in (Entry.SCALED, Entry.SCALED_FAST, Entry.INT_MM):
            return "hipBLASLt" if self._is_hip else "cuBLASLt"
        try:
            chosen = str(self._torch.backends.cuda.preferred_blas_library()).rpartition(".")[2]
        except (AttributeError, RuntimeError):
            return None
        if self._is_hip:
            names = {"cublas": "rocBLAS", "cublaslt": "hipBLASLt", "ck": "Composable Kernel"}
        else:
            names = {"cublas": "cuBLAS", "cublaslt": "cuBLASLt"}
        return names.get(chosen.lower())

    def is_out_of_memory(self, error: RuntimeError) -> bool:
        """Whether the error means that another process took the memory."""
        kind = getattr(self._torch.cuda, "OutOfMemoryError", None)
        return kind is not None and isinstance(error, kind)

    def release(self) -> None:
        """Drop the operands."""
        self._a = self._b = None


def judged(dtype: str, error: float) -> "tuple[str, Optional[str]]":
    """The verdict on the numbers, and why they do not count for this type if they do not."""
    if dtype == TF32 and error < FULL_PRECISION:
        return "", "the numbers have full precision: this runs as fp32, not as TF32"
    if dtype == "fp32" and FULL_PRECISION <= error <= TOLERANCE["tf32"]:
        return "", "the numbers have TF32's precision, although TF32 is switched off"
    # Not `error > ...`: a NaN is wrong too.
    return ("verified" if error <= TOLERANCE[dtype] else "wrong-data"), None
