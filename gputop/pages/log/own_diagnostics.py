"""NCCL's own diagnostics as lines: what each report comes to, and its results as they stand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gputop.pages.log.lines import mark
from gputop.terminal.clean import clean
from gputop.widgets.spans import Line, Span, wrapped

if TYPE_CHECKING:
    from gputop.topology.logs.report.own_diagnostics import OwnCheck, OwnDiagnostics
    from gputop.topology.logs.report.report import LogReport

ORDER = (False, None, True)
"""Of a report: it asks to look, it is not known, it passed."""
SAID = {False: "ask to look", None: "prove nothing", True: "found no fault"}
MOST_VERDICTS = 4
MOST_SHOWN = 24
"""Results of a report that are shown one by one."""


def own_diagnostics_lines(reports: Iterable[OwnDiagnostics], width: int) -> tuple[Line, ...]:
    """Each report with its results; an [INFO] is quoted, not judged."""
    lines: list[Line] = []
    for report in reports:
        sign: Span = ("!", "warn") if report.passed is False else mark(report.passed)
        lines += wrapped((sign, (f" {_head(report)}", "strong")), width, 2)
        shown = sorted(report.checks, key=lambda check: not check.open)
        for check in shown[:MOST_SHOWN]:
            lines += wrapped(_spans(check), width, 9)
        if len(shown) > MOST_SHOWN:
            lines.append(((f"  and {len(shown) - MOST_SHOWN} lines more", "muted"),))
    return tuple(lines)


def only_diagnostics(log: LogReport) -> bool:
    """Whether the reports are all that a log shows: no communicator is in it."""
    return bool(log.diagnostics) and log.main is None


def verdict_lines(reports: Iterable[OwnDiagnostics], width: int) -> tuple[Line, ...]:
    """What the reports come to, those that ask to look first; a line each."""
    found = sorted(reports, key=lambda report: ORDER.index(report.passed))
    lines: list[Line] = []
    for report in found[:MOST_VERDICTS]:
        sign: Span = ("!", "warn") if report.passed is False else mark(report.passed)
        text = f" NCCL's own diagnostics {SAID[report.passed]}: {_head(report)}"
        lines += wrapped((sign, (text, "strong")), width, 2)
    if len(found) > MOST_VERDICTS:
        rest = found[MOST_VERDICTS:]
        asks = sum(report.passed is False for report in rest)
        text = f"  and {len(rest)} more reports, {asks} of them with [INFO]"
        lines.append(((text, "muted"),))
    return tuple(lines)


def _head(report: OwnDiagnostics) -> str:
    who = f"{clean(report.host, 80)}:{report.pid}" if report.host else "a process without a name"
    took = "" if report.milliseconds is None else f", {report.milliseconds:.0f} ms"
    across = f" across {clean(report.across, 40)}" if report.across else ""
    return f"{report.sentence} ({who}{took}{across})"


def _spans(check: OwnCheck) -> tuple[Span, ...]:
    tag = f"[{check.tag}]" if check.tag else ""
    about = f"{clean(check.about, 40)}: " if check.about else ""
    times = f" ({check.count} times)" if check.count > 1 else ""
    ink = "warn" if check.open else "muted"
    return (f"  {tag:<7}", ink), (f"{about}{clean(check.text, 400)}{times}", "")
