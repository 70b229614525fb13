"""The ladder of a pair, five questions, and the findings about its two devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputop.measuring.judged import judged
from gputop.terminal.clean import clean
from gputop.topology.explain.ladder import NO, YES, Rung, ladder
from gputop.topology.model.severity import BY_DESIGN
from gputop.widgets.spans import Line, left, wrapped

if TYPE_CHECKING:
    from gputop.live.findings import Shown
    from gputop.topology.report import Report

MOST_FINDINGS = 3


def _sign(rung: Rung) -> tuple[str, str]:
    """Sign and ink of an answer; a no of the library's own rule is no alarm."""
    return BY_DESIGN.shown[:2] if rung.by_rule else rung.state.shown[:2]


def rung_line(report: Report, src: str, dst: str, granted: bool) -> Line:
    """All rungs on one line, each with its sign; () unless both are GPUs.

    `granted`: the pair has P2P. Where it has none, what precedes the no is no good news.
    """
    rungs = ladder(report.node, src, dst)
    if not rungs:
        return ()
    spans: list[tuple[str, str]] = [(" ", "")]
    for rung in rungs:
        sign, ink = _sign(rung)
        ink = "muted" if rung.state == YES and not granted else ink
        spans += [(f"{rung.title} ", "muted"), (sign, ink), ("  ", "")]
    spans += [(" ▸ ", "key bold @why"), ("evidence", "muted @why")]
    return tuple(spans)


def ladder_lines(report: Report, src: str, dst: str, width: int) -> tuple[Line, ...]:
    """A line for each question with its answer, and the reason of the first no."""
    rungs = ladder(report.node, src, dst)
    if not rungs:
        return ()
    # A pair that the driver refuses may have P2P through another GPU.
    granted = all(rung.state != NO or (rung.title == "driver" and rung.by_rule) for rung in rungs)
    lines: list[Line] = []
    for number, rung in enumerate(rungs, start=1):
        sign, ink = _sign(rung)
        ink = "muted" if rung.state == YES and not granted else ink
        answer = clean(rung.answer, 60)
        spans = (
            (f"{number} {left(rung.title, 11)}", "muted"),
            (f"{sign} ", ink),
            (answer, ink if rung.state == NO and not rung.by_rule else ""),
            (f"  {clean(rung.why, 400)}" if rung.state == NO else "", "muted"),
        )
        lines += wrapped(spans, width, 15)
    return tuple(lines)


def evidence_lines(
    report: Report, pair: tuple[str, str], shown: Shown | None, patterns: bool, width: int
) -> tuple[Line, ...]:
    """The questions about P2P, the findings about the two and, if asked for, the patterns."""
    lines: list[Line] = []
    for part in (
        ladder_lines(report, *pair, width),
        pair_findings(shown, *pair, width),
        pattern_lines(report, *pair, width) if patterns else (),
    ):
        lines += [*part, ()] if part else []
    return tuple(lines)


def pair_findings(shown: Shown | None, src: str, dst: str, width: int) -> tuple[Line, ...]:
    """The loud findings about one of the two, those about both first."""
    if shown is None:
        return ()
    found = sorted(
        shown.about(src, dst), key=lambda finding: not {src, dst} <= set(finding.devices)
    )
    lines: list[Line] = []
    for finding in found[:MOST_FINDINGS]:
        sign, ink, _ = finding.severity.shown
        lines += wrapped(((f"{sign} ", ink), (clean(finding.title, 300), "")), width, 2)
    if len(found) > MOST_FINDINGS:
        lines.append(((f"  {len(found) - MOST_FINDINGS} more findings", "muted"),))
    return tuple(lines)


def pattern_lines(report: Report, src: str, dst: str, width: int) -> tuple[Line, ...]:
    """What the measured matrices say about one of the two; () where nothing was measured."""
    if not report.snapshot.measurements:
        return ()
    lines: list[Line] = []
    for text in judged(report).patterns_about(src, dst)[:MOST_FINDINGS]:
        lines += wrapped((("! ", "bad"), (clean(text, 400), "")), width, 2)
    return tuple(lines)
