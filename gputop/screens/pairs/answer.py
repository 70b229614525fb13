"""The lines above the matrix: what the selected pair uses, why, and what would change it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gputop.measuring.judged import judged
from gputop.pages.severity import SIGNS as HARM
from gputop.screens.pairs.ladder import rung_line
from gputop.terminal.clean import clean
from gputop.topology.expectation.judge import Judge
from gputop.topology.explain.pair_summary import NO_P2P, P2P, PairSummary, pair_summary
from gputop.topology.model import quantities
from gputop.topology.model.snapshot import Measurement
from gputop.topology.model.units import figure, gbs
from gputop.widgets.measure import measured
from gputop.widgets.meters import verdict_of
from gputop.widgets.spans import Line, Span, text_of, width_of

if TYPE_CHECKING:
    from gputop.live.findings import Shown
    from gputop.topology.diagnosis.finding import Finding
    from gputop.topology.expectation.judgement import Judgement
    from gputop.topology.flags.what_if.remedy import Remedy
    from gputop.topology.report import Report

HEAD = 9
"""Cells of the words at the left."""


class CopySpeed(NamedTuple):
    """What a copy between the two reaches."""

    figure: Measurement | None
    judgement: Judgement | None
    healthy: float | None
    basis: str
    """"measured", "typical" or "estimate": where the healthy figure is from."""


def answer_lines(
    report: Report,
    pair: tuple[str, str],
    shown: Shown | None,
    remedy: tuple[bool, Remedy | None],
    width: int,
) -> tuple[Line, ...]:
    """The answer in two lines, then what would change it, its speed, its way and the evidence."""
    found = pair_summary(report.node, *pair)
    speed = _measured(report, *pair)
    finding = _finding(shown, *pair)
    because = finding.title if finding is not None and found.state != NO_P2P else found.because
    lines = [
        _headline(found, finding, speed.judgement, shown),
        _row("Because", ((clean(because, 300) or "–", ""),), (), width),
        _change(found, remedy, width),
        _row("Speed", _speed(found, speed), _button("p", "run", "probe(False)"), width),
        _row("Route", ((clean(found.route, 200) or "not known", ""),), (), width),
        rung_line(report, *pair, found.state != NO_P2P),
    ]
    return tuple(line for line in lines if line)


def _headline(
    found: PairSummary, finding: Finding | None, judgement: Judgement | None, shown: Shown | None
) -> Line:
    pair: Span = (f" {clean(found.pair, 60)}   ", "strong")
    if found.state == NO_P2P:
        return (pair, (f"✗ {found.head}", "bad"))
    if finding is not None:
        sign, ink, _ = HARM[finding.severity]
        word = {"broken": "BROKEN", "slow": "SLOW"}.get(finding.severity, "CANNOT TELL")
        return (pair, (f"{sign} {word}: ", f"{ink} bold"), (clean(found.head, 100), "strong"))
    if judgement is not None and judgement.verdict != "no reference":
        sign, word, ink = verdict_of(judgement)
        said = "" if word == "healthy" else f"{word.upper()}: "
        return (pair, (f"{sign} {said}", ink), (clean(found.head, 100), "strong"))
    return (pair, (clean(found.head, 100), "strong"))


def _finding(shown: Shown | None, src: str, dst: str) -> Finding | None:
    """The worst loud finding about one of the two, one about both before the others."""
    found = () if shown is None else shown.about(src, dst)
    both = [finding for finding in found if {src, dst} <= set(finding.devices)]
    return next(iter((*both, *found)), None)


def _change(found: PairSummary, remedy: tuple[bool, Remedy | None], width: int) -> Line:
    if found.state == P2P:
        return _row("Uses", ((clean(found.uses, 80), ""),), (), width)
    if found.state != NO_P2P:
        return ()
    known, change = remedy
    if not known:
        return _row("Change", (("working out which variable changes it …", "muted"),), (), width)
    if change is None:
        return _row("Change", (("no variable gives this pair P2P", ""),), (), width)
    gained = f"{change.gained} pair{'s' * (change.gained != 1)}"
    effect = f" → P2P for {gained.replace(' ', ' more ', 1)}"
    if change.lost:
        effect += f", {change.lost} lose it"
    said: tuple[Span, ...] = ((change.in_words, "strong"), (effect, ""))
    return _row(
        "Change", said, (("f", "key bold @screen.try"), (" try", "muted @screen.try")), width
    )


def _measured(report: Report, src: str, dst: str) -> CopySpeed:
    figure_ = measured(report.snapshot, quantities.WRITE).get((src, dst))
    machine = report.snapshot.machine
    if machine.gpu(src) is None or machine.gpu(dst) is None:
        return CopySpeed(None, None, None, "")
    if figure_ is not None:
        judgement = judged(report).of(figure_)
        band = None if judgement is None else judgement.band
    else:
        asked = Measurement(probe="", quantity=quantities.WRITE, src=src, dst=dst, unit="GB/s")
        judge = Judge(report.snapshot, report.prediction, lambda: report.graph)
        judgement, band = None, judge.expected(asked).band
    return CopySpeed(
        figure_,
        judgement,
        None if band is None else band.healthy,
        "" if band is None else band.basis,
    )


def _speed(found: PairSummary, speed: CopySpeed) -> tuple[Span, ...]:
    spans: list[Span] = [(f"link {gbs(found.link_gbs)}", "")]
    if speed.healthy is not None:
        spans.append((f" · healthy {figure(speed.healthy)} ({speed.basis})", "muted"))
    made = speed.figure
    spans.append((" · ", "muted"))
    if made is None:
        return (*spans, ("measured –", "muted"))
    if made.value is None or made.verdict == "wrong-data":
        return (*spans, (f"measured: {clean(made.verdict or 'no figure', 40)}", "bad"))
    basis = made.basis
    spans.append((f"{basis} {figure(made.value)}", "warn" if made.simulated else "strong"))
    if speed.judgement is not None and speed.judgement.verdict != "no reference":
        sign, word, ink = verdict_of(speed.judgement)
        spans.append((f" {sign} {word}", ink))
    return tuple(spans)


def _button(key: str, word: str, action: str) -> Line:
    return ((key, f"key bold @{action}"), (f" {word}", f"muted @{action}"))


def _row(head: str, said: tuple[Span, ...], button: tuple[Span, ...], width: int) -> Line:
    """A word, what it says, and a button at the right edge of what can be read at a glance."""
    room = max(width - HEAD - 1 - width_of(button), 10)
    text = text_of(said)
    if len(text) > room:
        said = ((text[: room - 1] + "…", said[-1][1]),)
    gap = max(min(width, 100) - HEAD - 1 - width_of(said) - width_of(button), 2)
    end = ((" " * gap, ""), *button) if button else ()
    return ((f" {head:<{HEAD}}", "muted"), *said, *end)
