"""Figures as probes give them, for nodes that were not measured: values of real machines.

The H200 ones are of the machine in ../shared/captures/hgx-h200-4gpu-vm (nvbandwidth, nccl-tests,
do_bench); the others are those of H100 boards, invented where nobody published any.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from gputop.probes.protocol.spec import ProbeSpec
from gputop.topology.model.snapshot import Measurement
from gputop.topology.node import Node
from gputop.topology.recorded.load import load
from gputop.topology.report import Report
from tests.support.places import RECORDINGS

VERSIONS = (("torch", "2.11.0"), ("cuda", "13.0"), ("driver", "580.159.04"), ("nccl", "2.28.9"))
SIZES = tuple(2**power for power in range(12, 31, 2))
ALL_REDUCE = (0.2, 0.8, 3.1, 11.4, 40.5, 147.2, 249.8, 314.5, 339.9, 356.1)
IN_PLACE = (0.3, 1.0, 3.9, 15.2, 58.0, 147.9, 256.5, 315.5, 340.8, 355.4)
ALL_GATHER = (0.2, 0.7, 2.6, 9.7, 33.0, 118.2, 222.1, 301.4, 337.4, 348.2)
WRITE_SWEEP = (0.9, 3.6, 13.9, 51.0, 150.3, 273.0, 352.4, 384.1, 393.2, 395.8)


def made_specs() -> dict[str, ProbeSpec]:
    """Probes with costs that stay as they are."""
    given = (
        ("p2p", "GPU to GPU", 2, 2 << 30, 0.8),
        ("p2p-concurrent", "GPU to GPU at once", 2, 1 << 30, 0.3),
        ("host", "Host to GPU", 1, 768 << 20, 0.2),
        ("memory", "Memory of the GPU", 1, 6 << 30, 0.1),
        ("gemm", "Matrix multiplication", 1, 2 << 30, 0.4),
        ("collectives", "Collectives", 2, 7 << 29, 0.9),
        ("train-step", "Training step", 1, 11 << 30, 0.5),
        ("launch", "First use", 1, 256 << 20, 0.1),
        ("nccl", "NCCL or RCCL itself", 2, 2 << 30, 0.6),
    )
    return {
        name: ProbeSpec(
            name=name,
            title=title,
            measures=f"{title}: how fast it is, and whether that is what this device should give.",
            method=f"{name}/2",
            minimum_gpus=gpus,
            memory_bytes_per_gpu=memory,
            start_seconds=4.5,
            seconds_per_gpu=0.7,
            seconds_per_pair=per_pair,
        )
        for name, title, gpus, memory, per_pair in given
    }


def with_figures(report: Report, *figures: Measurement) -> Report:
    """The same report with these figures, and with its prediction."""
    snapshot = msgspec.structs.replace(report.snapshot, measurements=tuple(figures))
    examined = report.follow(snapshot)
    return examined.of(examined.node.decide())


def one(probe: str, quantity: str, value: float | None, unit: str, **more: Any) -> Measurement:
    """One figure with what travels with every one."""
    given: dict[str, Any] = {
        "engine": "copy engine",
        "method": f"{probe}/2",
        "samples": 8,
        "device_kind": "gpu",
        "taken_at": 1_700_000_000.0,
        "versions": VERSIONS,
    }
    if value is not None:
        given |= {"low": round(value * 0.998, 2), "high": round(value * 1.001, 2)}
    return Measurement(probe=probe, quantity=quantity, value=value, unit=unit, **{**given, **more})


def jitter(value: float, *places: int) -> float:
    """A value a little off, the same for the same places."""
    return round(value * (1 + 0.0006 * (sum(7 * p for p in places) % 5 - 2)), 2)


def p2p(addresses: list[str], slow: str | None = None) -> Iterator[Measurement]:
    """Figures of every ordered pair; the links of `slow` give half."""
    for i, src in enumerate(addresses):
        for j, dst in enumerate(addresses):
            if src == dst:
                continue
            part = 0.5 if slow in (src, dst) else 1.0
            ends: dict[str, Any] = {"src": src, "dst": dst}
            big = {"bytes_per_copy": 512 << 20, **ends}
            yield one("p2p", "can_access", None, "", verdict="granted", **ends)
            yield one("p2p", "bytes_arrive", None, "", verdict="arrived", **ends)
            for quantity, value, engine in (
                ("write_bandwidth", 396.1, "copy engine"),
                ("read_bandwidth", 394.6, "copy engine"),
                ("kernel_write_bandwidth", 370.4, "kernel"),
                ("kernel_read_bandwidth", 366.0, "kernel"),
                ("both_ways_bandwidth", 388.0, "copy engine"),
                ("together_bandwidth", 776.0, "copy engine"),
            ):
                yield one(
                    "p2p", quantity, jitter(value * part, i, j), "GB/s", **{**big, "engine": engine}
                )
            yield one("p2p", "staged_bandwidth", jitter(27.1, i, j), "GB/s", **big)
            yield one("p2p", "latency", jitter(9.6, i, j), "us", bytes_per_copy=16, **ends)
            yield one("p2p", "kernel_latency", jitter(0.87, i, j), "us", engine="kernel", **ends)
            for size, value in zip(SIZES, WRITE_SWEEP, strict=True):
                yield one(
                    "p2p", "write_sweep", jitter(value * part, i, j), "GB/s",
                    bytes_per_copy=size, **ends,
                )  # fmt: skip


def host(addresses: list[str], narrow: str | None = None) -> Iterator[Measurement]:
    """Host links; that of `narrow` has eight lanes."""
    for i, src in enumerate(addresses):
        lanes = 8 if src == narrow else 16
        state = {"pcie_generation": 5, "pcie_width": lanes, "numa_node": 0}
        for quantity, value, pageable in (
            ("h2d_bandwidth", 55.4, 22.8),
            ("d2h_bandwidth", 54.9, 19.6),
        ):
            part = lanes / 16
            yield one(
                "host", quantity, jitter(value * part, i), "GB/s", src=src, variant="pinned",
                bytes_per_copy=512 << 20, details=state,
            )  # fmt: skip
            yield one(
                "host", quantity, jitter(pageable, i), "GB/s", src=src, variant="pageable",
                bytes_per_copy=512 << 20, details=state,
            )  # fmt: skip


def on_device(addresses: list[str]) -> Iterator[Measurement]:
    """Memory and matrix multiplication of every GPU."""
    for i, src in enumerate(addresses):
        for quantity, value, counted in (
            ("memory_copy", 4289.0, "bytes read + bytes written"),
            ("memory_read", 4402.0, "bytes read"),
            ("memory_write", 4340.0, "bytes written"),
            ("memory_triad", 4252.0, "bytes read + bytes written"),
        ):
            yield one(
                "memory", quantity, jitter(value, i, 1), "GB/s", src=src, counted=counted,
                engine="kernel", bytes_per_copy=2 << 30,
            )  # fmt: skip
        for kind, (m, k, n), value in (
            ("bf16", (8192, 8192, 8192), 717.0),
            ("bf16", (16384, 8192, 1280), 663.0),
            ("fp8", (8192, 8192, 8192), 1236.0),
            ("tf32", (8192, 8192, 8192), 388.0),
        ):
            shape = f"{kind} M{m} K{k} N{n} matmul"
            seen = {"dtype": kind, "m": m, "k": k, "n": n, "entry": "matmul", "sm_clock_mhz": 1755}
            yield one(
                "gemm", "gemm", jitter(value, i, 2), "TFLOP/s", src=src, variant=shape,
                engine="cuBLAS", counted="2MNK floating point operations", details=seen,
            )  # fmt: skip


def collectives(ranks: int) -> Iterator[Measurement]:
    """Bus bandwidth against size, out of place and in place."""
    for quantity, variant, values in (
        ("all_reduce_busbw", "out of place", ALL_REDUCE),
        ("all_reduce_busbw", "in place", IN_PLACE),
        ("all_gather_busbw", "out of place", ALL_GATHER),
    ):
        for size, value in zip(SIZES, values, strict=True):
            yield one(
                "collectives", quantity, value, "GB/s", variant=variant, bytes_per_copy=size,
                engine="NCCL", counted="bus bandwidth as nccl-tests counts it",
                details={"ranks": ranks, "timing": "CUDA graph of 20 calls", "variables": {}},
            )  # fmt: skip


def everything(
    report: Report, slow: int | None = None, narrow: int | None = None
) -> tuple[Measurement, ...]:
    """Figures of all probes for the GPUs of a report; numbers pick GPUs that are worse."""
    addresses = [gpu.address for gpu in report.snapshot.machine.gpus]
    return (
        *p2p(addresses, None if slow is None else addresses[slow]),
        *host(addresses, None if narrow is None else addresses[narrow]),
        *on_device(addresses),
        *collectives(len(addresses)),
    )


def h200_report() -> Report:
    """A recorded machine with four H200, with its prediction."""
    path = RECORDINGS / "hgx-h200-4gpu-live" / "snapshot.json"
    return Report(Node(load([str(path)]).snapshot).decide())
