"""What stands behind the names of the screens: where to look, from every screen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gputop.live.worst_jobs import wrong
from gputop.widgets.spans import Span

if TYPE_CHECKING:
    from gputop.live.host import NodeHost
    from gputop.topology.report import Report

RUNNING: Span = ("▶", "good")


def tab_signs(host: NodeHost) -> dict[str, Span]:
    """Name of a screen -> sign and ink; a screen without news has none."""
    report = host.report
    if report is None:
        return {}
    found: dict[str, Span] = {}
    probe = host.probe
    if probe is not None and probe.running:
        found["probes"] = RUNNING
    elif low := _low(report):
        found["probes"] = low
    if flags := "".join(_flags(host, report)):
        found["flags"] = flags, "accent" if host.what_if.holds else "muted"
    shown = host.findings.shown(report)
    loud = [] if shown is None else [one for one in shown.findings if one.severity.counts]
    if loud:
        sign, ink, _ = min((one.severity for one in loud), key=lambda one: one.order).shown
        found["findings"] = f"{sign}{len(loud)}", ink
    if jobs := wrong(host.jobs.answer):
        found["jobs"] = jobs[0].verdict.shown[:2]
    if host.log_sign is not None:
        found["log"] = host.log_sign
    return found


def _flags(host: NodeHost, report: Report) -> Iterator[str]:
    """How many variables are set, in Flags' own signs: set, without effect, changed in the app."""
    prediction = report.prediction
    tried = len(host.what_if.tried.wanted)
    if prediction is not None:
        if found := len({*prediction.environment} - {*host.what_if.tried.wanted}):
            yield f"*{found}"
        if prediction.ignored:
            yield "!"
    if tried:
        yield f"+{tried}"


def _low(report: Report) -> Span | None:
    """How many figures are low without a known cause, else with one; None for none."""
    if not report.snapshot.measurements:
        return None
    from gputop.measuring.judged import judged

    unexplained, explained = judged(report).low
    if unexplained:
        return f"▼{unexplained}", "bad"
    return ("▼", "warn") if explained else None
