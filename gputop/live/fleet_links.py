"""What the pairs' files of a folder say of the network, read again as they come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gputop.topology.fleet.hosts import in_order
from gputop.topology.fleet.planning.culprits import Localisation
from gputop.topology.fleet.planning.fabric import SwitchFabric
from gputop.topology.fleet.planning.fabric_text import fabric_guessed
from gputop.topology.fleet.planning.folder import FolderRead, PlanHead, once, plan_from, silent
from gputop.topology.fleet.planning.judging import judge
from gputop.topology.fleet.planning.localising import localise
from gputop.topology.fleet.planning.looks import NetLook, look_from
from gputop.topology.fleet.planning.maps import LeafMap, RailMap, leaf_map, rail_map
from gputop.topology.fleet.reading import read_bytes
from gputop.topology.fleet.record import Beside


@dataclass(frozen=True, slots=True)
class FleetLinks:
    """The network between the nodes, as far as pairs measured it."""

    looks: int = 0
    """Measurements of two or more nodes."""
    unfinished: int = 0
    """Those that did not come to their end, also because no file came."""
    rails: RailMap = field(default_factory=RailMap)
    leaves: LeafMap = field(default_factory=LeafMap)
    word: str = "leaf"
    """What a group of nodes is called: "leaf" or "block"."""
    found: Localisation = field(default_factory=Localisation)
    doubts: tuple[str, ...] = ()
    assumption: str = ""
    """Why the leaves may be wrong; "" where a file names them, or where there are none."""
    unusable: tuple[tuple[str, str], ...] = ()
    """Files that cannot be used, and why."""


class LinkReading:
    """Reads the pairs' files that an intake names, each once."""

    def __init__(self, folder: str, fabric: SwitchFabric | None = None) -> None:
        """`fabric`: leaves and switches; None where no file names them."""
        self._folder = folder
        self._fabric = fabric or SwitchFabric()
        self._known: dict[str, tuple[Beside, NetLook | PlanHead | str]] = {}
        self._links = FleetLinks()

    def look(self, files: Sequence[Beside]) -> FleetLinks:
        """The links as they are now; the same object where no such file came, changed or went."""
        wanted = {
            item.path: item for item in files
            if item.schema.startswith(("gputop.net/", "gputop.fleet-plan/"))
        }  # fmt: skip
        changed = bool(self._known.keys() - wanted.keys())
        for path in self._known.keys() - wanted.keys():
            del self._known[path]
        for path, item in wanted.items():
            before = self._known.get(path)
            # An intake makes another record of a file that has changed.
            if before is None or before[0] is not item:
                changed = True
                self._known[path] = item, self._read(item)
        if changed:
            self._links = self._judged()
        return self._links

    def _read(self, item: Beside) -> NetLook | PlanHead | str:
        """What a file says, or why it cannot be used."""
        try:
            data = read_bytes(self._folder, item.path)
            return look_from(data) if item.schema.startswith("gputop.net/") else plan_from(data)
        except ValueError as error:
            return str(error)

    def _judged(self) -> FleetLinks:
        runs: dict[tuple[str, tuple[str, ...]], NetLook] = {}
        read = FolderRead()
        bad: list[tuple[str, str]] = []
        for path, (_, item) in self._known.items():
            if isinstance(item, NetLook):
                once(item, runs)
            elif isinstance(item, str):
                bad.append((path, item))
            else:
                read.plans.append(item)
        read.looks += runs.values()
        read.looks += silent(read)
        if not read.looks:
            return FleetLinks(unusable=tuple(bad))
        judged = judge(read.looks, self._fabric)
        leaves = self._leaves(read.looks)
        return FleetLinks(
            looks=len(read.looks),
            unfinished=sum(not look.finished for look in read.looks),
            rails=rail_map(judged, self._fabric),
            leaves=leaf_map(judged, self._fabric, leaves),
            word=leaves.word,
            found=localise(judged, self._fabric),
            doubts=judged.doubts,
            assumption=leaves.assumption,
            unusable=tuple(bad),
        )

    def _leaves(self, looks: Sequence[NetLook]) -> SwitchFabric:
        """The leaves for the map: those of the file, else a guess from the names of the nodes."""
        if self._fabric.leaf_of:
            return self._fabric
        try:
            return fabric_guessed(in_order({host for look in looks for host in look.hosts}))
        except ValueError:
            return SwitchFabric()
