"""NCCL's own diagnostics as lines: what each report comes to, and its results as they stand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gputop.pages.log.lines import mark
from gputop.terminal.clean import clean
from gputop.widgets.spans import Line, Span, wrapped

if TYPE_CHECKING:
    from gputop.topology.logs.report.own_diagnostics import OwnCheck, OwnDiagnostics

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
