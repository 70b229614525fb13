"""The pairs' files and the plans of a folder, read again as they come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..planning.fabric import SwitchFabric
from ..planning.folder import PlanHead, plan_from
from ..planning.links import FleetLinks, links_of
from ..planning.looks import NetLook, NotCountedError, look_from
from ..reading import read_bytes
from ..record import Beside, Unusable, one_line

NET, PLAN = "gputop.net/", "gputop.fleet-plan/"


class LinkReading:
    """Reads the pairs' files that an intake names, each once."""

    def __init__(self, folder: str, fabric: SwitchFabric | None = None) -> None:
        """`fabric`: leaves and switches; None where no file names them."""
        self._folder = folder
        self._fabric = fabric or SwitchFabric()
        self._known: dict[str, tuple[Beside, NetLook | PlanHead | Unusable]] = {}
        self._hosts: set[str] = set()
        self._kinds: dict[str, str] = {}
        self._links = FleetLinks()

    def look(self, files: Iterable[Beside], kinds: Mapping[str, str]) -> FleetLinks:
        """The links as they are now; the same object where no such file came, changed or went.

        `kinds`: host -> its hardware; unlike hosts are not compared.
        """
        wanted = {item.path: item for item in files if item.schema.startswith((NET, PLAN))}
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
            looks = (item for _, item in self._known.values() if isinstance(item, NetLook))
            self._hosts = {host for look in looks for host in look.hosts}
        kept = {host: kinds[host] for host in self._hosts if host in kinds}
        if changed or kept != self._kinds:
            self._kinds = kept
            found = [item for _, item in self._known.values()]
            bad = [(item.path, item.why) for item in found if isinstance(item, Unusable)]
            sound = [item for item in found if not isinstance(item, Unusable)]
            self._links = links_of(sound, self._fabric, self._kinds, bad)
        return self._links

    def unusable(self) -> list[Unusable]:
        """The files of these that cannot be used."""
        return [item for _, item in self._known.values() if isinstance(item, Unusable)]

    def _read(self, item: Beside) -> NetLook | PlanHead | Unusable:
        """What a file says, or why it cannot be used."""
        try:
            data = read_bytes(self._folder, item.path)
            return look_from(data) if item.schema.startswith(NET) else plan_from(data)
        except ValueError as error:
            kind = error.kind if isinstance(error, NotCountedError) else "damaged"
            return Unusable(path=item.path, kind=kind, why=one_line(error, 200))
