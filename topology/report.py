"""Report: everything shown about a node: what follows from its snapshot, findings and events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from .hardware.terms import VendorTerms, terms_of
from .node import Node

if TYPE_CHECKING:
    from .diagnosis.engine import Diagnosis
    from .diagnosis.events import Event
    from .model.snapshot import NodeSnapshot
    from .nccl.prediction import Prediction
    from .wiring.graph import Graph
    from .wiring.relations import RelationMatrix


class Report(msgspec.Struct, frozen=True, eq=False):
    """The data of every screen and every plain command; a new report replaces it."""

    node: Node
    """The snapshot with its wiring and its prediction."""
    diagnosis: Diagnosis | None = None
    """The last diagnosis of this node; None before the rules were asked."""
    events: tuple[Event, ...] = ()
    """The events since the first snapshot, the newest first."""

    @property
    def snapshot(self) -> NodeSnapshot:
        """The snapshot that was examined."""
        return self.node.snapshot

    @property
    def words(self) -> VendorTerms:
        """What library, links and tools of its GPUs are called."""
        return terms_of(self.snapshot.machine.gpus)

    @property
    def graph(self) -> Graph:
        """The frozen graph of the machine."""
        return self.node.graph

    @property
    def matrix(self) -> RelationMatrix:
        """The relations of all GPUs and RDMA devices."""
        return self.node.matrix

    @property
    def islands(self) -> tuple[tuple[str, ...], ...]:
        """Groups of GPUs that NVLink or xGMI joins, by address."""
        return self.node.islands

    @property
    def prediction(self) -> Prediction | None:
        """The prediction for NCCL or RCCL; None until it is decided, or when there is none."""
        return self.node.prediction

    def follow(self, snapshot: NodeSnapshot) -> Report:
        """The report of a later snapshot, with the findings and events known so far."""
        return self.of(self.node.follow(snapshot))

    def of(self, node: Node) -> Report:
        """The same findings and events with a newer state of the node."""
        return Report(node, self.diagnosis, self.events)
