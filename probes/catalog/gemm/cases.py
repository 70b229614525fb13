"""The timed matrix multiplications: number types, shapes and entry points of each level.

A shape is (M, K, N): A is M x K, B is K x N. The first four are those of one Llama-70B layer cut
for tensor parallelism of eight (QKV, attention output, FFN up and gate, FFN down), at 16384 tokens.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ...protocol.sizing import MIB
from ...protocol.spec import ProbeStopped
from ...protocol.status import ClosedWord, Status

CUBE = (8192, 8192, 8192)
SHAPES = (
    (16384, 8192, 1280), (16384, 1024, 8192), (16384, 8192, 7168), (16384, 3584, 8192), CUBE,
)  # fmt: skip
_SMALL_CUBE = (4096, 4096, 4096)
"""The fallback if no shape of a level fits into the free memory."""
_CPU_SHAPES = ((96, 128, 64), (64, 64, 64))


class NumberType(ClosedWord):
    """A type of the factors, as torch's users name it."""

    BF16 = "bf16"
    FP16 = "fp16"
    TF32 = "tf32"
    FP32 = "fp32"
    FP8 = "fp8"
    INT8 = "int8"
    FP64 = "fp64"


BF16, FP16, TF32, FP32, FP8, INT8, FP64 = NumberType
_BYTES = {BF16: 2, FP16: 2, TF32: 4, FP32: 4, FP8: 1, INT8: 1, FP64: 8}
_OUT_BYTES = {**_BYTES, FP8: 2, INT8: 4}
_CHECK_BYTES = 96 * MIB
"""Rows and columns that are checked in float64."""
LIBRARY_BYTES = 256 * MIB
"""Memory for workspaces of the GEMM library and for kernels that are loaded later."""


class Entry(ClosedWord):
    """The function of torch."""

    MATMUL = "matmul"
    LINEAR = "linear"
    SCALED = "scaled_mm"
    SCALED_FAST = "scaled_mm fast"
    """It keeps partial sums in the shorter format of the tensor cores, as in training."""
    INT_MM = "int_mm"


@dataclass(frozen=True)
class Multiplication:
    """One multiplication."""

    dtype: NumberType
    m: int
    k: int
    n: int
    entry: Entry

    @property
    def name(self) -> str:
        """The variant of its figure."""
        return f"{self.dtype} M{self.m} K{self.k} N{self.n} {self.entry}"

    @property
    def kind(self) -> str:
        """The feature that a device may lack: the number type, or fast accumulation of fp8."""
        return self.dtype + (" fast accumulation" if self.entry == Entry.SCALED_FAST else "")

    @property
    def flop(self) -> int:
        """Operations, of whole numbers in int8; a multiplication and an addition count as two."""
        return 2 * self.m * self.n * self.k

    def tflops(self, milliseconds: float) -> float:
        """10^12 operations per second, five digits."""
        return float(f"{self.flop / milliseconds / 1e9:.5g}")

    @property
    def memory_bytes(self) -> int:
        """Memory of A, B and C, of the check, and for fp8 of the values before the cast."""
        operand, out = _BYTES[self.dtype], _OUT_BYTES[self.dtype]
        a, b, c = self.m * self.k, self.k * self.n, self.m * self.n
        drawn = out * max(a, b) if self.dtype == FP8 else 0
        return operand * (a + b) + max(out * c, drawn) + _CHECK_BYTES


Shape = tuple[int, int, int]
LARGEST = 1 << 20
"""The largest side of a shape that is asked for."""


def asked_shape(params: Mapping[str, Any]) -> "Optional[Shape]":
    """The only shape to time, (M, K, N), as the parameter `shape` has it; ProbeStopped if odd."""
    sizes = params.get("shape")
    if sizes is None:
        return None
    fine = isinstance(sizes, (list, tuple)) and len(sizes) == 3
    if not fine or not all(type(size) is int and 1 <= size <= LARGEST for size in sizes):
        text = f"shape is M, K and N: three whole numbers from 1 to {LARGEST}."
        raise ProbeStopped(Status.REFUSED, text)
    return (sizes[0], sizes[1], sizes[2])


def cases(
    level: str, *, cpu: bool = False, shape: "Optional[Shape]" = None
) -> "tuple[Multiplication, ...]":
    """The cases of a level in order: first bf16 and fp8 of each shape with default settings.

    The clock of a GPU at its power limit depends on the load before, so the order is fixed.
    `shape`: the only one, in every number type of the level.
    """
    shapes = (shape,) if shape is not None else _CPU_SHAPES if cpu else SHAPES
    cube = shapes[-1]
    # A card for graphics computes 64 times fewer products in fp64 than in fp32.
    wide = cube if shape is not None or cpu else _SMALL_CUBE
    if level == "quick" and shape is None:
        shapes = (shapes[0], cube) if cpu else (SHAPES[2], CUBE)
    found = [_case(dtype, each) for each in shapes for dtype in (BF16, FP8)]
    if level == "quick":
        return tuple(found)
    found += [Multiplication(BF16, *each, entry=Entry.LINEAR) for each in shapes]
    found += [Multiplication(FP8, *each, entry=Entry.SCALED_FAST) for each in shapes]
    for dtype in (FP16, TF32, FP32):
        for each in shapes if level == "full" else (cube,):
            found.append(_case(dtype, each))
            if level == "full":
                found.append(Multiplication(dtype, *each, entry=Entry.LINEAR))
    return (*found, _case(INT8, cube), _case(FP64, wide))


def fitting(
    wanted: "tuple[Multiplication, ...]",
    fits: "Callable[[Multiplication], bool]",
    *,
    smaller: bool = True,
) -> "tuple[tuple[Multiplication, ...], tuple[Multiplication, ...]]":
    """The cases that fit and those left out; if none fits, a smaller cube where that serves."""
    kept = tuple(case for case in wanted if fits(case))
    if not kept and smaller:
        dtypes = dict.fromkeys(case.dtype for case in wanted)
        kept = tuple(case for case in (_case(d, _SMALL_CUBE) for d in dtypes) if fits(case))
    return kept, tuple(case for case in wanted if case not in kept)


def _case(dtype: NumberType, shape: "tuple[int, int, int]") -> Multiplication:
    entry = {FP8: Entry.SCALED, INT8: Entry.INT_MM}.get(dtype, Entry.MATMUL)
    return Multiplication(dtype, *shape, entry=entry)
