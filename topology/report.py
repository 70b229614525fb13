"""Report: a snapshot and what follows from it. Pure; nothing here asks the machine."""

from __future__ import annotations

from functools import cached_property

from .machine import Machine
from .snapshot import NodeSnapshot
from .wiring.graph import Graph, build_graph
from .wiring.relations import RelationMatrix, islands, matrix


class _Wiring:
    """What follows from a machine alone; kept while the machine stays equal."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    @cached_property
    def graph(self) -> Graph:
        return build_graph(self.machine)

    @cached_property
    def matrix(self) -> RelationMatrix:
        return matrix(self.machine)

    @cached_property
    def islands(self) -> tuple[tuple[str, ...], ...]:
        return islands(self.matrix)


class Report:
    """What every screen and every plain command shows; immutable.

    Graph, matrix and islands are made when first asked for, and are the same objects in later
    reports as long as the machine is equal.
    """

    __slots__ = ("_snapshot", "_wiring")

    def __init__(self, snapshot: NodeSnapshot, wiring: _Wiring | None = None) -> None:
        self._snapshot = snapshot
        self._wiring = wiring or _Wiring(snapshot.machine)

    @property
    def snapshot(self) -> NodeSnapshot:
        """The snapshot that was examined."""
        return self._snapshot

    @property
    def graph(self) -> Graph:
        """The frozen graph of the machine."""
        return self._wiring.graph

    @property
    def matrix(self) -> RelationMatrix:
        """The relations of all GPUs and RDMA devices."""
        return self._wiring.matrix

    @property
    def islands(self) -> tuple[tuple[str, ...], ...]:
        """Groups of GPUs that NVLink or xGMI joins, by address."""
        return self._wiring.islands

    def follow(self, snapshot: NodeSnapshot) -> Report:
        """Examine a later snapshot; what follows from an equal machine is kept."""
        known = self._wiring.machine
        same = known is snapshot.machine or known == snapshot.machine
        return Report(snapshot, self._wiring if same else None)


def examine(snapshot: NodeSnapshot, previous: Report | None = None) -> Report:
    """Work out what follows from a snapshot; `previous` saves work while the machine is equal."""
    return Report(snapshot) if previous is None else previous.follow(snapshot)
