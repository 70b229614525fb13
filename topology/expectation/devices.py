"""The band of a figure of one GPU: host copies, memory, matrix multiplication."""

from __future__ import annotations

import re

from ..hardware.specs import PublishedFigure, Sku
from ..hardware.vendors import BY_ID
from ..model import quantities
from ..model.machine import Gpu
from ..model.snapshot import Measurement
from ..node import Node
from ..wiring.graph import gpu_numa
from ..wiring.wires import WireKind
from .judgement import BEST, ESTIMATE, Expected, band, number_of, percent, text_of
from .links import host_link, proven
from .references import published

HOST = {quantities.HOST_TO_DEVICE: "h2d", quantities.DEVICE_TO_HOST: "d2h"}
MEMORY = {
    quantities.MEMORY_COPY: ("hbm_copy", "hbm_scale"),
    quantities.MEMORY_TRIAD: ("hbm_triad",),
    quantities.MEMORY_WRITE: ("hbm_init",),
    quantities.MEMORY_READ: (),
}
"""BabelStream's scale reads one array and writes one, as a copy does."""
STREAM_SOURCE = "rule of thumb: 85 to 92 % of the memory bus on NVIDIA, 78 to 85 % on MI300X"
ONE_SHAPE = 0.88
"""One fixed shape reaches 85 to 92 % of what the best of thousands of shapes does (MAMF)."""
LARGE_DIMENSION, LARGE_MKN = 1024, 1.2e11
"""A smaller product does not fill the device; 16384 x 1024 x 8192 does."""
LARGE_COPY_BYTES = 128 << 20
"""Smaller ones may lie in a cache: the largest is 126 MB of L2 (B200), 256 MB on MI300X."""
TYPES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "fp8_e4m3": "fp8",
    "float8_e4m3fn": "fp8",
    "float8_e4m3fnuz": "fp8",
    "e4m3": "fp8",
}
ALIKE = {"fp16": "bf16", "bf16": "fp16", "tf32": "bf16"}
"""Types whose share of the peak is alike: an estimate where only the other was measured."""
SHAPE = re.compile(r"(?P<type>[a-z0-9_]+) M(?P<m>\d{1,9}) K(?P<k>\d{1,9}) N(?P<n>\d{1,9})\b")
NODE = re.compile(r"pinned, NUMA node (\d{1,4})")
OF_DEVICES = (*HOST, *MEMORY, quantities.GEMM, quantities.GEMM_INT8)


def expected(node: Node, figure: Measurement) -> Expected:
    """The band of a healthy GPU of this model."""
    gpu = node.devices.gpu(figure.src)
    if figure.src is None:
        return Expected(note="of several GPUs together; the table holds single ones")
    if gpu is None:
        return Expected(note="the snapshot does not hold this GPU")
    sku = node.devices.sku(gpu)
    if sku is None:
        return Expected(note="no table holds this model")
    if gpu.mig_enabled or gpu.partition is not None or gpu.is_vgpu:
        return Expected(note="a part of a GPU; the table holds whole ones")
    if figure.quantity in HOST:
        return _host(node, figure, sku)
    if figure.quantity in MEMORY:
        return _memory(figure, sku)
    return _gemm(figure, sku)


_UNLIKE = {
    "pageable": "pageable memory goes through a staging buffer of the driver",
    "pinned, both ways": "both ways at once depend on the host: compare with siblings",
}
"""Why a variant of a host copy has no band of its own."""


def _incomparable(gpu: Gpu, figure: Measurement) -> str:
    """Why a copy between a GPU and the host has no band; "" where it has one."""
    variant = figure.variant or "pinned"
    bound = NODE.fullmatch(variant)
    memory = int(bound[1]) if bound is not None else figure.details.get("numa_node")
    if isinstance(memory, int) and gpu_numa(gpu) not in (None, memory):
        return f"from NUMA node {memory}, which is not next to the GPU"
    if text_of(figure, "memory").startswith("pageable"):
        return _UNLIKE["pageable"]
    if bound is not None or variant == "pinned":
        return ""
    return _UNLIKE.get(variant, "shared with the other GPUs: compare with siblings")


def _host(node: Node, figure: Measurement, sku: Sku) -> Expected:
    gpu = node.devices.gpu(figure.src)
    assert gpu is not None
    if why := _incomparable(gpu, figure):
        return Expected(note=why)
    link = host_link(node, gpu, sku, figure)
    if link is None:
        return Expected(note="the rate of the link to the host is not known")
    link = proven(link, figure.value)
    if link.kind is WireKind.C2C:
        # mleng and nvbandwidth issue 23: 346 to 377 GB/s, bound by the CPU's memory.
        share, basis, source = 0.82, ESTIMATE, "GH200 and GB300 reach about 82 % of C2C"
    else:
        known = published(sku.name, HOST[figure.quantity])
        if known is None:
            return Expected(note="no published figure fits this PCIe generation")
        share, basis, source = known.fraction, known.basis, known.source
    reach = share * link.now_gbs if link.missing else None
    made = band(share * link.design_gbs, "GB/s", basis, source, scaled=link.missing, reach=reach)
    return Expected(band=made, causes=link.missing)


def _memory(figure: Measurement, sku: Sku) -> Expected:
    size = figure.bytes_per_copy
    if size is not None and size < LARGE_COPY_BYTES:
        return Expected(note="a copy this small may stay in a cache")
    # The table counts what is read and what is written.
    half = 0.5 if "once" in (figure.counted or "") else 1.0
    counted = ("counted once, the reference twice",) if half != 1.0 else ()
    for known in filter(None, map(sku.figure, MEMORY[figure.quantity])):
        made = band(known.measured * half, known.unit, known.kind, known.source, scaled=counted)
        return Expected(band=made)
    vendor = BY_ID.get(sku.vendor.lower())
    share = None if vendor is None else vendor.stream_share
    if share is None or not sku.hbm_gbs:
        return Expected(note="no published figure for this model's memory")
    return Expected(
        band=band(share * sku.hbm_gbs * half, "GB/s", ESTIMATE, STREAM_SOURCE, scaled=counted)
    )


def shape_of(figure: Measurement) -> tuple[str, tuple[int, int, int]] | None:
    """Type and M, K, N of a matrix multiplication, from its details, else from its variant."""
    match = SHAPE.match(figure.variant or "")
    kind = text_of(figure, "dtype")
    sizes = [number_of(figure, name) for name in ("m", "k", "n")]
    if match is not None:
        kind = kind or match["type"]
        if None in sizes:
            sizes = [float(match[name]) for name in ("m", "k", "n")]
    if not kind or not all(sizes):
        return None
    m, k, n = map(int, filter(None, sizes))
    kind = kind.removeprefix("torch.")
    return TYPES.get(kind, kind), (m, k, n)


def peak_of(sku: Sku, kind: str) -> float | None:
    """The data sheet's dense peak of one device, TFLOP/s."""
    better = {"fp32": "fp32_matrix", "fp64": "fp64_tensor"}.get(kind, kind)
    return sku.tflops.get(better) or sku.tflops.get(kind)


def _gemm(figure: Measurement, sku: Sku) -> Expected:
    shape = shape_of(figure)
    if shape is None:
        return Expected(note="the shape is not known")
    kind, (m, k, n) = shape
    quantity = f"gemm_{kind}"
    known = _of_shape(sku, quantity, (m, k, n))
    if known is not None:
        return _of_figure(known)
    if not _is_large(m, k, n):
        return Expected(note="a product this small does not fill the device")
    other = ALIKE.get(kind, "")
    own, theirs = peak_of(sku, kind), peak_of(sku, other)
    known = _of_shape(sku, f"gemm_{other}", (m, k, n))
    if known is None or not own or not theirs:
        return Expected(note=f"no published {kind} figure for this model")
    lowered = ONE_SHAPE if known.kind == BEST else 1.0
    source = f"{known.source}, measured in {other}"
    return Expected(band=band(known.measured / theirs * own * lowered, "TFLOP/s", ESTIMATE, source))


def _is_large(m: int, k: int, n: int) -> bool:
    return min(m, k, n) >= LARGE_DIMENSION and m * k * n >= LARGE_MKN


def _of_shape(sku: Sku, quantity: str, mkn: tuple[int, int, int]) -> PublishedFigure | None:
    """The figure of exactly this shape, else one that stands for large shapes in general."""
    for wanted in (mkn, None) if _is_large(*mkn) else (mkn,):
        for known in sku.expected(quantity):
            if known.mkn == wanted:
                return known
    return None


def _of_figure(known: PublishedFigure) -> Expected:
    healthy, scaled = known.measured, tuple[str, ...]()
    if known.kind == BEST:
        healthy *= ONE_SHAPE
        scaled = (
            f"one shape reaches about {percent(ONE_SHAPE)} of the best one, {known.measured:g}",
        )
    return Expected(band=band(healthy, known.unit, known.kind, known.source, scaled=scaled))
