"""Node: a snapshot and all that follows from it. Pure; nothing here asks the machine."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

from .model.machine import Machine
from .model.quantities import CAN_ACCESS
from .model.snapshot import EnvironmentVariable, Measurement, NodeSnapshot
from .wiring.devices import DeviceIndex, devices_of
from .wiring.graph import Graph, build_graph
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


_OPEN = _Decision()


class Node:
    """A node as it was read, with all that follows; immutable, and cheap until a fact is needed.

    Graph, matrix and islands are made when first asked for. They and the prediction are the same
    objects in the nodes that `follow` this one, as long as what they were made from is equal.
    """

    __slots__ = ("_decision", "_snapshot", "_wiring")

    _snapshot: NodeSnapshot
    _wiring: _Wiring
    _decision: _Decision

    def __init__(self, snapshot: NodeSnapshot) -> None:
        self._set(snapshot, _Wiring(snapshot.machine), _OPEN)

    def _set(self, snapshot: NodeSnapshot, wiring: _Wiring, decision: _Decision) -> None:
        object.__setattr__(self, "_snapshot", snapshot)
        object.__setattr__(self, "_wiring", wiring)
        object.__setattr__(self, "_decision", decision)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a node does not change: {name!r} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a node does not change: {name!r} cannot be deleted")

    def _with(self, snapshot: NodeSnapshot, wiring: _Wiring, decision: _Decision) -> Node:
        made = Node.__new__(Node)
        made._set(snapshot, wiring, decision)
        return made

    @property
    def snapshot(self) -> NodeSnapshot:
        """The snapshot that was examined."""
        return self._snapshot

    @property
    def devices(self) -> DeviceIndex:
        """The index of its devices, by address, UUID and label."""
        return self._wiring.devices

    def reading(self, address: str) -> GpuReading | None:
        """The reading of a GPU: what changes from moment to moment."""
        return self._snapshot.readings.gpu(address)

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
        return self._decision is not _OPEN

    def follow(self, snapshot: NodeSnapshot) -> Node:
        """A later snapshot of this node; what follows from equal parts is kept."""
        known = self._snapshot
        same = known.machine is snapshot.machine or known.machine == snapshot.machine
        wiring = self._wiring if same else _Wiring(snapshot.machine)
        settled = same and _deciding(known) == _deciding(snapshot)
        return self._with(snapshot, wiring, self._decision if settled else _OPEN)

    def decide(self) -> Node:
        """The same node with its prediction; itself if that is decided. May take a second."""
        if self.decided:
            return self
        from .flags.values.predicting import predict_with_flags
        from .nccl.decide.predict import NoGpusError

        try:
            decision = _Decision(self._snapshot, predict_with_flags(self._snapshot))
        except NoGpusError as error:
            return self.undecidable(str(error))
        return self._with(self._snapshot, self._wiring, decision)

    def deciding(self, prediction: Prediction) -> Node:
        """The same node with this prediction, which somebody made already."""
        return self._with(self._snapshot, self._wiring, _Decision(self._snapshot, prediction))

    def without_nics(self) -> Node:
        """The same node with its prediction, but without the NICs of a job over several nodes."""
        decision = _Decision(None, self.prediction, self.why_no_prediction)
        return self._with(self._snapshot, self._wiring, decision)

    def undecidable(self, why: str) -> Node:
        """The same node without a prediction, with the reason."""
        return self._with(self._snapshot, self._wiring, _Decision(why_none=why))


def _deciding(
    snapshot: NodeSnapshot,
) -> tuple[tuple[EnvironmentVariable, ...], tuple[Measurement, ...]]:
    """The deciding facts besides the machine: variables, and which GPUs grant each other access."""
    granted = (
        figure
        for figure in snapshot.measurements
        if figure.quantity == CAN_ACCESS and not figure.simulated
    )
    return snapshot.environment, tuple(granted)
