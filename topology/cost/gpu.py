"""What one GPU computes and moves: on paper, and what healthy ones reach."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

import msgspec

from ..hardware.specs import PublishedFigure, Sku
from ..model.machine import Gpu
from ..model.quantities import GEMM, MEMORY_COPY
from ..model.severity import FigureBasis
from ..model.snapshot import Measurement
from .memory import KernelStyle

USUAL_GEMM, USUAL_MEMORY = 0.7, 0.85
"""Shares of the data sheet where no figure of a model is on record: what H100, A100 and MI300X
reach lies from 0.47 to 0.82 of it, and memory from 0.75 to 0.9."""
OF_BEST = 0.9
"""What is usual, of the best on record where nothing else is: 720 of 794 TFLOP/s on H100."""
_KERNEL_COPY = "kernel copy"
_MEMORY = ("hbm_copy", "hbm_triad", "hbm_scale", "hbm_lbm")
"""Quantities in the order in which they stand for elementwise kernels."""
ATTENTION = {
    ("Hopper", KernelStyle.EAGER): (0.30, 0.24),
    ("Hopper", KernelStyle.FUSED): (0.55, 0.45),
}
"""Architecture -> share of the BF16 peak that FlashAttention reaches forward and backward, causal,
head of 128, sequences of 2048: version 2 in eager PyTorch, version 3 else (arXiv 2407.08608,
figures 5 and 6)."""
ATTENTION_ELSEWHERE = (0.5, 0.4)
"""FlashAttention 2 on A100 (arXiv 2307.08691, figure 4)."""


class GpuRates(msgspec.Struct, frozen=True, kw_only=True):
    """Rates of one GPU in one type. FLOP/s and bytes/s; None where they are not known."""

    name: str
    dtype: str
    sheet_flops: float | None
    flops: float | None
    """What healthy ones reach in large products."""
    sheet_bytes_per_s: float | None
    bytes_per_s: float | None
    """What healthy ones reach in copies, each byte read and written counted."""
    memory_bytes: int | None
    """What the driver reports."""
    basis: FigureBasis
    source: str
    attention: tuple[float, float] = ATTENTION_ELSEWHERE
    host_bytes_per_s: float | None = None
    """To the memory of the host, one way; None where it is not known."""
    sharing: int = 1
    """GPUs whose optimizers one host runs where states lie there."""

    @property
    def ridge(self) -> float | None:
        """FLOP for each byte from which on the products are the limit, of what is reached."""
        return None if not self.flops or not self.bytes_per_s else self.flops / self.bytes_per_s

    @property
    def sheet_ridge(self) -> float | None:
        """The same on paper."""
        if not self.sheet_flops or not self.sheet_bytes_per_s:
            return None
        return self.sheet_flops / self.sheet_bytes_per_s


def rates_of(gpu: Gpu, sku: Sku | None, dtype: str, style: KernelStyle) -> GpuRates:
    """The rates of a model: typical figures first, else the best ones, else a usual share."""
    name = gpu.name or "GPU"
    if sku is None:
        return GpuRates(
            name=name, dtype=dtype, sheet_flops=None, flops=None, sheet_bytes_per_s=None,
            bytes_per_s=None, memory_bytes=gpu.memory_bytes, basis=FigureBasis.ESTIMATE,
            source="no table holds this model",
        )  # fmt: skip
    sheet = sku.tflops.get(dtype)
    gemm = sku.figure(f"gemm_{dtype}")
    memory = _memory(sku)
    typical = gemm is not None and gemm.kind is FigureBasis.TYPICAL
    flops = None if sheet is None else USUAL_GEMM * sheet
    if gemm is not None:
        flops = gemm.measured * (1.0 if typical else OF_BEST)
    moved = memory.measured if memory else None if not sku.hbm_gbs else USUAL_MEMORY * sku.hbm_gbs
    known = [figure.source for figure in (gemm, memory) if figure is not None]
    usual = [] if len(known) == 2 else ["a usual share of the data sheet"]
    usual += [f"{OF_BEST:.0%} of the best product on record"] if gemm and not typical else []
    return GpuRates(
        name=sku.name,
        dtype=dtype,
        sheet_flops=_scaled(sheet, 1e12),
        flops=_scaled(flops, 1e12),
        sheet_bytes_per_s=_scaled(sku.hbm_gbs, 1e9),
        bytes_per_s=_scaled(moved, 1e9),
        memory_bytes=gpu.memory_bytes,
        basis=FigureBasis.TYPICAL if typical else FigureBasis.ESTIMATE,
        source="; ".join([*dict.fromkeys(known), *usual]),
        attention=ATTENTION.get((_family(sku), style), ATTENTION_ELSEWHERE),
    )


def measured_rates(rates: GpuRates, figures: Iterable[Measurement]) -> GpuRates:
    """The same with what was measured here, by the slowest GPU: a step waits for it.

    Of products the median of all shapes in this type counts, of memory a copy by kernels.
    """
    products: dict[str, list[float]] = {}
    copies: dict[str, list[float]] = {}
    simulated = False
    for one in figures:
        if not one.credible or not one.src or not one.value:
            continue
        if one.quantity == GEMM and one.details.get("dtype") == rates.dtype:
            products.setdefault(one.src, []).append(one.value)
        elif one.quantity == MEMORY_COPY and one.variant in (None, _KERNEL_COPY):
            copies.setdefault(one.src, []).append(one.value)
        else:
            continue
        simulated |= one.simulated
    flops = min((median(values) for values in products.values()), default=None)
    moved = min((median(values) for values in copies.values()), default=None)
    if flops is None and moved is None:
        return rates
    word = FigureBasis.SIMULATED if simulated else FigureBasis.MEASURED
    here = [name for name, known in (("gemm", flops), ("memory", moved)) if known is not None]
    return msgspec.structs.replace(
        rates,
        flops=rates.flops if flops is None else flops * 1e12,
        bytes_per_s=rates.bytes_per_s if moved is None else moved * 1e9,
        basis=rates.basis if flops is None else word,
        source=f"probe {' and '.join(here)} here ({word}), the slowest GPU; {rates.source}",
    )


def _family(sku: Sku) -> str:
    return "Hopper" if sku.name.startswith(("H100", "H200", "H800", "H20", "GH200")) else ""


def _memory(sku: Sku) -> PublishedFigure | None:
    found = (sku.figure(quantity) for quantity in _MEMORY)
    return next((figure for figure in found if figure is not None), None)


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
