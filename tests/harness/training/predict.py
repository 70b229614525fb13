"""What the model of `gputop cost` says of the runs of this harness, as TOML.

    python -m tests.harness.training.predict > tests/topology/cost/two_gpus_predicted.toml
    python -m tests.harness.training.predict --probed launch.json

It is written before a run and stays as it was then. `--probed`: what `gputop probe launch --json`
measured on the host of the run.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import msgspec

from gputop.reading import read_snapshot
from gputop.topology.cost.gpu import GpuRates, rates_of
from gputop.topology.cost.layer import launches_here
from gputop.topology.cost.layout import Layout, StepPlan
from gputop.topology.cost.memory import PURE, KernelStyle
from gputop.topology.cost.node_wires import NodeWires
from gputop.topology.cost.peak import MemoryPeak, memory_peak
from gputop.topology.cost.shape import ModelShape
from gputop.topology.cost.step import StepTime, step_time
from gputop.topology.cost.wires import GroupWire, WireOf, alone
from gputop.topology.flags.what_if.changes import with_changes
from gputop.topology.hardware.specs import skus
from gputop.topology.model.snapshot import Measurement
from gputop.topology.node import Node

from .plans import (
    HEAD,
    MICRO_BATCHES,
    SEQUENCE,
    VOCABULARY,
    TrainedShape,
    TrainingRun,
    shape_of,
    starts,
)

WAYS = {
    "single": Layout(),
    "ddp": Layout(dp=2),
    "fsdp": Layout(dp=2),
    "tp": Layout(tp=2),
    "pp": Layout(pp=2),
}
GPUS = ("H100-SXM", "H200-SXM")


def model(shape: TrainedShape) -> ModelShape:
    return ModelShape(
        name=shape.name, layers=shape.layers, hidden=shape.hidden, heads=shape.heads,
        kv_heads=shape.heads, head_dim=HEAD, feed_forward=shape.feed_forward,
        vocabulary=VOCABULARY,
    )  # fmt: skip


def plan(run: TrainingRun, host: float = 1.0) -> StepPlan:
    """`host`: how many times as long as a usual one it takes to launch."""
    passes = MICRO_BATCHES if run.layout == "pp" else 1
    return StepPlan(
        sequence=SEQUENCE,
        micro=run.batch // WAYS[run.layout].dp // passes,
        accumulation=passes,
        zero=3 if run.layout == "fsdp" else 0,
        states=PURE,
        style=KernelStyle.EAGER,
        sequence_parallel=False,
        reduces=(2, 5),
        host=host,
        keeps_buckets=run.layout == "ddp",
    )


def rates(gpu: str) -> GpuRates:
    made = Node(read_snapshot((), "hgx-h100-8")).machine.gpus[0]
    return rates_of(made, skus()[gpu], "bf16", KernelStyle.EAGER)


def wires(p2p: bool) -> WireOf:
    snapshot = read_snapshot((), "hgx-h100-8")
    if not p2p:
        snapshot = with_changes(snapshot, {"NCCL_P2P_DISABLE": "1"})
    inside = NodeWires(Node(snapshot).decide())

    def of(ranks: int, stride: int) -> GroupWire | None:
        return alone() if ranks < 2 else inside.of(ranks, stride)

    return of


def predicted(gpu: str, host: float = 1.0) -> Iterator[tuple[TrainingRun, StepTime, MemoryPeak]]:
    known = {p2p: wires(p2p) for p2p in (True, False)}
    for runs in starts():
        for run in runs:
            shape, way, how = model(shape_of(run.shape)), WAYS[run.layout], plan(run, host)
            time = step_time(shape, way, how, rates(gpu), known[run.p2p])
            assert isinstance(time, StepTime)
            yield run, time, memory_peak(shape, way, how)


def probed(path: Path) -> float:
    """How many times as long as a usual host that one takes to launch."""
    values = json.loads(path.read_text(encoding="utf-8"))["measurements"]
    names = Measurement.__struct_fields__
    known = [{name: row[name] for name in names if name in row} for row in values]
    found = launches_here(msgspec.convert(known, tuple[Measurement, ...], strict=False))
    assert found is not None
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--probed", type=Path)
    given = parser.parse_args()
    host = 1.0 if given.probed is None else probed(given.probed)
    print("# What `python -m tests.harness.training.predict` gave before the first run.")
    print(f"# Launches by the host take {host:.2f} times as long as usual.")
    for gpu in GPUS:
        print(f"\n[{gpu}]")
        for run, time, peak in predicted(gpu, host):
            print(
                f'"{run.key}" = {{ step_ms = {1e3 * time.step_s:.1f}, '
                f"exposed_ms = {1e3 * time.exposed_s:.1f}, host_ms = {1e3 * time.host_s:.1f}, "
                f"peak_gb = {peak.allocated / 1e9:.2f} }}"
            )


if __name__ == "__main__":
    main()
