"""A folder as a fleet, read once, or again and again while nodes write into it."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Mapping

from ...model.severity import Verdict
from ..finding import FleetFinding
from ..fleet import Fleet
from ..foreign import ForeignReport, findings_of
from ..intake import Intake
from ..outliers import outliers, strips
from ..planning.fabric import SwitchFabric
from ..planning.folder import PlanHead, plan_from
from ..planning.judging import kind_of
from ..planning.links import FleetLinks, links_of
from ..planning.looks import NetLook, NotCountedError, look_from
from ..presence import newest
from ..reading import read_bytes
from ..record import Beside, FigureKind, NodeReport, Unusable, one_line
from .accused import accused

# The pairs' files and the plans of a folder, read again as they come.
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


def read_fleet(
    folder: str,
    expected: Collection[str] = (),
    *,
    fabric: SwitchFabric | None = None,
    now: float | None = None,
) -> Fleet:
    """Read a folder once. Raises OSError where it cannot be listed.

    `expected`: hosts that were asked for; `fabric`: leaf switches where they are known.
    """
    return Growing(folder, expected, fabric).look(now=now)


class Growing:
    """A folder that is read again and again while nodes write into it; files are read once."""

    def __init__(
        self, folder: str, expected: Collection[str] = (), fabric: SwitchFabric | None = None
    ) -> None:
        """`expected`: hosts that were asked for; `fabric`: leaf switches where they are known."""
        self._intake = Intake(folder)
        self._links = LinkReading(folder, fabric)
        self._expected = tuple(expected)
        self._fleet: Fleet | None = None

    def look(
        self, *, now: float | None = None, progress: Callable[[int, int], None] | None = None
    ) -> Fleet:
        """The fleet as it is now; the same object where nothing came. Raises OSError.

        `progress` is told how many files of how many are read.
        """
        changed = self._intake.take(progress)
        if changed or self._fleet is None:
            self._fleet = self._made(now)
        return self._fleet

    def _made(self, now: float | None) -> Fleet:
        intake = self._intake
        reports = list(intake.reports())
        beside = list(intake.beside())
        kinds = {host: kind_of(report.product) for host, report in newest(reports)[0].items()}
        links = self._links.look(beside, kinds)
        foreign = intake.foreign()
        bad = self._links.unusable()
        paths = {item.path for item in bad}
        return Fleet(
            intake.folder,
            reports,
            unusable=[*intake.unusable(), *bad],
            beside=(item for item in beside if item.path not in paths),
            foreign=[*findings_of(foreign), *odd_outputs(foreign, kinds)],
            expected=self._expected,
            links=links,
            accused=accused(links, intake.folder),
            now=now,
        )


# Figures of nccl-tests and nvbandwidth, one file a node, beside those of the other nodes.
def odd_outputs(reports: Iterable[ForeignReport], kinds: Mapping[str, str]) -> list[FleetFinding]:
    """Nodes whose figures stand out; `kinds`: host -> its hardware, where its check tells it.

    Only the same measurement of the same tool, size and number of ranks is compared. Of several
    files of a node the last one counts.
    """
    figures: dict[str, dict[tuple[str, str], tuple[float, float]]] = {}
    paths: dict[str, str] = {}
    for report in reports:
        if report.host is not None and report.figures:
            paths[report.host] = report.path
            own = figures.setdefault(report.host, {})
            own.update({(one.key, one.unit): (one.value, one.worst) for one in report.figures})
    made = {host: _made(host, paths[host], own) for host, own in figures.items()}
    shapes: dict[str, list[NodeReport]] = {}
    for host, node in made.items():
        shapes.setdefault(kinds.get(host, ""), []).append(node)
    return outliers(strips(shapes), made)


def _made(host: str, path: str, own: Mapping[tuple[str, str], tuple[float, float]]) -> NodeReport:
    return NodeReport(
        host=host,
        path=path,
        verdict=Verdict.HEALTHY,
        taken_at=0.0,
        written_at=0.0,
        modified_at=0.0,
        kinds=tuple(FigureKind(key=key, kind="node", unit=unit) for key, unit in own),
        values=array("d", [value for both in own.values() for value in both]),
        at=("",) * len(own),
    )
