"""A folder of many nodes' checks as one answer: who is odd, broken, missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Annotated, Any, ClassVar
from xml.etree import ElementTree as Xml

import msgspec

from gputop.answers.fabric_option import fabric_of_option
from gputop.answers.question import Answer, Clash, Option, Question, Request
from gputop.exits import USAGE, Exit
from gputop.printing.finding_blocks import finding_blocks
from gputop.printing.fleet import by_state, sign_of, verdict_line
from gputop.printing.junit import save, xml_text
from gputop.terminal.clean import clean
from gputop.topology.fleet.draining import drains
from gputop.topology.fleet.finding import COMPARED, HEALTHY, SHARED, FleetFinding, differences
from gputop.topology.fleet.fleet import Fleet
from gputop.topology.fleet.hosts import LIMIT_HOSTS, expand, fold, in_order
from gputop.topology.fleet.merging.growing import read_fleet
from gputop.topology.fleet.outliers import LEAST_NODES, LEAST_SHARE, LIMIT_Z
from gputop.topology.fleet.planning.document import culprit_fields
from gputop.topology.fleet.planning.fabric import SwitchFabric
from gputop.topology.fleet.since import FleetChange, changed
from gputop.topology.model import severity
from gputop.topology.model.copied import REFUSED
from gputop.topology.model.english import first, plural
from gputop.topology.model.gathered import gathered_by
from gputop.topology.model.page import Blank, Block, Commands, Indented, Page, Text
from gputop.topology.model.severity import NOTICE, NodeState

FAILED = (NodeState.BROKEN, NodeState.MISSING, NodeState.SLOW, NodeState.ODD)
OPERATORS = frozenset("@!&^")
"""What only ClusterShell understands: groups, and operators between lists."""
_MOST_GROUPS = 6
_MOST_NOTICES = 12
_MOST_PARTS = 3
"""How many things are named in which a node is other than its equals."""
_LONGEST_LIST = 400
"""Letters of a list of hosts; a longer one is cut behind a whole name, with their number."""


class FleetRequest(Request, frozen=True, kw_only=True):
    """Merge what the nodes of DIR wrote with `gputop check -o`: who is odd, broken, missing.

    Exit codes: 0 all healthy, 1 slow or odd, 2 broken or missing, 3 cannot tell.
    """

    clashes: ClassVar[tuple[Clash, ...]] = (
        Clash(
            ("--demo",),
            ("folder", "--nodes", "--topology", "--since"),
            "--demo is a cluster of its own: leave DIR, --nodes, --topology and --since out",
        ),
    )
    folder: Annotated[str, Option("folder", "The folder.", completes="files")] = ""
    demo: Annotated[
        bool, Option("--demo", "Show a made-up cluster of 32 nodes, some of them odd.")
    ] = False
    nodes: Annotated[
        str | None,
        Option(
            "--nodes",
            "Nodes that should be there, such as g[1-16]: those that wrote nothing are missing.",
            "LIST",
        ),
    ] = None
    as_text: Annotated[
        bool, Option("--text", "Print text instead of opening the app, on a terminal too.")
    ] = False
    topology: Annotated[
        str | None,
        Option(
            "--topology",
            "Leaf switches, to judge results of pairs, as `gputop fleet plan` takes them.",
            "FILE",
            "files",
        ),
    ] = None
    junit: Annotated[
        str | None,
        Option("--junit", "Also write a JUnit file, one test case per node.", "FILE", "files"),
    ] = None
    since: Annotated[
        str | None,
        Option(
            "--since",
            "An earlier folder: say what is new since then, and what is gone.",
            "DIR",
            "files",
        ),
    ] = None
    verbose: Annotated[
        bool, Option("--verbose", "Show evidence, and node by node.", short="-v")
    ] = False

    def expected(self) -> tuple[str, ...]:
        """The hosts that should be there. Raises Exit."""
        return hosts_of(self.nodes)

    def fabric(self) -> SwitchFabric:
        """The network between the nodes. Raises Exit."""
        return fabric_of_option(self.topology, self.expected)


class FleetAnswer(Answer, frozen=True, kw_only=True, tag="gputop.fleet/1"):
    """The fleet, its findings, and both tables: finding -> hosts and host -> findings."""

    hidden = ("fleet", "change", "verbose")
    fleet: Fleet
    change: FleetChange | None = None
    """What is different from an earlier reading."""
    verbose: bool = False

    @classmethod
    def of(
        cls, fleet: Fleet, change: FleetChange | None = None, *, verbose: bool = False
    ) -> FleetAnswer:
        """The answer about a fleet."""
        return cls(
            source=(fleet.folder,),
            assumptions=tuple(_assumptions(fleet)),
            fleet=fleet,
            change=change,
            verbose=verbose,
        )

    @property
    def exit_code(self) -> int:
        """The code of the verdict."""
        return self.fleet.verdict.exit_code

    @property
    def remarks(self) -> tuple[str, ...]:
        """None: the text is about nodes, whose verdict says what was not known."""
        return ()

    def document(self) -> dict[str, Any]:
        """The JSON document; made of the fleet when it is asked for."""
        fleet = self.fleet
        return {
            **super().document(),
            "verdict": fleet.verdict,
            "exit_code": self.exit_code,
            "counts": {"nodes": len(fleet.hosts), **fleet.counts},
            "expected": fold(fleet.expected) if fleet.expected else None,
            "findings": [*map(_fields, fleet.findings)],
            "hosts": {
                host: {
                    "state": state,
                    "file": None if (report := fleet.nodes.get(host)) is None else report.path,
                    "findings": list(dict.fromkeys(it.id for it in fleet.by_host.get(host, ()))),
                }
                for host, state in fleet.states.items()
            },
            "groups": [
                {**msgspec.to_builtins(group), "hosts": group.folded, "count": len(group.hosts)}
                for group in fleet.groups
            ],
            "figures": [
                {
                    "figure": strip.figure.key,
                    "kind": strip.figure.over,
                    "unit": strip.figure.unit,
                    "product": strip.product,
                    "nodes": len(strip.hosts),
                    "median": strip.median,
                    "mad": strip.mad,
                    "limit": strip.limit,
                    "healthy": strip.figure.healthy,
                    "low": strip.figure.low,
                    "basis": strip.figure.basis,
                    "outliers": list(strip.outliers),
                }
                for strip in fleet.strips
            ],
            "drain": [
                {**msgspec.to_builtins(drain), "hosts": fold(drain.hosts)}
                for drain in drains(fleet, slight=True)
            ],
            "pairs": list(fleet.pairs),
            "links": {
                "looks": fleet.links.looks,
                "unfinished": fleet.links.unfinished,
                "culprits": [*map(culprit_fields, fleet.links.found.culprits)],
                "suspects": [item.host for item in fleet.links.found.suspects],
                "doubts": list(fleet.links.doubts),
            },
            "change": None if self.change is None else _change_fields(self.change),
        }


def answer(asked: FleetRequest) -> FleetAnswer:
    """Read the folder, and the earlier one. Raises Exit."""
    expected, fabric = asked.expected(), asked.fabric()
    fleet = _read(asked.folder, expected, fabric)
    change = None
    if asked.since is not None:
        change = changed(_read(asked.since, expected, fabric), fleet)
    if asked.junit is not None:
        save(junit_suite(fleet), asked.junit)
    return FleetAnswer.of(fleet, change, verbose=asked.verbose)


def _read(folder: str, expected: tuple[str, ...], fabric: SwitchFabric) -> Fleet:
    try:
        return read_fleet(folder, expected, fabric=fabric)
    except (OSError, ValueError) as error:
        raise no_folder(folder, error) from error


def no_folder(folder: str, error: OSError | ValueError) -> Exit:
    """What ends the command where the folder cannot be read."""
    why = getattr(error, "strerror", None) or error
    return Exit(f"{clean(folder, 200)}: {clean(why, 200)}", USAGE)


def _fields(item: FleetFinding) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(item)
    return {**fields, "hosts": item.folded, "count": len(item.hosts)}


def _change_fields(change: FleetChange) -> dict[str, Any]:
    return {
        "worse": msgspec.to_builtins(change.worse),
        "better": msgspec.to_builtins(change.better),
        "other": msgspec.to_builtins(change.other),
        "came": [_fields(item) for item in change.came],
        "gone": [_fields(item) for item in change.gone],
    }


def _assumptions(fleet: Fleet) -> Iterator[str]:
    if not fleet.expected:
        yield "which nodes should be here was not said (--nodes); none is called missing"
    if fleet.strips:
        yield (
            f"a figure stands out from {LIMIT_Z:g} robust standard deviations and "
            f"{LEAST_SHARE:.0%} below its median, among {LEAST_NODES} nodes or more"
        )
    if any(report.simulated for report in fleet.nodes.values()):
        yield "some nodes are demos: their figures are simulated"


def page(found: FleetAnswer) -> Page:
    """The verdict first, then who is meant, what differs, and what to do."""
    fleet, verbose = found.fleet, found.verbose
    blocks: list[Block] = [Text(verdict_line(fleet))]
    whose = (f"{state.word} {_listed(hosts)}" for state, hosts in by_state(fleet))
    blocks += [Text(line, indent=2) for line in (" · ".join(whose),) if line]
    notices = [item for item in fleet.findings if item.severity == NOTICE]
    if verbose:
        blocks += [block for item in fleet.findings for block in _finding(fleet, item)]
    else:
        blocks += _by_cause(fleet, [one for one in fleet.findings if one.severity != NOTICE])
        blocks += [Text(f"{item.severity.sign} {_said(item)}") for item in notices[:_MOST_NOTICES]]
    if len(notices) > _MOST_NOTICES and not verbose:
        blocks.append(Text(f"• {len(notices) - _MOST_NOTICES} more notices; -v shows them"))
    blocks += _groups(fleet)
    if found.change is not None:
        blocks += _change(found.change)
    blocks += _drains(fleet, slight=verbose)
    return Page(title="fleet", blocks=(*blocks, *(_by_host(fleet) if verbose else ())))


def _drains(fleet: Fleet, *, slight: bool) -> Iterator[Block]:
    """Lines that take the bad nodes out of a Slurm cluster."""
    out = drains(fleet, slight=slight)
    lines = tuple(drain.command for drain in out if drain.command)
    if out:
        yield Blank()
    if lines:
        yield Text("To take them out of a Slurm cluster (copy; gputop runs nothing)")
        yield Commands(lines)
    for drain in out:
        if not drain.command:
            yield Text(f"{_listed(drain.hosts)}: {REFUSED}")


def _finding(fleet: Fleet, item: FleetFinding) -> Iterator[Block]:
    """A finding with its evidence."""
    yield Text(f"{sign_of(fleet, item.hosts, item)} {_said(item)}")
    yield Indented(finding_blocks(item), 4)
    left = len(item.hosts) - len(item.evidence)
    if item.evidence and left > 0 and len(item.evidence) > 1:
        yield Text(f"and {left} nodes more", indent=4)


def _by_cause(fleet: Fleet, findings: Sequence[FleetFinding]) -> Iterator[Block]:
    """What nodes say of themselves, then in one line what the comparison says of the same nodes."""
    alike = gathered_by(findings, lambda item: item.hosts)
    for hosts, items in alike.items():
        compared = [item for item in items if item.scope is COMPARED]
        joins = bool(hosts) and len(compared) > (len(compared) == len(items))
        for item in items:
            if not joins or item.scope is not COMPARED:
                yield Text(f"{sign_of(fleet, hosts, item)} {_said(item)}")
        if joins:
            yield Text(f"{sign_of(fleet, hosts, compared[0])} {_joined(hosts, compared)}")


def _joined(hosts: Sequence[str], compared: Sequence[FleetFinding]) -> str:
    ids = ", ".join(dict.fromkeys(item.id for item in compared))
    head = f"{_listed(hosts)}: other than equal nodes in {plural(len(compared), 'comparison')}"
    return f"{head}: {first([_short(one.title) for one in compared], _MOST_PARTS, '; ')} [{ids}]"


def _short(title: str) -> str:
    figure, _, others = title.partition(" where ")
    median = others.partition(" is ")[2].partition(";")[0] if "median" in others else ""
    return f"{figure.rstrip(',')} (median {median})" if median else figure.rstrip(",")


def _said(item: FleetFinding) -> str:
    """Who, what, and the rule."""
    who = f"{_listed(item.hosts)}: " if item.hosts else ""
    return f"{who}{item.title} [{item.id}]"


def _listed(hosts: Sequence[str]) -> str:
    """Hosts as a list; names without order make a long one."""
    folded = fold(hosts)
    if len(folded) <= _LONGEST_LIST:
        return folded
    end = _LONGEST_LIST
    while end > 0 and not (
        folded[end] == "," and folded.count("[", 0, end) == folded.count("]", 0, end)
    ):
        end -= 1
    return f"{folded[: end or _LONGEST_LIST]},… ({len(hosts):,} nodes; --json names all)"


def _groups(fleet: Fleet) -> Iterator[Block]:
    if not fleet.groups:
        return
    yield Blank()
    yield Text("Nodes that are alike")
    # A line that says "one more" takes as much room as the one that it stands for.
    most = _MOST_GROUPS + (len(fleet.groups) == _MOST_GROUPS + 1)
    products: set[str] = set()
    for group in fleet.groups[:most]:
        many = f"{len(group.hosts)} × " if len(group.hosts) > 1 else ""
        about = ", ".join(filter(None, (group.product or "no GPU", group.summary)))
        if group.product in products and (
            other := differences(fleet.by_host.get(group.hosts[0], ()))
        ):
            about = f"the same, but {other}"
        products.add(group.product)
        yield Text(f"{many}{_listed(group.hosts)}: {about}", indent=2)
    if left := fleet.groups[most:]:
        count = plural(sum(len(group.hosts) for group in left), "node")
        yield Text(f"{count} in {len(left)} more groups; --json lists them", indent=2)


def _change(change: FleetChange) -> Iterator[Block]:
    yield Blank()
    yield Text("Since the earlier reading")
    moved = (("worse", change.worse), ("better", change.better), ("changed", change.other))
    for word, items in moved:
        kinds: dict[str, list[str]] = {}
        for item in items:
            text = f"{item.before or 'not there'} → {item.now or 'not there'}"
            kinds.setdefault(text, []).append(item.host)
        for text, hosts in kinds.items():
            yield Text(f"{word}: {_listed(hosts)}: {text}", indent=2)
    for word, found in (("came", change.came), ("gone", change.gone)):
        for finding in found:
            yield Text(f"{word}: {_said(finding)}", indent=2)
    if not any((change.worse, change.better, change.other, change.came, change.gone)):
        yield Text("nothing changed", indent=2)


def _by_host(fleet: Fleet) -> Iterator[Block]:
    rows = [host for host in fleet.hosts if fleet.states[host] != HEALTHY]
    if rows:
        yield Blank()
        yield Text("Node by node")
    for host in rows:
        ids = dict.fromkeys(item.id for item in fleet.by_host.get(host, ()))
        yield Text(f"{host}: {fleet.states[host].word}: {', '.join(ids)}", indent=2)


def _test_of_host(cases: Xml.Element, fleet: Fleet, host: str) -> None:
    """What is wrong with one node alone."""
    case = Xml.SubElement(cases, "testcase", classname="gputop.fleet", name=host, time="0")
    state = fleet.states[host]
    found = [
        item
        for item in fleet.by_host.get(host, ())
        if item.severity.counts and item.scope is not SHARED
    ]
    if state in FAILED or state is NodeState.CANNOT_TELL:
        message = xml_text(found[0].title if found else state)
        kind = "failure" if state in FAILED else "error"
        element = Xml.SubElement(case, kind, type=state, message=message)
        element.text = xml_text("\n".join(map(_line, found)))


def junit_suite(fleet: Fleet) -> Xml.Element:
    """The document: a test case for each node, and for each fault that nodes share."""
    counts = fleet.counts
    # What no node is to blame for: a switch, an empty folder.
    whole = [
        item
        for item in fleet.findings
        if item.severity.counts and (item.scope is SHARED or not item.hosts)
    ]
    unsure = sum(item.severity == severity.CANNOT_TELL for item in whole)
    failures = sum(counts[state] for state in FAILED)
    totals: dict[str, str] = {
        "tests": str(len(fleet.hosts) + len(whole)),
        "failures": str(failures + len(whole) - unsure),
        "errors": str(counts[NodeState.CANNOT_TELL] + unsure),
        "time": "0",
    }
    root = Xml.Element("testsuites", {"name": "gputop fleet", **totals})
    cases = Xml.SubElement(root, "testsuite", {"name": "gputop fleet", "skipped": "0", **totals})
    for host in fleet.hosts:
        _test_of_host(cases, fleet, host)
    for item in whole:
        case = Xml.SubElement(cases, "testcase", classname="gputop.fleet", name=item.id, time="0")
        kind = "error" if item.severity == severity.CANNOT_TELL else "failure"
        element = Xml.SubElement(case, kind, type=item.severity, message=xml_text(item.title))
        element.text = xml_text(f"{_line(item)}\n{item.folded}")
    Xml.SubElement(cases, "system-out").text = xml_text(f"verdict: {fleet.verdict}")
    return root


def _line(item: FleetFinding) -> str:
    return f"{item.severity}: {item.title} [{item.id}]"


def hosts_of(text: str | None) -> tuple[str, ...]:
    """The hosts of --nodes; () without it. Raises Exit.

    Groups and operators are left to ClusterShell where it is installed: to look a group up it runs
    what the site's groups.conf says.
    """
    if text is None:
        return ()
    try:
        hosts = expand(text) if not OPERATORS & set(text) else _by_cluster_shell(text)
    except ValueError as error:
        raise Exit(f"--nodes: {clean(error, 300)}", USAGE) from error
    if not hosts:
        # An empty value is often an unset variable of a script; it must not expect nothing.
        raise Exit("--nodes needs a list, such as g[1-16]", USAGE)
    return hosts


def _by_cluster_shell(text: str) -> tuple[str, ...]:
    try:
        library = import_module("ClusterShell.NodeSet")
    except ImportError:
        return expand(text)  # which says what to do
    try:
        found = library.NodeSet(text)
        many = len(found) > LIMIT_HOSTS
        hosts = () if many else tuple(in_order(str(host) for host in found))
    except Exception as error:  # it reads the site's groups, and its errors have no one class
        lacks = type(error).__name__ == "GroupResolverSourceError"
        why = f"no source of groups {error} is set up in its groups.conf" if lacks else str(error)
        raise ValueError(f"ClusterShell: {why or type(error).__name__}") from error
    if many:
        raise ValueError(f"the list names more than {LIMIT_HOSTS} hosts")
    return hosts


FLEET = Question(name="fleet", request=FleetRequest, answer=answer, page=page)
