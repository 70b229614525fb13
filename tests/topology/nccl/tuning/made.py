"""Communicators for the tests of the tuning model."""

from __future__ import annotations

from dataclasses import replace

from gputop.topology.nccl.prediction import Graphs, SearchGraph
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.tuning.channels import coll_channels
from gputop.topology.nccl.tuning.choices import choose
from gputop.topology.nccl.tuning.inputs import TuningInput
from gputop.topology.nccl.tuning.model import tuning

KIB, MIB = 1 << 10, 1 << 20


def graph(
    channels: int,
    intra: float,
    inter: float | None = None,
    *,
    kind: str = "NVL",
    inter_kind: str = "PIX",
    pattern: int = 4,
    same: int = 1,
) -> SearchGraph:
    """A searched graph of so many channels before they are doubled."""
    return SearchGraph(
        pattern=pattern,
        channels=channels,
        bw_intra=intra,
        bw_inter=intra if inter is None else inter,
        type_intra=kind,
        type_inter=inter_kind,
        same_channels=same,
        cross_nic=0,
    )


H200 = TuningInput(
    graphs=Graphs(ring=graph(12, 30), tree=graph(12, 30, pattern=1)),
    ranks=4,
    min_sm=90,
    max_sm=90,
    nvls=False,
)
"""The recorded node: 4 H200 behind NVSwitch, NVLS off."""


H100 = replace(
    H200,
    graphs=Graphs(
        ring=graph(12, 30), tree=graph(12, 30, pattern=1), nvls=graph(8, 40, 60, pattern=5)
    ),
    ranks=8,
    nvls=True,
)


def changed(comm: TuningInput, **environment: str) -> TuningInput:
    """The same communicator under an environment."""
    return replace(comm, settings=Settings(environment))


def picked(comm: TuningInput, collective: str, size: int) -> str:
    """Algorithm and protocol, and the channels."""
    choice = choose(comm, tuning(comm), coll_channels(comm), collective, size)
    assert choice is not None
    first, last = choice.channels
    return f"{choice.algorithm} {choice.protocol} {first}..{last}"


def switches(comm: TuningInput, collective: str) -> str:
    """Where the choice changes from 1 KiB to 16 GiB: "RING LL, 4096K RING LL128"."""
    table, channels = tuning(comm), coll_channels(comm)
    found: list[str] = []
    last = ""
    for exponent in range(10, 35):
        choice = choose(comm, table, channels, collective, 1 << exponent)
        name = f"{choice.algorithm} {choice.protocol}" if choice else last
        if name != last:
            found.append(f"{(1 << exponent) // KIB}K {name}" if last else name)
            last = name
    return ", ".join(found)


def node(
    ranks: int,
    sm: int,
    ring: SearchGraph,
    tree: SearchGraph,
    nvls: SearchGraph | None = None,
    nodes: int = 1,
) -> TuningInput:
    """A communicator of version 2.30.7."""
    graphs = Graphs(ring=ring, tree=tree, nvls=nvls)
    return TuningInput(
        graphs=graphs, ranks=ranks, nodes=nodes, min_sm=sm, max_sm=sm, number="2.30.7"
    )
