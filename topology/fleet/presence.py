"""Which nodes answered: missing, late, doubled and contradictory files, and clocks that are off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import median

from ..model.page import Fact, Fix
from ..model.severity import BROKEN, CANNOT_TELL, NOTICE
from ..model.units import seconds as worded
from .finding import GONE, PRESENCE, FleetFinding, finding
from .hosts import in_order
from .record import NodeReport, Unusable

RUN_SECONDS = 1800.0
"""A file that is so much older than the middle one is of an earlier run: a check of a whole fleet,
its slowest probe and its queue included, takes minutes."""
CLOCK_SECONDS = 60.0
"""A clock that is so far from the others is off: chrony and NTP keep nodes within milliseconds,
and a file system's own time lags by seconds."""
COPIED_SECONDS = 120.0
"""Where most files are so much younger than they say, somebody copied the folder, and their times
tell nothing about clocks."""
LEAST_CLOCKS = 3
(MISSING, MISSING_NOW), STALE = GONE, "stale"
CONTRADICTION = "two-machines"


def newest(
    reports: Iterable[NodeReport],
) -> tuple[dict[str, NodeReport], dict[str, list[NodeReport]]]:
    """The newest report of each host, and the older ones of those that have several."""
    kept: dict[str, NodeReport] = {}
    older: dict[str, list[NodeReport]] = {}
    for report in reports:
        other = kept.get(report.host)
        if other is None:
            kept[report.host] = report
            continue
        first, last = sorted((other, report), key=lambda item: (item.written_at, item.path))
        kept[report.host] = last
        older.setdefault(report.host, []).append(first)
    return kept, older


def presence(
    nodes: Mapping[str, NodeReport],
    older: Mapping[str, Sequence[NodeReport]],
    unusable: Sequence[Unusable],
    expected: Collection[str],
    now: float,
) -> list[FleetFinding]:
    """All findings about which nodes and files are there."""
    clocks = _clocks(list(nodes.values()), now)
    stale = _stale(nodes, clocks)
    found = [*_missing(nodes, unusable, expected), *_old(nodes, stale, frozenset(expected))]
    found += [*_doubled(nodes, older), *_shared_machine(nodes), *_off(clocks)]
    strangers = [host for host in nodes if expected and host not in expected]
    if strangers:
        found.append(
            finding(
                "not-asked-for",
                NOTICE,
                PRESENCE,
                "they answered and are not in --nodes",
                strangers,
                impact="They are judged like the others.",
            )
        )
    versions = Counter(report.gputop for report in nodes.values())
    if len(versions) > 1:
        usual = versions.most_common(1)[0][0]
        odd = [host for host, report in nodes.items() if report.gputop != usual]
        found.append(
            finding(
                "mixed-gputop",
                NOTICE,
                PRESENCE,
                f"another gputop than {usual or 'a version that is not told'}",
                odd,
                evidence=[
                    Fact(what=host, value=nodes[host].gputop or "not told", source="its file")
                    for host in odd
                ],
                impact="Facts that only one of the versions reads are not compared.",
            )
        )
    return found


def _missing(
    nodes: Mapping[str, NodeReport], unusable: Sequence[Unusable], expected: Collection[str]
) -> list[FleetFinding]:
    gone = in_order(host for host in expected if host not in nodes)
    if not gone:
        return []
    broken = {item.host: item for item in unusable if item.host is not None}
    return [
        finding(
            MISSING,
            BROKEN,
            PRESENCE,
            "asked for, and no answer",
            gone,
            evidence=[
                Fact(what=host, value=f"{broken[host].path}: {broken[host].why}", source="file")
                for host in gone
                if host in broken
            ],
            disproof="a file of the node",
            impact="A job that is given such a node does not start, or waits for it.",
            fix=[
                Fix(text="Ask the engine about them", command="sinfo -R -N"),
                Fix(text="Take them out until they answer."),
            ],
        )
    ]


def _clocks(reports: Sequence[NodeReport], now: float) -> dict[str, float]:
    """Seconds by which each node's clock is ahead of the file system's; {} where that is unknown.

    Where the folder was copied, only a time in the future tells something.
    """
    ahead = {report.host: report.written_at - report.modified_at for report in reports}
    if not ahead:
        return {}
    middle = median(ahead.values())
    if len(ahead) >= LEAST_CLOCKS and abs(middle) < COPIED_SECONDS:
        return {host: value - middle for host, value in ahead.items()}
    return {
        report.host: report.written_at - now
        for report in reports
        if report.written_at - now > CLOCK_SECONDS
    }


def _off(clocks: Mapping[str, float]) -> list[FleetFinding]:
    off = {host: value for host, value in clocks.items() if abs(value) > CLOCK_SECONDS}
    if not off:
        return []
    return [
        finding(
            "clock-off",
            NOTICE,
            PRESENCE,
            "the clock is off",
            off,
            evidence=[
                Fact(
                    what=host,
                    value=f"{worded(abs(value))} {'ahead' if value > 0 else 'behind'}",
                    source="time in the file, beside the file's own",
                )
                for host, value in off.items()
            ],
            disproof="the same time on these nodes and on the others",
            impact="Logs of these nodes cannot be laid beside others, and certificates and "
            "authentication (munge) may fail.",
            fix=[Fix(text="Look at the time service", command="chronyc tracking")],
        )
    ]


def _stale(nodes: Mapping[str, NodeReport], clocks: Mapping[str, float]) -> dict[str, str]:
    """Hosts whose file is of an earlier run, and why."""
    if not nodes:
        return {}
    times = {host: report.written_at - clocks.get(host, 0.0) for host, report in nodes.items()}
    middle = median(times.values())
    jobs = Counter(report.job for report in nodes.values() if report.job is not None)
    usual, count = jobs.most_common(1)[0] if jobs else (None, 0)
    begun = min(
        (times[host] for host, report in nodes.items() if report.job == usual), default=middle
    )
    old: dict[str, str] = {}
    for host, report in nodes.items():
        behind = middle - times[host]
        if behind > RUN_SECONDS:
            old[host] = f"written {worded(behind)} before most others"
        elif 3 * count >= 2 * len(nodes) and report.job != usual and times[host] < begun:
            job = "no job" if report.job is None else f"job {report.job}"
            old[host] = f"of {job}, where {count} of {len(nodes)} are of job {usual}"
    return old


def _old(
    nodes: Mapping[str, NodeReport], stale: Mapping[str, str], expected: Collection[str]
) -> list[FleetFinding]:
    """Files of an earlier run; of a node that was asked for that is no answer at all."""
    asked = [host for host in stale if host in expected]
    others = [host for host in stale if host not in expected]
    kinds = (
        (asked, MISSING_NOW, BROKEN, "asked for, and only an earlier run has a file of it"),
        (others, STALE, CANNOT_TELL, "the file is of an earlier run"),
    )
    return [
        finding(
            id_,
            severity,
            PRESENCE,
            title,
            hosts,
            evidence=[
                Fact(what=host, value=stale[host], source=nodes[host].path) for host in hosts
            ],
            disproof="a file that the last run wrote",
            impact="What it says was true then; the node may have died since.",
            fix=[Fix(text="Check these nodes again.")],
        )
        for hosts, id_, severity, title in kinds
        if hosts
    ]


def _doubled(
    nodes: Mapping[str, NodeReport], older: Mapping[str, Sequence[NodeReport]]
) -> list[FleetFinding]:
    found: list[FleetFinding] = []
    whys = {
        host: [why for other in others if (why := _contradiction(nodes[host], other))]
        for host, others in older.items()
    }
    contrary = {host: why[-1] for host, why in whys.items() if why}
    twice = [host for host, why in whys.items() if not why]
    if contrary:
        found.append(
            finding(
                CONTRADICTION,
                CANNOT_TELL,
                PRESENCE,
                "two machines under one name",
                contrary,
                evidence=[
                    Fact(what=host, value=why, source="UUIDs of the GPUs, boot id")
                    for host, why in contrary.items()
                ],
                disproof="equal UUIDs in both files",
                impact="It is unknown which machine the name means; neither is judged.",
                fix=[Fix(text="Name the nodes apart", command="hostname; echo $SLURMD_NODENAME")],
            )
        )
    if twice:
        found.append(
            finding(
                "several-files",
                NOTICE,
                PRESENCE,
                "several files of one node; the newest counts",
                twice,
                evidence=[
                    Fact(what=host, value=f"{nodes[host].path}; older: {old}", source="times")
                    for host in twice
                    for old in [", ".join(item.path for item in older[host][:3])]
                ],
            )
        )
    return found


def _contradiction(last: NodeReport, other: NodeReport) -> str:
    """Why two files of one name and run are of two machines; "" where they may be of one."""
    if abs(last.written_at - other.written_at) > RUN_SECONDS:
        return ""
    # In one boot it is one machine: a GPU was lost in between, or came back.
    if last.boot_id is not None and last.boot_id == other.boot_id:
        return ""
    named = f"{other.path} and {last.path} tell of different"
    if last.machine is not None and other.machine is not None:
        return f"{named} GPUs" if last.machine != other.machine else ""
    return f"{named} boots" if None not in (last.boot_id, other.boot_id) else ""


def _shared_machine(nodes: Mapping[str, NodeReport]) -> list[FleetFinding]:
    owners: dict[str, list[str]] = {}
    for host, report in nodes.items():
        if report.machine is not None and not report.simulated:
            owners.setdefault(report.machine, []).append(host)
    return [
        finding(
            "one-machine-twice",
            NOTICE,
            PRESENCE,
            "the same GPUs under several names",
            hosts,
            evidence=[
                Fact(what="UUIDs of the GPUs", value="equal", source=nodes[host].path)
                for host in hosts[:1]
            ],
            impact="One machine is counted several times.",
        )
        for hosts in owners.values()
        if len(hosts) > 1
    ]
