"""Which matrix multiplications are timed: number types, shapes and entry points of each level.

A shape is (M, K, N): A is M x K, B is K x N. The first four are those of one Llama-70B layer cut
for tensor parallelism of eight (QKV, attention output, FFN up and gate, FFN down), at 16384 tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ...protocol.sizing import MIB

CUBE = (8192, 8192, 8192)
SHAPES = (
    (16384, 8192, 1280), (16384, 1024, 8192), (16384, 8192, 7168), (16384, 3584, 8192), CUBE,
)  # fmt: skip
_SMALL_CUBE = (4096, 4096, 4096)
"""Where none of a level's shapes fits the free memory."""
_CPU_SHAPES = ((96, 128, 64), (64, 64, 64))
DTYPES = ("bf16", "fp16", "tf32", "fp32", "fp8")
_BYTES = {"bf16": 2, "fp16": 2, "tf32": 4, "fp32": 4, "fp8": 1}
_OUT_BYTES = {**_BYTES, "fp8": 2}
_CHECK_BYTES = 96 * MIB
"""The rows and columns that are multiplied again in float64."""
LIBRARY_BYTES = 256 * MIB
"""Workspaces of the GEMM library, and what a context still takes when kernels are loaded."""


@dataclass(frozen=True)
class Multiplication:
    """One multiplication."""

    dtype: str
    """One of DTYPES."""
    m: int
    k: int
    n: int
    entry: str
    """What of torch is called: matmul, linear, scaled_mm, or "scaled_mm fast": with the tensor
    cores' own, shorter format for partial sums, as in training."""

    @property
    def name(self) -> str:
        """Which of the figures it is, in words."""
        return f"{self.dtype} M{self.m} K{self.k} N{self.n} {self.entry}"

    @property
    def kind(self) -> str:
        """What a device has or has not: the number type, and fp8's fast accumulation."""
        return self.dtype + (" fast accumulation" if self.entry == "scaled_mm fast" else "")

    @property
    def flop(self) -> int:
        """Floating point operations, a multiplication and an addition counted as two."""
        return 2 * self.m * self.n * self.k

    def tflops(self, milliseconds: float) -> float:
        """10^12 floating point operations per second, five digits."""
        return float(f"{self.flop / milliseconds / 1e9:.5g}")

    @property
    def memory_bytes(self) -> int:
        """A, B and C, for fp8 also what is drawn before it is cast, and the check."""
        one, out = _BYTES[self.dtype], _OUT_BYTES[self.dtype]
        a, b, c = self.m * self.k, self.k * self.n, self.m * self.n
        drawn = out * max(a, b) if self.dtype == "fp8" else 0
        return one * (a + b) + max(out * c, drawn) + _CHECK_BYTES


def cases(level: str, *, cpu: bool = False) -> "tuple[Multiplication, ...]":
    """What a level times, in order: first bf16 and fp8 of each shape, as torch does them by itself.

    A GPU that is limited by its power keeps another clock after another load, so the order is that
    of the source documents' benchmark.
    """
    shapes = _CPU_SHAPES if cpu else SHAPES
    cube = shapes[-1]
    if level == "quick":
        shapes = (shapes[0], cube) if cpu else (SHAPES[2], CUBE)
    found = [_case(dtype, shape) for shape in shapes for dtype in ("bf16", "fp8")]
    if level == "quick":
        return tuple(found)
    found += [Multiplication("bf16", *shape, entry="linear") for shape in shapes]
    found += [Multiplication("fp8", *shape, entry="scaled_mm fast") for shape in shapes]
    for dtype in ("fp16", "tf32", "fp32"):
        for shape in shapes if level == "full" else (cube,):
            found.append(_case(dtype, shape))
            if level == "full":
                found.append(Multiplication(dtype, *shape, entry="linear"))
    return tuple(found)


def fitting(
    wanted: "tuple[Multiplication, ...]", fits: "Callable[[Multiplication], bool]"
) -> "tuple[tuple[Multiplication, ...], tuple[Multiplication, ...]]":
    """The cases that fit and those left out; a smaller cube where none would be left."""
    kept = tuple(case for case in wanted if fits(case))
    if not kept:
        dtypes = dict.fromkeys(case.dtype for case in wanted)
        kept = tuple(case for case in (_case(d, _SMALL_CUBE) for d in dtypes) if fits(case))
    return kept, tuple(case for case in wanted if case not in kept)


def _case(dtype: str, shape: "tuple[int, int, int]") -> Multiplication:
    return Multiplication(dtype, *shape, entry="scaled_mm" if dtype == "fp8" else "matmul")
