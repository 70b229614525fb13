"""A cache of what predictions for one node share while their variables change."""

import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...model.element import Element
from ...model.snapshot import NodeSnapshot
from ..settings import Settings
from ..system.networks import Network, nets_of, network_of, reported
from ..system.prepared import PreparedSystem
from ..system.ranks import Place, ranks_of
from ..system.trimmed import trimmed
from ..versions import Version
from ..xml.base import Base, base_topology
from ..xml.detect import detect
from .communicator import NodeCommunicator, chosen, communicator
from .distances import Distances
from .reuse import derived
from .untuned import Key, TrackedSettings, UntunedDecision

DECISIONS = 4


class RankedTopology(NamedTuple):
    """The topology of a node and who takes part."""

    root: Element
    """The XML that the snapshot came from, else the XML that the library would detect; without
    what the communicator does not take."""
    group: NodeCommunicator
    network: Network
    assumptions: tuple[str, ...]
    asked: Mapping[str, str | None]
    """The variables that were asked for on the way."""


class LentSystem(NamedTuple):
    """A system, and the words for its ways."""

    prepared: PreparedSystem
    distances: Distances


def ranked_topology(
    snapshot: NodeSnapshot,
    values: Mapping[str, str],
    version: Version,
    gpus: Sequence[str] | None,
) -> RankedTopology:
    """Read or detect the topology."""
    settings = TrackedSettings(values)
    machine = snapshot.machine
    known = machine.nccl_topology
    remarks: list[str] = []
    wanted = chosen(machine, settings, gpus, remarks)
    if known is not None and known.has("gpu"):
        root = known
    else:
        base = Base(known) if known is not None else base_topology(snapshot, settings)
        found = detect(machine, settings, base.element, wanted if version.fuses else None)
        root, remarks = found.element, [*filter(None, [base.remark]), *found.assumptions, *remarks]
    group = communicator(root, machine, wanted)
    network = network_of(root, settings)
    nets = reported(root, network, settings)
    if group.ranks and (len(nets) < len(nets_of(root)) or group.ranks != ranks_of(root)):
        root = trimmed(root, group.ranks, nets, fuses=version.fuses)
    return RankedTopology(root, group, network, tuple(remarks), settings.asked)


class PredictionCache:
    """A cache from one prediction to the next, for one node, library and choice of GPUs.

    Several threads may ask: a system is lent to one at a time, and another is made meanwhile.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._topology: RankedTopology | None = None
        self._lent: LentSystem | None = None
        self._decisions: tuple[tuple[Key, Mapping[str, str | None], UntunedDecision], ...] = ()

    def untuned(self, key: Key, settings: Settings) -> UntunedDecision | None:
        """The decision that follows from one of before without another search."""
        for what, asked, untuned in self._decisions:
            found = derived(untuned, asked, settings) if what == key else None
            if found is not None:
                return found
        return None

    def keep(self, key: Key, asked: Mapping[str, str | None], untuned: UntunedDecision) -> None:
        """Keep a decision that was made, in place of the oldest."""
        self._decisions = ((key, asked, untuned), *self._decisions[: DECISIONS - 1])

    def topology(
        self,
        snapshot: NodeSnapshot,
        values: Mapping[str, str],
        version: Version,
        gpus: Sequence[str] | None,
    ) -> RankedTopology:
        """The topology of before, if all variables that it asked for have the values of then."""
        found = self._topology
        if found is None or any(values.get(name) != value for name, value in found.asked.items()):
            found = self._topology = ranked_topology(snapshot, values, version, gpus)
        return found

    def lend(
        self,
        root: Element,
        version: Version,
        settings: Settings,
        ranks: dict[Place, int],
        *,
        placed: bool,
    ) -> LentSystem:
        """The system for these, made before or now; `placed`: it was read where the GPUs hang."""
        with self._lock:
            found, self._lent = self._lent, None
        if found is None or not found.prepared.is_for(root, version, settings, ranks):
            found = LentSystem(
                PreparedSystem(root, version, settings, ranks), Distances(version, placed=placed)
            )
        return found

    def take_back(self, lent: LentSystem) -> None:
        """Keep a system for the next prediction."""
        with self._lock:
            self._lent = lent
