"""The fleet: all nodes of a folder, what is found about them, and one verdict."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from statistics import median

from ..model.gathered import gathered
from ..model.page import Fact, Fix
from ..model.severity import BROKEN, CANNOT_TELL, NOTICE, SLOW, NodeState, Severity, Verdict
from .finding import (
    COMPARED,
    MISSING,
    NODE,
    ODD,
    SHARED,
    FleetFinding,
    by_harm,
    finding,
    state_of,
)
from .foreign import unusable_findings
from .grouping import AlikeNodes, by_finding, groups
from .hosts import as_they_answer, in_order
from .outliers import Strip, outliers, strips
from .planning.links import FleetLinks
from .presence import CONTRADICTION, MISSING_NOW, STALE, newest, presence
from .record import Beside, NodeReport, Unusable
from .section import CATEGORIES

NOTHING = "no-nodes"

LEAST = 3
SHARE = 2 / 3
TOLERANCE = 0.02
"""Of sizes: kernel and firmware keep up to about 1 % more or less for themselves, and one lost
module of 32 takes 3 %."""
NOT_SET = "not set"
MOST_WORDS = 160

HARM: dict[str, tuple[Severity, str]] = {
    "NVLinks up": (SLOW, "Links between its GPUs are slower than on the other nodes."),
    "PCIe lanes of the GPUs": (SLOW, "Copies over these lanes are slower than on the others."),
    "NICs": (SLOW, "A ring over all nodes is as slow as its slowest NIC."),
    "NIC ports": (SLOW, "A ring over all nodes is as slow as its slowest port."),
    "fabric manager": (SLOW, "Without it NVLink through NVSwitches may not work."),
    "ECC": (SLOW, "ECC costs memory bandwidth on some GPUs, and its absence hides errors."),
    "MIG": (BROKEN, "A job finds other GPUs there than on the other nodes."),
    "compute mode": (SLOW, "A second process on a GPU may be refused there."),
    "locked memory": (SLOW, "RDMA may fail to register memory there."),
    "power limit": (SLOW, "Its GPUs are slower under load, and all others wait for them."),
    "highest SM clock": (SLOW, "Its GPUs compute more slowly, and all others wait for them."),
    "highest memory clock": (SLOW, "Its GPUs have slower memory, and all others wait for them."),
    "PCIe functions with ACS on": (SLOW, "Copies between GPUs over PCIe may go through the CPU."),
    "IOMMU": (SLOW, "GPUDirect may be translated, and be slower, there."),
    "compute partition": (BROKEN, "A job finds another number of GPUs there."),
    "memory partition": (SLOW, "Memory is divided otherwise there."),
    "PCIe of the GPUs": (SLOW, "Copies to the host and to NICs are slower there."),
}
"""What a difference costs, by the fact; others are a notice."""
_CATEGORY = {
    "hardware": "Nodes of different hardware wait for the slower one.",
    "wiring": "NCCL may choose other paths there than on the other nodes.",
    "driver": "Behaviour and faults may differ there; NCCL wants one version on all nodes.",
    "firmware": "Behaviour and faults may differ there.",
    "settings": "The node may behave otherwise under load.",
    "environment": "NCCL may decide otherwise there; some variables have to agree on all ranks.",
}
_AGREE = ("NCCL_ALGO", "NCCL_PROTO", "NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_IB_DISABLE",
          "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS",
          "NCCL_NVLS_ENABLE", "NCCL_COLLNET_ENABLE", "NCCL_BUFFSIZE")  # fmt: skip
"""Variables that NCCL wants equal on all ranks: ranks that choose differently wait for each other
(NCCL documentation, "Environment Variables")."""


class Fleet:
    """Nodes and what is found about them; immutable, and pure once its files are read."""

    def __init__(
        self,
        folder: str,
        reports: Iterable[NodeReport],
        *,
        unusable: Iterable[Unusable] = (),
        beside: Iterable[Beside] = (),
        foreign: Iterable[FleetFinding] = (),
        expected: Collection[str] = (),
        links: FleetLinks | None = None,
        accused: Iterable[FleetFinding] = (),
        now: float | None = None,
    ) -> None:
        """`expected`: hosts that were asked for. `now`: seconds since the epoch.

        `links`: what pairs of nodes measured; `accused`: what is found in that.
        """
        self.folder = folder
        self.now = time.time() if now is None else now
        self.unusable = tuple(unusable)
        self.beside = tuple(beside)
        self.links = links or FleetLinks()
        self.nodes, older = newest(reports)
        self.older = sum(map(len, older.values()))
        """Files of which a newer one of the same node is there."""
        self.expected = tuple(in_order(as_they_answer(expected, self.nodes)))
        about = presence(self.nodes, older, self.unusable, frozenset(self.expected), self.now)
        apart = {
            host
            for item in about
            if item.id in (CONTRADICTION, MISSING_NOW, STALE)
            for host in item.hosts
        }
        judged = {host: report for host, report in self.nodes.items() if host not in apart}
        self.strips: tuple[Strip, ...] = tuple(strips(_by_product(judged)))
        found = [*_own(judged), *about, *differences(judged), *outliers(self.strips, judged)]
        found += [*accused, *foreign, *unusable_findings(self.unusable)]
        if not self.nodes and not self.expected:
            found.append(_nothing(folder, self.unusable))
        self.findings: tuple[FleetFinding, ...] = tuple(by_harm(found))
        """The most harmful first."""
        self._apart = apart

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Every host that was asked for, that answered, or that another file tells of."""
        named = (host for item in self.findings for host in item.hosts)
        return tuple(in_order((*self.expected, *self.nodes, *named)))

    @cached_property
    def by_host(self) -> dict[str, tuple[FleetFinding, ...]]:
        """Host -> its findings, the most harmful first."""
        found = gathered((host, item) for item in self.findings for host in item.hosts)
        return {host: tuple(items) for host, items in found.items()}

    @cached_property
    def states(self) -> dict[str, NodeState]:
        """Host -> what becomes of it."""
        return {
            host: state_of(self._verdict_of(host), self.by_host.get(host, ()))
            for host in self.hosts
        }

    @cached_property
    def counts(self) -> dict[NodeState, int]:
        """How many hosts are in each state."""
        found = Counter(self.states.values())
        return {state: found[state] for state in NodeState}

    @cached_property
    def groups(self) -> tuple[AlikeNodes, ...]:
        """Nodes that are alike, the largest group first."""
        return groups(self.nodes)

    @cached_property
    def verdict(self) -> Verdict:
        """The worst of its nodes and of what they share."""
        there = set(self.states.values())
        shared = {item.severity for item in self.findings if item.scope is SHARED}
        if there & {NodeState.BROKEN, MISSING} or BROKEN in shared:
            return Verdict.BROKEN
        if there & {NodeState.SLOW, ODD} or SLOW in shared:
            return Verdict.SLOW
        doubt = NodeState.CANNOT_TELL in there or not self.nodes
        unsure = doubt or any(item.severity == CANNOT_TELL for item in self.findings)
        return Verdict.CANNOT_TELL if unsure else Verdict.HEALTHY

    @property
    def pairs(self) -> tuple[str, ...]:
        """Files with results of pairs of nodes."""
        return tuple(item.path for item in self.beside if item.schema.startswith("gputop.net/"))

    def hosts_in(self, *states: NodeState) -> tuple[str, ...]:
        """The hosts in these states."""
        return tuple(host for host in self.hosts if self.states[host] in states)

    def _verdict_of(self, host: str) -> Verdict:
        report = self.nodes.get(host)
        return Verdict.CANNOT_TELL if report is None or host in self._apart else report.verdict


def _by_product(nodes: Mapping[str, NodeReport]) -> dict[str, list[NodeReport]]:
    groups_ = grouped(nodes, lambda report: report.product)
    return {product: [nodes[host] for host in hosts] for product, hosts in groups_.items()}


def _own(nodes: Mapping[str, NodeReport]) -> list[FleetFinding]:
    """What the nodes' own checks found, each rule once with all its hosts."""
    made = []
    for (id_, severity, _), hosts in by_finding(nodes).items():
        kinds = Counter(titles[0] for titles in hosts.values())
        title, count = kinds.most_common(1)[0]
        if len(kinds) > 1:
            title = f"{title} ({count} of {len(hosts)} nodes; others differ)"
        ordered = in_order(hosts)
        made.append(
            finding(
                id_,
                severity,
                NODE,
                title,
                hosts,
                evidence=[
                    Fact(what=host, value=text, source=nodes[host].path)
                    for host in ordered[:20]
                    for text in hosts[host][:3]
                ],
                disproof="a later check of the node",
                impact="As the node's own check says.",
            )
        )
    # A verdict without its finding: a file that was cut down by hand, or another version's.
    lone: dict[str, list[str]] = {}
    for host, report in nodes.items():
        if report.verdict != Verdict.HEALTHY and not report.findings:
            lone.setdefault(report.verdict, []).append(host)
    for verdict, hosts_ in lone.items():
        severity = CANNOT_TELL if verdict == Verdict.CANNOT_TELL else Severity(verdict)
        made.append(
            finding(f"node-{severity}", severity, NODE, f"the node calls itself {verdict}", hosts_)
        )
    return made


def _nothing(folder: str, unusable: Collection[Unusable]) -> FleetFinding:
    return finding(
        NOTHING,
        CANNOT_TELL,
        NODE,
        "no node has written here",
        (),
        evidence=[Fact(what="files that are no node's", value=str(len(unusable)), source=folder)],
        impact="Nothing was examined, so nothing is called healthy.",
    )


# What odd nodes have that equal nodes do not: facts, compared with what most of them have.
#
# Only a majority makes somebody odd: at least two thirds of at least three nodes. Where there is
# none, the difference is told and nobody is accused. A fact that a node did not read is unknown,
# and never a difference.
def differences(nodes: Mapping[str, NodeReport]) -> list[FleetFinding]:
    """Findings about facts; `nodes`: those that are judged."""
    found: list[FleetFinding] = []
    shapes = grouped(nodes, lambda report: report.product)
    families = grouped(nodes, lambda report: family_of(report.product))
    for hosts in families.values():
        found += _fewer({host: nodes[host] for host in hosts})
    for product, hosts in shapes.items():
        if product:
            found += _sizes([nodes[host] for host in hosts])
    for category in CATEGORIES:
        wide = shapes if category in ("hardware", "wiring") else families
        for hosts in wide.values():
            found += _category(category, [nodes[host] for host in hosts])
    return found


def grouped(
    nodes: Mapping[str, NodeReport], key: Callable[[NodeReport], str]
) -> dict[str, list[str]]:
    """Hosts by something that they have in common."""
    return gathered((key(report), host) for host, report in nodes.items())


def family_of(product: str) -> str:
    """The models of a product without their number."""
    return ", ".join(part.partition(" × ")[2] for part in product.split(", "))


def gpus_in(product: str) -> int:
    """How many GPUs a product has, of all models."""
    numbers = (part.partition(" × ")[0] for part in product.split(", "))
    return sum(int(number) for number in numbers if number.isdecimal() and len(number) < 6)


def _fewer(nodes: Mapping[str, NodeReport]) -> list[FleetFinding]:
    """Nodes with fewer GPUs than most nodes with the same GPUs."""
    counts = Counter(gpus_in(report.product) for report in nodes.values())
    usual, count = counts.most_common(1)[0]
    if count < LEAST or count < SHARE * len(nodes):
        return []
    odd = [host for host, report in nodes.items() if gpus_in(report.product) < usual]
    if not odd:
        return []
    return [
        finding(
            "gpus-fewer",
            BROKEN,
            COMPARED,
            f"fewer GPUs than {count} of {len(nodes)} equal nodes, which have {usual}",
            odd,
            evidence=[
                Fact(what=host, value=nodes[host].product or "none", source=nodes[host].path)
                for host in odd
            ],
            disproof="a job that was given only these GPUs",
            impact="A job with one rank for each GPU does not start there.",
            fix=[Fix(text="Look which GPU is gone", command="nvidia-smi -L; dmesg | grep -i xid")],
        )
    ]


def _sizes(reports: Sequence[NodeReport]) -> list[FleetFinding]:
    """Nodes with less or more of something than most; a little less or more is none."""
    found = []
    for what in dict.fromkeys(name for report in reports for name, _ in report.sizes):
        values = {
            report.host: value for report in reports for name, value in report.sizes if name == what
        }
        middle = median(values.values())
        apart = TOLERANCE * middle
        less = [host for host, value in values.items() if value < middle - apart]
        more = [host for host, value in values.items() if value > middle + apart]
        alike = len(values) - len(less) - len(more)
        if alike < LEAST - 1 or len(values) < LEAST or alike < SHARE * len(values):
            continue
        usual = f"{alike} of {len(values)} have {middle:.0f} GiB"
        for hosts, severity, impact in (
            (less, SLOW, _LESS_MEMORY),
            (more, NOTICE, _CATEGORY["hardware"]),
        ):
            if hosts:
                sizes = {host: values[host] for host in hosts}
                found.append(_other_size(what, sizes, usual, severity, impact))
    return found


_LESS_MEMORY = (
    "A job that needs what the others have ends there, and a lost memory module slows all copies "
    "through the host."
)


def _other_size(
    what: str, sizes: Mapping[str, float], usual: str, severity: Severity, impact: str
) -> FleetFinding:
    ends = dict.fromkeys(f"{size:.0f}" for size in (min(sizes.values()), max(sizes.values())))
    return finding(
        "hardware-differs",
        severity,
        COMPARED,
        f"{what} {' to '.join(ends)} GiB where {usual}",
        sizes,
        evidence=[
            Fact(what=host, value=f"{size:.1f} GiB; {usual}", source="file of the node")
            for host, size in sizes.items()
        ],
        disproof="the same size on this node and on the others",
        impact=impact,
        fix=[Fix(text="Count its memory modules", command="sudo dmidecode -t memory")],
    )


def _category(category: str, reports: Sequence[NodeReport]) -> list[FleetFinding]:
    sets: dict[int, list[NodeReport]] = {}
    for report in reports:
        if report.facts:
            # Equal facts are one object: thousands of equal nodes are compared once.
            sets.setdefault(id(report.category(category)), []).append(report)
    if len(sets) < 2:
        return []
    total = sum(map(len, sets.values()))
    usual, mixed = _usual(category, list(sets.values()), total)
    odd: dict[tuple[tuple[str, str], ...], list[NodeReport]] = {}
    for members in sets.values():
        facts = members[0].category(category)
        other = tuple(
            (what, value)
            for what, (common, _) in usual.items()
            if (value := _value(category, facts, what)) is not None and value != common
        )
        if other:
            odd.setdefault(other, []).extend(members)
    found = [_odd(category, other, members, usual, total) for other, members in odd.items()]
    return [*found, *([_mixed(category, mixed, reports)] if mixed else [])]


def _value(category: str, facts: Mapping[str, str], what: str) -> str | None:
    """A fact; of the environment a variable that is missing is known not to be set."""
    return facts.get(what, NOT_SET if category == "environment" else None)


def _usual(
    category: str, sets: Sequence[Sequence[NodeReport]], total: int
) -> tuple[dict[str, tuple[str, int]], dict[str, Counter[str]]]:
    """What most have, by fact, with their number; and the facts on which there is no majority."""
    names = dict.fromkeys(what for members in sets for what in members[0].category(category))
    usual: dict[str, tuple[str, int]] = {}
    mixed: dict[str, Counter[str]] = {}
    for what in names:
        counts: Counter[str] = Counter()
        for members in sets:
            value = _value(category, members[0].category(category), what)
            if value is not None:
                counts[value] += len(members)
        if len(counts) < 2:
            continue
        value, count = counts.most_common(1)[0]
        if total >= LEAST and count >= LEAST - 1 and count >= SHARE * sum(counts.values()):
            usual[what] = (value, count)
        else:
            mixed[what] = counts
    return usual, mixed


def _odd(
    category: str,
    other: tuple[tuple[str, str], ...],
    members: Sequence[NodeReport],
    usual: Mapping[str, tuple[str, int]],
    total: int,
) -> FleetFinding:
    harms = [_harm(category, what) for what, _ in other]
    severity, consequence = min(harms, key=lambda harm: harm[0].order)
    first = next(what for what, _ in other if _harm(category, what)[0] == severity)
    value = dict(other)[first]
    more = f", and {len(other) - 1} more" if len(other) > 1 else ""
    common, count = usual[first]
    return finding(
        f"{category}-differs",
        severity,
        COMPARED,
        f"{_other(first, value, f'where {count} of {total} have', common)}{more}",
        [report.host for report in members],
        evidence=[
            Fact(
                what=what,
                value=f"{value}; {usual[what][1]} of {total} have {usual[what][0]}",
                source=members[0].path,
            )
            for what, value in other
        ],
        disproof="the same value on this node and on the others",
        impact=consequence,
        fix=[Fix(text="Make it like the others, or keep it out of their jobs.")],
    )


_OF_A_GPU = {"NVLinks up": "NVLinks up", "PCIe lanes of the GPUs": "PCIe lanes"}
"""Facts with a number for each GPU, and what each GPU has."""


def _other(what: str, value: str, where: str, common: str) -> str:
    """What is other, and what most have; of numbers for each GPU, the one that differs."""
    here, usual = value.split(), common.split()
    odd = [
        place for place, (one, other) in enumerate(zip(here, usual, strict=False)) if one != other
    ]
    if what not in _OF_A_GPU or len(here) != len(usual) or len(odd) != 1:
        return f"{what} {_short(value)} {where} {_short(common)}"
    place = odd[0]
    return f"GPU{place} has {here[place]} {_OF_A_GPU[what]} {where} {usual[place]}"


def _mixed(
    category: str, mixed: Mapping[str, Counter[str]], reports: Sequence[NodeReport]
) -> FleetFinding:
    first, counts = next(iter(mixed.items()))
    parts = ", ".join(
        f"{count} {'has' if count == 1 else 'have'} {_short(value)}"
        for value, count in counts.most_common(3)
    )
    more = f"; other facts that differ: {len(mixed) - 1}" if len(mixed) > 1 else ""
    return finding(
        f"{category}-mixed",
        NOTICE,
        COMPARED,
        f"{first}: {parts}; no majority, so no node is called odd{more}",
        [report.host for report in reports],
        evidence=[
            Fact(
                what=what,
                value=", ".join(f"{value}: {count}" for value, count in found.most_common(4)),
                source="files of the nodes",
            )
            for what, found in mixed.items()
        ],
        impact=_CATEGORY[category],
    )


def _harm(category: str, what: str) -> tuple[Severity, str]:
    if category == "environment":
        return (SLOW if what in _AGREE else NOTICE), _CATEGORY[category]
    return HARM.get(what, (NOTICE, _CATEGORY[category]))


def _short(value: str) -> str:
    return value if len(value) <= MOST_WORDS // 2 else value[: MOST_WORDS // 2 - 1] + "…"
