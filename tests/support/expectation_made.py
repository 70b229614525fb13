"""Figures by hand, for the tests of expectation."""

from __future__ import annotations

from typing import Any

import msgspec

from gputop.topology.model.machine import Gpu, Machine
from gputop.topology.model.snapshot import EnvironmentVariable, Measurement, NodeSnapshot
from gputop.topology.recorded.load import load
from tests.support.places import RECORDINGS
from tests.support.snapshots import demo_node

LIVE = RECORDINGS / "hgx-h200-4gpu-live" / "snapshot.json"
GIB = 1 << 30
CUBE = "bf16 M8192 K8192 N8192 matmul"


def h200(**variables: str) -> NodeSnapshot:
    """Four H200 on one board, as they were recorded, with these variables and no others."""
    snapshot = load([str(LIVE)]).snapshot
    return with_variables(snapshot, **variables)


def with_variables(snapshot: NodeSnapshot, **variables: str) -> NodeSnapshot:
    given = tuple(
        EnvironmentVariable(name=name, value=value, origin="environment")
        for name, value in variables.items()
    )
    return msgspec.structs.replace(snapshot, environment=given)


def demo(name: str) -> NodeSnapshot:
    return demo_node(name).snapshot


def addresses(snapshot: NodeSnapshot) -> list[str]:
    return [gpu.address for gpu in snapshot.machine.gpus]


def figure(quantity: str, value: float | None, *ends: str, **facts: Any) -> Measurement:
    src, dst = (*ends, None, None)[:2]
    units = {"gemm": "TFLOP/s", "train_step": "TFLOP/s", "kernel_latency": "us", "latency": "us"}
    facts = {"unit": units.get(quantity, "GB/s"), **facts}
    return Measurement(probe="made", quantity=quantity, value=value, src=src, dst=dst, **facts)


def collective(value: float, quantity: str = "all_reduce_busbw", **facts: Any) -> Measurement:
    """An all-reduce of 1 GiB over everything; `variables` and `ranks` go to the details."""
    details = {name: facts.pop(name) for name in ("variables", "ranks") if name in facts}
    return figure(quantity, value, **{"bytes_per_copy": GIB, "details": details, **facts})


def change_gpu(snapshot: NodeSnapshot, index: int, **facts: Any) -> NodeSnapshot:
    gpus = list(snapshot.machine.gpus)
    gpus[index] = msgspec.structs.replace(gpus[index], **facts)
    return with_machine(snapshot, gpus=tuple(gpus))


def with_machine(snapshot: NodeSnapshot, **facts: Any) -> NodeSnapshot:
    machine: Machine = msgspec.structs.replace(snapshot.machine, **facts)
    return msgspec.structs.replace(snapshot, machine=machine)


def links_up(gpu: Gpu, count: int) -> dict[str, Any]:
    """The links of a GPU with only the first `count` of them active."""
    return {
        "nvlinks": tuple(
            msgspec.structs.replace(link, active=number < count)
            for number, link in enumerate(gpu.nvlinks)
        )
    }


def matrix(snapshot: NodeSnapshot, value: Any, quantity: str = "write_bandwidth") -> list[Any]:
    """A figure of every ordered pair; `value(i, j)` by places of the GPUs."""
    gpus = addresses(snapshot)
    return [
        figure(quantity, value(i, j), a, b)
        for i, a in enumerate(gpus)
        for j, b in enumerate(gpus)
        if a != b
    ]
