"""Report: a snapshot and what follows from it. Pure; nothing here asks the machine."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from .model.machine import Machine
from .model.snapshot import EnvironmentVariable, Measurement, NodeSnapshot
from .wiring.graph import Graph, build_graph
from .wiring.relations import RelationMatrix, islands, matrix

if TYPE_CHECKING:
    from .diagnosis.engine import Diagnosis
    from .diagnosis.events import Event
    from .nccl.prediction import Prediction


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


class _Decisions:
    """What NCCL or RCCL will do; made once for a machine, its variables and its grants."""

    def __init__(self, snapshot: NodeSnapshot) -> None:
        self.machine = snapshot.machine
        self.rest = _deciding(snapshot)
        self.prediction: Prediction | None = None
        self.why_none = ""

    def fit(self, snapshot: NodeSnapshot) -> bool:
        same = self.machine is snapshot.machine or self.machine == snapshot.machine
        return same and self.rest == _deciding(snapshot)


def _deciding(
    snapshot: NodeSnapshot,
) -> tuple[tuple[EnvironmentVariable, ...], tuple[Measurement, ...]]:
    granted = (one for one in snapshot.measurements if one.quantity == "can_access")
    return snapshot.environment, tuple(granted)


class Report:
    """What every screen and every plain command shows; immutable.

    Graph, matrix and islands are made when first asked for, and are the same objects in later
    reports as long as the machine is equal. The prediction is made by `decide`; what the rules
    say and what happened are handed in by whoever watches the node.
    """

    __slots__ = ("_decisions", "_snapshot", "_wiring", "diagnosis", "events")

    diagnosis: Diagnosis | None
    """What the rules said of this node last; None where nobody asked them yet."""
    events: tuple[Event, ...]
    """What happened since somebody began to watch, the newest first."""

    def __init__(
        self,
        snapshot: NodeSnapshot,
        wiring: _Wiring | None = None,
        decisions: _Decisions | None = None,
        diagnosis: Diagnosis | None = None,
        events: tuple[Event, ...] = (),
    ) -> None:
        self.diagnosis = diagnosis
        self.events = events
        self._snapshot = snapshot
        self._wiring = wiring or _Wiring(snapshot.machine)
        self._decisions = decisions or _Decisions(snapshot)

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
        decisions = self._decisions if self._decisions.fit(snapshot) else None
        wiring = self._wiring if same else None
        return Report(snapshot, wiring, decisions, self.diagnosis, self.events)

    def told(self, diagnosis: Diagnosis | None, events: tuple[Event, ...]) -> Report:
        """The same report with what the rules say and what happened."""
        return Report(self._snapshot, self._wiring, self._decisions, diagnosis, events)

    @property
    def prediction(self) -> Prediction | None:
        """What NCCL or RCCL will do; None until `decide` has run, or when nothing can be said."""
        return self._decisions.prediction

    @property
    def why_no_prediction(self) -> str:
        """Why there is none, once `decide` has run; "" before, or when there is one."""
        return self._decisions.why_none

    def decide(self) -> bool:
        """Predict, unless that was done; says whether anything is new. May take a second."""
        decisions = self._decisions
        if decisions.prediction is not None or decisions.why_none:
            return False
        from .nccl.decide.predict import NoGpusError, predict

        try:
            decisions.prediction = predict(self._snapshot)
        except NoGpusError as error:
            decisions.why_none = str(error)
        except Exception as error:
            # Said once: another try on the same machine would fail alike.
            decisions.why_none = f"{type(error).__name__}: {error}"
            raise
        return True


def examine(snapshot: NodeSnapshot, previous: Report | None = None) -> Report:
    """Work out what follows from a snapshot; `previous` saves work while the machine is equal."""
    return Report(snapshot) if previous is None else previous.follow(snapshot)
