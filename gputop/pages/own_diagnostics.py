"""NCCL's own diagnostics as lines: what each report comes to, and its results as they stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gputop.terminal.clean import clean
from gputop.topology.model.page import Role, Runs, Text
from gputop.topology.model.severity import Accord

if TYPE_CHECKING:
    from gputop.topology.logs.report.own_diagnostics import OwnCheck, OwnDiagnostics
    from gputop.topology.logs.report.report import LogReport

SAID = {
    Accord.ASKS: "ask to look",
    Accord.OPEN: "prove nothing",
    Accord.AGREES: "found no fault",
}
"""How a report of the library's own diagnostics ended, the worst first."""
MOST_VERDICTS, MOST_SHOWN = 4, 24
"""Reports, and results of one, that are shown one by one."""


def only_diagnostics(log: LogReport) -> bool:
    """Whether the library's own diagnostics are all that a log shows: it has no communicator."""
    return bool(log.diagnostics) and log.main is None


def _report_mark(report: OwnDiagnostics) -> Accord:
    return Accord.ASKS if report.passed is False else Accord.of(report.passed)


def own_diagnostics(reports: Iterable[OwnDiagnostics]) -> Iterator[Text]:
    """Each report with its results; an [INFO] is quoted, not judged."""
    for report in reports:
        yield Text.marked(_report_mark(report), (f" {_report(report)}", Role.STRONG))
        checks = sorted(report.checks, key=lambda check: not check.open)
        for check in checks[:MOST_SHOWN]:
            yield Text(_check(check), indent=2, hanging=7)
        if len(checks) > MOST_SHOWN:
            yield Text(f"and {len(checks) - MOST_SHOWN} lines more", indent=2, role=Role.MUTED)


def verdicts(reports: Iterable[OwnDiagnostics]) -> Iterator[Text]:
    """What the reports come to, those that ask to look first; a line each."""
    marks = list(SAID)
    found = sorted(reports, key=lambda report: marks.index(_report_mark(report)))
    for report in found[:MOST_VERDICTS]:
        mark = _report_mark(report)
        text = f" NCCL's own diagnostics {SAID[mark]}: {_report(report)}"
        yield Text.marked(mark, (text, Role.STRONG))
    rest = found[MOST_VERDICTS:]
    if rest:
        asks = sum(report.passed is False for report in rest)
        text = f"and {len(rest)} more reports, {asks} of them with [INFO]"
        yield Text(text, indent=2, role=Role.MUTED)


def _report(report: OwnDiagnostics) -> str:
    who = f"{clean(report.host, 80)}:{report.pid}" if report.host else "a process without a name"
    took = "" if report.milliseconds is None else f", {report.milliseconds:.0f} ms"
    across = f" across {clean(report.across, 40)}" if report.across else ""
    return f"{report.sentence} ({who}{took}{across})"


def _check(check: OwnCheck) -> Runs:
    tag = f"[{check.tag}]" if check.tag else ""
    about = f"{clean(check.about, 40)}: " if check.about else ""
    times = f" ({check.count} times)" if check.count > 1 else ""
    role = Role.WARN if check.open else Role.MUTED
    return (f"{tag:<7}", role), (f"{about}{clean(check.text, 400)}{times}", Role.PLAIN)
