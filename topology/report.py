"""Report: a snapshot and what follows from it. Pure; nothing here asks the machine."""

from __future__ import annotations

import msgspec

from .graph import Graph, build_graph
from .relations import RelationMatrix, islands, matrix
from .snapshot import NodeSnapshot


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What every screen and every plain command shows."""

    snapshot: NodeSnapshot
    graph: Graph
    """Frozen; the same object as long as the machine is equal."""
    matrix: RelationMatrix
    islands: tuple[tuple[str, ...], ...]
    """Groups of GPUs that NVLink or xGMI joins, by node id."""


def examine(snapshot: NodeSnapshot, previous: Report | None = None) -> Report:
    """Work out what follows from a snapshot; `previous` saves the work while the machine is equal."""
    if previous is not None:
        before, now = previous.snapshot.machine, snapshot.machine
        if before is now or before == now:
            return msgspec.structs.replace(previous, snapshot=snapshot)
    graph = build_graph(snapshot.machine)
    return Report(
        snapshot=snapshot,
        graph=graph,
        matrix=matrix(snapshot.machine),
        islands=islands(graph),
    )
