"""The ladder of a pair, four rungs side by side, and the findings about its two devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputop.measuring.judged import judged
from gputop.pages.severity import SIGNS as HARM
from gputop.terminal.clean import clean
from gputop.topology.explain.ladder import NO, ladder
from gputop.widgets.spans import Line, left, wrapped

if TYPE_CHECKING:
    from gputop.live.findings import Shown
    from gputop.topology.report import Report

SIGNS = {"yes": ("✓", "good"), "no": ("✗", "bad"), "open": ("–", "muted")}
MOST_FINDINGS = 3


def ladder_lines(report: Report, src: str, dst: str, width: int) -> tuple[Line, ...]:
    """Questions above their answers, and the reason of the first no; () unless both are GPUs."""
    rungs = ladder(report.node, src, dst)
    if not rungs:
        return ()
    heads: list[tuple[str, str]] = []
    answers: list[tuple[str, str]] = []
    columns = _columns([max(len(rung.title), len(rung.answer)) + 2 for rung in rungs], width)
    for number, (rung, column) in enumerate(zip(rungs, columns, strict=True), start=1):
        sign, ink = SIGNS[rung.state]
        heads.append((left(f"{number} {rung.title}", column - 1) + " ", "muted"))
        answers += [
            (f"{sign} ", ink),
            (left(clean(rung.answer, 60), column - 3) + " ", ink if rung.state == NO else ""),
        ]
    lines: list[Line] = [tuple(heads), tuple(answers)]
    stops = next(((n, rung) for n, rung in enumerate(rungs, start=1) if rung.state == NO), None)
    if stops is not None and stops[1].why:
        spans = ((f"{stops[0]}: ", "bad"), (clean(stops[1].why, 400), ""))
        lines += wrapped(spans, width, 3)
    return tuple(lines)


def _columns(needed: list[int], width: int) -> list[int]:
    """Widths for texts of these lengths and a blank each: equal where they fit, else as needed."""
    alike = width // len(needed)
    if alike > max(needed):
        return [alike] * len(needed)
    columns = [length + 1 for length in needed]
    while sum(columns) > max(width, 8 * len(needed)):
        columns[columns.index(max(columns))] -= 1
    return columns


def pair_findings(shown: Shown | None, src: str, dst: str, width: int) -> tuple[Line, ...]:
    """The loud findings about one of the two, those about both first."""
    if shown is None:
        return ()
    found = sorted(
        shown.about(src, dst), key=lambda finding: not {src, dst} <= set(finding.devices)
    )
    lines: list[Line] = []
    for finding in found[:MOST_FINDINGS]:
        sign, ink, _ = HARM[finding.severity]
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
