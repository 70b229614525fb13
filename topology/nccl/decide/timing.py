"""Algorithm, protocol and time by size, from the graphs of all views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from ..nodes import System
from ..prediction import AlgorithmChoice, Graphs, Tuning
from ..settings import Settings
from ..tuning import remarks
from ..tuning.channels import coll_channels
from ..tuning.choices import choices as choices_of
from ..tuning.inputs import TuningInput
from ..tuning.merging import merge
from ..tuning.model import tuning as tuning_of
from ..tuning.version import TuningVersion, assumption
from ..versions import Version


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """What the tuning model says of one communicator; empty where there is none (RCCL)."""

    choices: tuple[AlgorithmChoice, ...] = ()
    tuning: Tuning = {}
    coll_channels: int | None = None
    ignored: tuple[tuple[str, str, str], ...] = ()
    failure: str | None = None
    assumptions: tuple[str, ...] = ()


class Hardware(NamedTuple):
    """What the tuning model asks of the systems of all views."""

    cpu_arch: str
    cpu_vendor: str
    net_gbs: float | None
    """Of the slowest NIC."""
    min_sm: int
    max_sm: int
    local_ranks: int
    """Most GPUs of one view."""


def hardware_of(systems: Sequence[System]) -> Hardware:
    """Collect the figures; the first CPU counts."""
    cpu = systems[0].nodes["CPU"][0] if systems[0].nodes["CPU"] else None
    speeds = [net.speed_gbs for system in systems for net in system.nodes["NET"]]
    return Hardware(
        cpu_arch=cpu.arch if cpu is not None else "x86",
        cpu_vendor=cpu.vendor if cpu is not None else "",
        net_gbs=min(speeds, default=None),
        min_sm=min(system.min_sm for system in systems),
        max_sm=max(system.max_sm for system in systems),
        local_ranks=max(len(system.nodes["GPU"]) for system in systems),
    )


def input_of(
    hardware: Hardware,
    graphs: Sequence[Graphs],
    settings: Settings,
    *,
    number: str,
    ranks: int,
    nodes: int,
    table: TuningVersion | None = None,
) -> TuningInput:
    """What the tuning model of NCCL `number` looks at; `graphs` are those of all views."""
    merged = merge(graphs)
    return TuningInput(
        graphs=merged,
        ranks=ranks,
        nodes=nodes,
        min_sm=hardware.min_sm,
        max_sm=hardware.max_sm,
        cpu_arch=hardware.cpu_arch,
        cpu_vendor=hardware.cpu_vendor,
        net_gbs=hardware.net_gbs,
        nvls=merged.nvls is not None,
        tree_patterns=tuple(graph.tree.pattern for graph in graphs if graph.tree is not None),
        local_ranks=hardware.local_ranks,
        number=number,
        settings=settings,
        table=table,
    )


def timing_of(
    hardware: Hardware,
    graphs: Sequence[Graphs],
    version: Version,
    settings: Settings,
    *,
    asked: str,
    ranks: int,
    nodes: int,
    table: TuningVersion | None = None,
) -> Timing:
    """Run the tuning model; `asked` is the version as it was named, "nccl-2.28.9".

    `table`: what it computes with, where that is not what the version says.
    """
    number = asked.rpartition("-")[2]
    if version.library != "nccl":
        return Timing(assumptions=tuple(filter(None, (assumption(version.library, number),))))
    comm = input_of(
        hardware, graphs, settings, number=number, ranks=ranks, nodes=nodes, table=table
    )
    figures = tuning_of(comm)
    count = coll_channels(comm)
    return Timing(
        choices=choices_of(comm, figures, count),
        tuning={
            collective: {
                algorithm: {
                    protocol: (round(time, 3), round(gbs, 3))
                    for protocol, (time, gbs) in cells.items()
                }
                for algorithm, cells in by_algorithm.items()
            }
            for collective, by_algorithm in figures.items()
        },
        coll_channels=count,
        ignored=remarks.ignored(comm),
        failure=remarks.failure(comm),
        assumptions=remarks.assumptions(comm),
    )
