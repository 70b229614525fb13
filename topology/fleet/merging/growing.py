"""A folder as a fleet, read once, or again and again while nodes write into it."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Mapping

from ..finding import FleetFinding
from ..fleet import Fleet
from ..foreign import ForeignReport, findings_of
from ..intake import Intake
from ..outliers import outliers, strips
from ..planning.fabric import SwitchFabric
from ..planning.judging import kind_of
from ..presence import newest
from ..record import FigureKind, NodeReport
from .accused import accused
from .link_reading import LinkReading


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
        verdict="healthy",
        taken_at=0.0,
        written_at=0.0,
        modified_at=0.0,
        kinds=tuple(FigureKind(key=key, kind="node", unit=unit) for key, unit in own),
        values=array("d", [value for both in own.values() for value in both]),
        at=("",) * len(own),
    )
