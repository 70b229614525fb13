"""What other programs wrote about a node.

They are DCGM's diagnostics, NVIDIA Health Validation, debug logs of NCCL and RCCL, and the outputs
of nccl-tests and nvbandwidth.

The node is the one that the text names, else the one that the file's name stands for; an answer of
RAS is of a job, and names none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import msgspec

from ..diagnosis.symptoms.explain import known_signs
from ..diagnosis.symptoms.log import ReadLog, examine
from ..expectation.judgement import TIMES
from ..logs.reading.lines import LogUnreadable
from ..logs.reading.read import read_log
from ..model.finding import RAS_ANSWER, Finding
from ..model.gathered import gathered_by
from ..model.page import Fact, Fix
from ..model.severity import BROKEN, CANNOT_TELL, NOTICE, SLOW, Severity, Word
from ..model.snapshot import Measurement
from ..model.units import size
from .finding import FILE, NODE, FleetFinding, finding
from .hosts import is_host
from .reading import host_of, unusable
from .record import FileFault, Unusable, one_line
from .section import WHOLE_NODE, FleetFigure

MOST_TEXT_BYTES = 4 * 1024 * 1024
"""A debug log of one node is read up to here; a longer one is for `gputop log`."""
MOST_RUNS = 200
"""Kinds of measurements of one file; all of nvbandwidth are some 40."""

_WHY = {
    FileFault.CUT_OFF: "files that were cut off",
    FileFault.UNREADABLE: "files that cannot be read",
    FileFault.NO_FILE: "pipes, sockets or devices in place of files",
    FileFault.LINK: "symbolic links, which are not followed",
    FileFault.TOO_LARGE: "files that are too large",
    FileFault.FOREIGN: "files that nothing here reads",
    FileFault.DAMAGED: "files that are damaged",
    FileFault.NEWER: "files of a newer gputop",
    FileFault.OTHER_DOCUMENT: "documents that are no check",
    FileFault.UNNAMED: "pairs of which a node never came that nobody had named",
}
"""Kind of an `Unusable` -> several such files in words."""
_HARMLESS = (FileFault.FOREIGN, FileFault.OTHER_DOCUMENT, FileFault.NO_FILE, FileFault.LINK)

_HEADS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
_SIGNS = tuple(f'"{head}"'.encode() for head in _HEADS)
_MOST = 50
_RAN = ("pass", "fail", "warn")
_SETTINGS = ("persistence mode",)
"""Failures of a setting, which DCGM counts as one of the deployment: no device is bad."""

_SEVERITIES = {"CRITICAL": BROKEN, "WARNING": SLOW, "UNKNOWN": CANNOT_TELL}
_WELL = ("PASS", "INFO")
_SIGN, _PARTS = b'"overall_severity"', "affected_components"
_HOSTS = ("node_name", "hostname", "host", "node")
_HEALTH_VALIDATION_MOST = 20


class Tool(Word):
    """Who wrote a foreign file."""

    DCGM = "DCGM"
    HEALTH_VALIDATION = "NVIDIA Health Validation"
    LOG = "debug log"
    MEASUREMENT = "measurement"


class ForeignReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a foreign file says about nodes."""

    path: str
    tool: Tool
    host: str | None
    findings: tuple[Finding, ...] = ()
    """() where all that it tested is well."""
    figures: tuple[FleetFigure, ...] = ()
    """What it measured; keys say with which tool, what, and at which size."""


def read_text(name: str, data: bytes) -> ForeignReport | Unusable:
    """Read a text that is no document of gputop; what nothing here reads is an `Unusable`."""
    for read, tool in ((read_dcgm, Tool.DCGM), (read_verdict, Tool.HEALTH_VALIDATION)):
        found = read(data)
        if found is not None:
            host, items = found
            return ForeignReport(
                path=name, tool=tool, host=host or host_of(name), findings=tuple(items)
            )
    if len(data) > MOST_TEXT_BYTES:
        why = "a text of more than 4 MiB; `gputop log` reads it"
        return unusable(name, FileFault.TOO_LARGE, why)
    return _log(name, data) or unusable(name, FileFault.FOREIGN, "nothing here reads it")


def findings_of(reports: list[ForeignReport]) -> list[FleetFinding]:
    """Each finding once with its hosts; files that say nothing about a known host are named."""
    kinds: dict[tuple[Tool, str, Severity], list[tuple[ForeignReport, Finding]]] = {}
    for report in reports:
        for item in report.findings:
            kinds.setdefault((report.tool, item.id, item.severity), []).append((report, item))
    found = []
    for (tool, id_, severity), members in kinds.items():
        first = members[0][1]
        more = f" ({len(members)} files)" if len(members) > 1 else ""
        found.append(
            finding(
                id_,
                severity,
                NODE,
                f"{tool}: {first.title}{more}",
                [report.host for report, _ in members if report.host is not None],
                evidence=[
                    Fact(
                        what=report.host or "a node that is not named",
                        value=item.title,
                        source=report.path,
                    )
                    for report, item in members
                ],
                disproof=f"a later run of {tool}",
                impact=f"As {tool} says; gputop did not measure it.",
                fix=first.fix
                or (Fix(text=f"look at what {tool} printed, and run gputop check there"),),
            )
        )
    return found


def _log(name: str, data: bytes) -> ForeignReport | Unusable | None:
    """A debug log, or the output of a program that measures."""
    try:
        log = read_log(data.splitlines(keepends=True), name=name, signs=known_signs(), outputs=True)
        if log.empty and not log.suspects:
            return None
        read = examine(log, None)
    except (LogUnreadable, ValueError, RecursionError):
        return None
    if not (log.library_lines or read.findings or read.measured):
        return None
    items = [
        Finding.of(item.id, item.severity, one_line(item.title, 300), fix=item.fix)
        for item in read.findings
        if item.severity.counts
    ]
    figures = () if log.pasted is None else tuple(_figures(log.pasted.snapshot.measurements))
    if len(figures) > MOST_RUNS:
        return unusable(name, FileFault.TOO_LARGE, f"it has more than {MOST_RUNS} measurements")
    return ForeignReport(
        path=name,
        tool=Tool.LOG if log.library_lines or not read.measured else Tool.MEASUREMENT,
        host=_host_of_log(name, read),
        findings=tuple(sorted(items, key=lambda item: item.severity.order)[:20]),
        figures=figures,
    )


def _host_of_log(name: str, read: ReadLog) -> str | None:
    """The one host that a log names, else the one that its file is named after."""
    hosts = {host.split(".")[0] for host in read.log.hosts}
    if len(hosts) == 1 and is_host(*hosts):
        return hosts.pop()
    # What RAS answers is about a job, on as many nodes as that has, wherever it was asked.
    told = read.log.library_lines or read.measured
    of_a_job = not told and all(one.id == RAS_ANSWER for one in read.findings)
    return None if of_a_job else host_of(name)


def _figures(measured: Sequence[Measurement]) -> Iterator[FleetFigure]:
    """The middle and the worst of each run, at its largest size."""
    runs: dict[tuple[str, ...], list[Measurement]] = {}
    for one in measured:
        if one.value is None or not one.unit or not (math.isfinite(one.value) and one.value > 0):
            continue
        ranks, hosts = one.details.get("ranks"), one.details.get("hosts")
        many = f"{ranks} ranks on {hosts} hosts" if isinstance(ranks, int) else ""
        tool = str(one.details.get("pasted") or one.probe)
        named = (tool, one.quantity.replace("_", " "), one.variant, one.way, many)
        runs.setdefault((one.unit, *(word or "" for word in named)), []).append(one)
    for (unit, *words), every in runs.items():
        largest = max(one.bytes_per_copy or 0 for one in every)
        values = [one.value or 0.0 for one in every if (one.bytes_per_copy or 0) == largest]
        at = f"at {size(largest)}" if largest else ""
        yield FleetFigure(
            key=one_line(" ".join(filter(None, (*words, at))), 120),
            over=WHOLE_NODE,
            unit=one_line(unit, 20),
            value=median(values),
            worst=max(values) if unit in TIMES else min(values),
        )


def unusable_findings(unusable: Sequence[Unusable]) -> list[FleetFinding]:
    """Files that tell nothing, those of one kind together."""
    kinds = gathered_by(unusable, lambda item: item.kind)
    found = []
    for kind, items in kinds.items():
        harmless = kind in _HARMLESS
        hosts = [] if harmless else [item.host for item in items if item.host is not None]
        found.append(
            finding(
                f"file-{kind}",
                NOTICE if harmless else CANNOT_TELL,
                FILE,
                f"{len(items)} {_WHY[kind]}"
                if len(items) > 1
                else f"{items[0].path}: {items[0].why}",
                hosts,
                evidence=[Fact(what=item.path, value=item.why, source="file") for item in items],
                impact="" if harmless else "What it was to tell is unknown.",
            )
        )
    return found


# The JSON of `dcgmi diag -j`, of DCGM 2, 3 and 4.
#
# Up to DCGM 3 the tests lie in "DCGM GPU Diagnostic" (nvvs/src/JsonOutput.cpp), in DCGM 4 in "DCGM
# Diagnostic"; both hold test_categories > tests > results, with a status for each device and
# warnings, which are texts or objects. Lines may stand before the document.
def read_dcgm(data: bytes) -> tuple[str | None, list[Finding]] | None:
    """The host, which DCGM never names, and what failed; None for another text."""
    if not any(sign in data for sign in _SIGNS):
        return None
    start, end = data.find(b"{"), data.rfind(b"}")
    try:
        document = msgspec.json.decode(data[start : end + 1])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        why = "the output of DCGM's diagnostics is cut off or damaged"
        return None, [Finding.of("dcgm-unread", CANNOT_TELL, why)]
    body = next((document[head] for head in _HEADS if head in document), None)
    if not isinstance(body, dict):
        return None
    tests = list(_tests(body))
    failed = [item for test in tests for item in _failed(*test)]
    error = body.get("runtime_error") or body.get("Error")
    if error:
        title = f"the diagnostics did not run: {one_line(error, 200)}"
        failed.append(Finding.of("dcgm-unread", CANNOT_TELL, title))
    elif not any(_status(result) in _RAN for _, results in tests for result in results):
        title = "no test of the diagnostics ran"
        failed.append(Finding.of("dcgm-unread", CANNOT_TELL, title))
    return None, failed[:_MOST]


def _tests(body: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for category in _dicts(body.get("test_categories")):
        for test in _dicts(category.get("tests")):
            yield one_line(test.get("name", "a test"), 60), _dicts(test.get("results"))


def _failed(name: str, results: list[dict[str, Any]]) -> Iterator[Finding]:
    for result in results:
        if _status(result) != "fail":
            continue
        given = result.get("warnings") or []
        warnings = [*filter(None, map(_warning, given if isinstance(given, list) else [given]))]
        if warnings and all(text.lower().startswith(_SETTINGS) for text in warnings):
            continue
        who = result.get("gpu_id", result.get("gpu_ids", result.get("entity_id")))
        where = "" if who in (None, "") else f" on GPU {one_line(who, 40)}"
        what = f": {warnings[0]}" if warnings else ""
        yield Finding.of("dcgm-fails", BROKEN, f"{name} failed{where}{what}"[:300])


def _warning(item: object) -> str:
    text = item.get("warning", "") if isinstance(item, dict) else item
    return one_line(text, 220)


def _status(result: dict[str, Any]) -> str:
    return str(result.get("status", "")).lower()


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


# The verdict of NVIDIA Health Validation on a node: one JSON object for each run.
#
# Documented (docs.nvidia.com/health-validation, "Verdict Schema", "FAQ", "Integrating into a GPU
# cluster"): `overall_severity` is PASS, INFO, WARNING (the node may stay in service), CRITICAL
# (take it out) or UNKNOWN (its health could not be assessed); each of `affected_components` has
# `check_ids`, `entities`, `category` and `max_severity`.
#
# Not documented there is whether and where a verdict names its node: some likely fields are looked
# at, else the file's name counts. Another severity, and fields of another type, are quoted as text.
def read_verdict(data: bytes) -> tuple[str | None, list[Finding]] | None:
    """The host, where it is named, and what is wrong; None for another text."""
    if _SIGN not in data:
        return None
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    said = document.get("overall_severity")
    severity = str(said).upper()
    if severity in _WELL:
        return _host(document), []
    parts = document.get(_PARTS)
    if severity not in _SEVERITIES and parts is None:
        # Other programs have a field of that name too.
        return None
    found = [*map(_part, (parts if isinstance(parts, list) else [])[:_HEALTH_VALIDATION_MOST])]
    named = [item for item in found if item is not None]
    whole = Finding.of(
        "health-validation",
        _SEVERITIES.get(severity, CANNOT_TELL),
        one_line(f"verdict {said}", 120),
    )
    worst = any(item.severity == whole.severity for item in named)
    return _host(document), named if worst else [whole, *named]


def _part(part: object) -> Finding | None:
    """What is wrong with one category; None where nothing is."""
    if not isinstance(part, dict):
        return None
    level = str(part.get("max_severity")).upper()
    if level in _WELL:
        return None
    return Finding.of(
        "health-validation",
        _SEVERITIES.get(level, CANNOT_TELL),
        _title(part, level),
    )


def _title(part: dict[str, Any], level: str) -> str:
    checks, entities = _words(part.get("check_ids")), _words(part.get("entities"))
    where = f" at {entities}" if entities else ""
    return one_line(f"{level} in {part.get('category', 'a part')}: {checks}{where}", 300)


def _words(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(item) for item in value[:6])
    return "" if value is None else str(value)


def _host(document: dict[str, Any]) -> str | None:
    name = next((document[key] for key in _HOSTS if isinstance(document.get(key), str)), "")
    return name.split(".")[0] or None
