"""Node: a snapshot and all that follows from it. Pure; nothing here asks the machine."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from .model.machine import Machine
from .model.quantities import CAN_ACCESS
from .model.snapshot import EnvironmentVariable, Measurement, NodeSnapshot
from .wiring.devices import DeviceIndex, devices_of
from .wiring.graph import Graph, build_graph
from .wiring.likeness import PairIndex, pairs_of
from .wiring.relations import RelationMatrix, islands, matrix

if TYPE_CHECKING:
    from .model.readings import GpuReading
    from .nccl.prediction import DomainView, Prediction


class _Wiring:
    """The facts that follow from a machine alone; kept while the machine stays equal."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    @cached_property
    def graph(self) -> Graph:
        return build_graph(self.machine)

    @cached_property
    def devices(self) -> DeviceIndex:
        return devices_of(self.machine)

    @cached_property
    def matrix(self) -> RelationMatrix:
        return matrix(self.machine)

    @cached_property
    def islands(self) -> tuple[tuple[str, ...], ...]:
        return islands(self.matrix)


class _Decision:
    """The prediction, or why there is none; neither before it was requested."""

    def __init__(
        self,
        snapshot: NodeSnapshot | None = None,
        prediction: Prediction | None = None,
        why_none: str = "",
    ) -> None:
        self.prediction, self.why_none = prediction, why_none
        self._snapshot = snapshot

    @cached_property
    def nic_views(self) -> tuple[DomainView, ...]:
        if self.prediction is None or self._snapshot is None:
            return ()
        from .nccl.decide.predict import nics_between_nodes

        return nics_between_nodes(self._snapshot, self.prediction)


UNDECIDED = _Decision()
_UNWIRED = _Wiring(Machine())


class Node(msgspec.Struct, frozen=True, eq=False):
    """A node as it was read, with all that follows; immutable, and cheap until a fact is needed.

    Graph, matrix and islands are made when first asked for. They and the prediction are the same
    objects in the nodes that `follow` this one, as long as what they were made from is equal.
    """

    snapshot: NodeSnapshot
    """The snapshot that was examined."""
    _wiring: _Wiring = _UNWIRED
    _decision: _Decision = UNDECIDED

    def __post_init__(self) -> None:
        """Begin with the wiring of the machine."""
        if self._wiring is _UNWIRED:
            msgspec.structs.force_setattr(self, "_wiring", _Wiring(self.snapshot.machine))

    @property
    def machine(self) -> Machine:
        """The part of the snapshot that stays the same."""
        return self.snapshot.machine

    @property
    def devices(self) -> DeviceIndex:
        """The index of its devices, by address, UUID and label."""
        return self._wiring.devices

    @property
    def pairs(self) -> PairIndex:
        """The paths of its pairs of GPUs, and which are alike."""
        return pairs_of(self.snapshot.machine)

    def reading(self, address: str) -> GpuReading | None:
        """The reading of a GPU: what changes from moment to moment."""
        return self.snapshot.readings.gpu(address)

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

    @property
    def prediction(self) -> Prediction | None:
        """The prediction for NCCL or RCCL; None until it is decided, or when there is none."""
        return self._decision.prediction

    @property
    def why_no_prediction(self) -> str:
        """Why there is no prediction; "" until that is decided, or when there is one."""
        return self._decision.why_none

    @property
    def nic_views(self) -> tuple[DomainView, ...]:
        """The NICs of each rank in a job over several nodes; () without a prediction.

        Made when first asked for, which may take half a second with 128 GPUs.
        """
        return self._decision.nic_views

    @property
    def decided(self) -> bool:
        """Whether there is a prediction, or a reason why there is none."""
        return self._decision is not UNDECIDED

    def follow(self, snapshot: NodeSnapshot) -> Node:
        """A later snapshot of this node; what follows from equal parts is kept."""
        known = self.snapshot
        same = known.machine is snapshot.machine or known.machine == snapshot.machine
        wiring = self._wiring if same else _Wiring(snapshot.machine)
        settled = same and _prediction_inputs(known) == _prediction_inputs(snapshot)
        return Node(snapshot, wiring, self._decision if settled else UNDECIDED)

    def decide(self) -> Node:
        """The same node with its prediction; itself if that is decided. May take a second."""
        if self.decided:
            return self
        from .flags.values.predicting import predict_with_flags
        from .nccl.decide.predict import NoGpusError

        try:
            decision = _Decision(self.snapshot, predict_with_flags(self.snapshot))
        except NoGpusError as error:
            return self.without_prediction(str(error))
        return Node(self.snapshot, self._wiring, decision)

    def with_prediction(self, prediction: Prediction) -> Node:
        """The same node with this prediction, which somebody made already."""
        return Node(self.snapshot, self._wiring, _Decision(self.snapshot, prediction))

    def without_nics(self) -> Node:
        """The same node with its prediction, but without the NICs of a job over several nodes."""
        decision = _Decision(None, self.prediction, self.why_no_prediction)
        return Node(self.snapshot, self._wiring, decision)

    def without_prediction(self, why: str) -> Node:
        """The same node without a prediction, with the reason."""
        return Node(self.snapshot, self._wiring, _Decision(why_none=why))


def _prediction_inputs(
    snapshot: NodeSnapshot,
) -> tuple[tuple[EnvironmentVariable, ...], tuple[Measurement, ...]]:
    """The deciding facts besides the machine: variables, and which GPUs grant each other access."""
    granted = (
        figure
        for figure in snapshot.measurements
        if figure.quantity == CAN_ACCESS and not figure.simulated
    )
    return snapshot.environment, tuple(granted)
