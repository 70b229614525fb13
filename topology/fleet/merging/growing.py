"""A folder as a fleet, read once, or again and again while nodes write into it."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from ...model.gathered import gathered
from ...model.page import Fact, Fix
from ...model.severity import BROKEN, CANNOT_TELL, NOTICE, SLOW, Verdict
from ..finding import PAIRS, SHARED, FleetFinding, finding
from ..fleet import Fleet
from ..foreign import ForeignReport, findings_of
from ..intake import Intake
from ..outliers import outliers, strips
from ..planning.culprits import LINK, NODE, PATH, RAIL, SWITCH, Culprit
from ..planning.fabric import SwitchFabric
from ..planning.folder import PlanHead, plan_from
from ..planning.judging import kind_of
from ..planning.links import FleetLinks, links_of
from ..planning.looks import NetLook, NotCountedError, look_from
from ..presence import newest
from ..reading import read_bytes
from ..record import Beside, FigureKind, FileFault, NodeReport, Unusable, one_line
from ..section import WHOLE_NODE

# The pairs' files and the plans of a folder, read again as they come.
NET, PLAN = "gputop.net/", "gputop.fleet-plan/"

_FROM = "measurements of pairs"
_OWN = (NODE, LINK)
"""Kinds of culprits that are part of one node."""
_WAITS = "A collective over all nodes goes at the pace of the slowest link."
_STOPS = "A job over these nodes hangs, ends or computes with wrong data."


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
            kind = error.kind if isinstance(error, NotCountedError) else FileFault.DAMAGED.value
            return Unusable(path=item.path, kind=FileFault(kind), why=one_line(error, 200))


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
    shapes = gathered((kinds.get(host, ""), node) for host, node in made.items())
    return outliers(strips(shapes), made)


def _made(host: str, path: str, own: Mapping[tuple[str, str], tuple[float, float]]) -> NodeReport:
    return NodeReport(
        host=host,
        path=path,
        verdict=Verdict.HEALTHY,
        taken_at=0.0,
        written_at=0.0,
        modified_at=0.0,
        kinds=tuple(FigureKind(key=key, over=WHOLE_NODE, unit=unit) for key, unit in own),
        values=array("d", [value for both in own.values() for value in both]),
        at=("",) * len(own),
    )


# What pairs of nodes prove, as findings beside those about the nodes themselves.
def accused(links: FleetLinks, folder: str) -> Iterator[FleetFinding]:
    """The findings; `folder`: where the pairs' files lie."""
    again = Fix.of(
        "Measure it once more with other partners", "gputop fleet plan {:folder}", folder
    )
    kinds: dict[tuple[object, ...], list[Culprit]] = {}
    for culprit in links.found.culprits:
        # Of parts that several nodes share each is a finding of its own.
        own = () if culprit.kind in _OWN else (culprit.switch, culprit.hosts)
        key = (culprit.kind, culprit.rail, culprit.direction, culprit.fails, *own)
        kinds.setdefault(key, []).append(culprit)
    for members in kinds.values():
        yield _culprits(members, again)
    yield from _wrong(links, again)
    yield from _open(links, again)


def _culprits(members: list[Culprit], again: Fix) -> FleetFinding:
    first = members[0]
    is_own = first.kind in _OWN
    return finding(
        f"net-{first.kind}",
        BROKEN if first.fails else SLOW,
        PAIRS if is_own else SHARED,
        _title(first),
        {host for culprit in members for host in culprit.hosts},
        evidence=[
            Fact(
                what=culprit.hosts[0] if is_own else culprit.said,
                value=culprit.because,
                source=_FROM,
            )
            for culprit in members
        ],
        disproof="looks with other partners that are well",
        impact=_STOPS if first.fails else _WAITS,
        fix=[again],
    )


def _title(culprit: Culprit) -> str:
    """What is wrong, without the name of a node that has it."""
    rail = "" if culprit.rail is None else f"rail {culprit.rail}"
    one_way = f", {culprit.direction} only" if culprit.direction else ""
    bad = "measurements do not finish, or data arrives wrong" if culprit.fails else "too slow"
    if culprit.kind == NODE:
        return f"between nodes, with several partners: {bad}"
    if culprit.kind == LINK:
        return f"between nodes, {rail} (NIC, cable or switch port){one_way}: {bad}"
    if culprit.kind == SWITCH:
        at = f" {rail}," if rail else ""
        return f"switch {culprit.switch},{at} or what the nodes below it share: {bad}"
    if culprit.kind == RAIL:
        return f"{rail} of all nodes, its switches or how its NICs are set up: {bad}"
    if culprit.kind == PATH:
        return f"the path between these two, which are well with others: {bad}"
    return f"{culprit.said}: {bad}"


def _wrong(links: FleetLinks, again: Fix) -> Iterator[FleetFinding]:
    """Wrong data between nodes of which none is accused."""
    named = {host for culprit in links.found.culprits for host in culprit.hosts}
    pairs = [hosts for hosts in links.wrong if named.isdisjoint(hosts)]
    if pairs:
        yield finding(
            "net-wrong-data",
            BROKEN,
            SHARED,
            "data arrived wrong between them; which of them is to blame is not known",
            {host for hosts in pairs for host in hosts},
            evidence=[
                Fact(what=" and ".join(hosts), value="wrong data", source=_FROM) for hosts in pairs
            ],
            disproof="looks with other partners that are well",
            impact=_STOPS,
            fix=[again],
        )


def _open(links: FleetLinks, again: Fix) -> Iterator[FleetFinding]:
    """What is not decided: nobody is accused, and nobody is called healthy."""
    found = links.found
    if found.suspects:
        yield finding(
            "net-suspect",
            CANNOT_TELL,
            PAIRS,
            "bad between nodes; whether it or its partner is to blame is not known",
            (one.host for one in found.suspects),
            evidence=[
                Fact(what=one.host, value=f"bad in {one.bad} of {one.looks} looks", source=_FROM)
                for one in found.suspects
            ],
            impact="More looks tell who is to blame.",
            fix=[again],
        )
    for switch in found.switches:
        rail = "" if switch.rail is None else f", rail {switch.rail}"
        yield finding(
            "net-suspect-switch",
            CANNOT_TELL,
            SHARED,
            f"switch {' or '.join(switch.switches)}{rail}, or its uplinks: bad with others",
            switch.hosts,
            impact="Pairs below the switch tell it from its uplinks.",
            fix=[again],
        )
    for look in links.wide:
        yield finding(
            "net-unfinished",
            CANNOT_TELL,
            SHARED,
            f"a measurement of {len(look.hosts)} nodes {look.status}: "
            f"{one_line(look.why or 'no reason given', 200)}",
            look.hosts,
            impact="Pairs of them tell who is to blame.",
        )
    if links.doubts:
        yield _doubts(links.doubts, undecided=links.undecided)


def _doubts(doubts: Iterable[str], *, undecided: bool) -> FleetFinding:
    first, *more = doubts
    return finding(
        "net-doubt",
        CANNOT_TELL if undecided else NOTICE,
        SHARED,
        f"figures between nodes: {first}",
        (),
        evidence=[Fact(what="doubt", value=text, source=_FROM) for text in more],
        impact="These figures neither accuse nor acquit anybody.",
    )
