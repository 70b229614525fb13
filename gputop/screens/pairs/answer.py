"""The lines above the matrix: what the selected pair uses, why, and what would change it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputop.measuring.judged import judged
from gputop.screens.pairs.ladder import rung_line
from gputop.terminal.clean import clean
from gputop.topology.expectation.cost.costs import costs_of
from gputop.topology.explain.pair_summary import NO_P2P, P2P, PairSummary, pair_summary
from gputop.topology.hardware.terms import terms_of
from gputop.topology.model import quantities
from gputop.topology.model.severity import BY_DESIGN, FigureVerdict
from gputop.topology.model.units import figure, gbs
from gputop.widgets.measure import measured
from gputop.widgets.meters import verdict_of
from gputop.widgets.spans import Line, Span, width_of, wrapped

if TYPE_CHECKING:
    from gputop.live.findings import Shown
    from gputop.topology.expectation.judgement import Judgement
    from gputop.topology.flags.what_if.remedy import Remedy
    from gputop.topology.model.finding import Finding
    from gputop.topology.report import Report
    from gputop.widgets.measure import Pair

GLANCE, GAP = 100, 2
"""Cells of a line with a button at its end, and between both."""
ROOMY = 90
"""Width from which it stands there which rate of a link is meant."""
HEAD = 9
"""Cells of the words at the left."""


def answer_lines(
    report: Report,
    pair: tuple[str, str],
    shown: Shown | None,
    remedy: tuple[bool, Remedy | None],
    width: int,
) -> tuple[Line, ...]:
    """The answer in two lines, then what would change it, its speed, its way and the evidence."""
    found = pair_summary(report.node, *pair)
    finding = _finding(shown, *pair)
    because = finding.title if finding is not None and found.state != NO_P2P else found.because
    library = terms_of(report.snapshot.machine.gpus).library
    lines = [
        _headline(found, finding, _judgement(report, pair), library),
        *_because(clean(because, 300) or "–", width),
        _change(found, remedy, width),
        _row(
            "Speed", _speed(report, found, pair, width), _button("p", "run", "probe(False)"), width
        ),
        _row("Route", ((clean(found.route, 200) or "not known", ""),), (), width),
        rung_line(report, *pair, found.state != NO_P2P),
    ]
    return tuple(line for line in lines if line)


def _headline(
    found: PairSummary, finding: Finding | None, judgement: Judgement | None, library: str
) -> Line:
    pair: Span = (f" {clean(found.pair, 60)}   ", "strong")
    if found.state == NO_P2P and found.by_rule:
        sign, ink, _ = BY_DESIGN.shown
        return (
            pair,
            (f"{sign} ", ink),
            (found.head, "strong"),
            (f", by {library}'s rule", "muted"),
        )
    if found.state == NO_P2P:
        return (pair, (f"✗ {found.head}", "bad"))
    if finding is not None:
        sign, ink, word = finding.severity.shown
        return (pair, (f"{sign} {word}: ", f"{ink} bold"), (clean(found.head, 100), "strong"))
    if judgement is not None and judgement.verdict is not FigureVerdict.NO_REFERENCE:
        sign, word, ink = verdict_of(judgement)
        said = "" if word == "healthy" else f"{word}: "
        return (pair, (f"{sign} {said}", ink), (clean(found.head, 100), "strong"))
    return (pair, (clean(found.head, 100), "strong"))


def _finding(shown: Shown | None, src: str, dst: str) -> Finding | None:
    """The worst loud finding about one of the two, one about both before the others."""
    found = () if shown is None else shown.about(src, dst)
    both = [finding for finding in found if {src, dst} <= set(finding.devices)]
    return next(iter((*both, *found)), None)


def _because(text: str, width: int) -> tuple[Line, ...]:
    """The reason, on two lines where it is long."""
    spans: Line = ((f" {'Because':<{HEAD}}", "muted"), (text, ""))
    lines = wrapped(spans, width, HEAD + 1)
    return lines if len(lines) < 3 else (_row("Because", ((text, ""),), (), width),)


def _change(found: PairSummary, remedy: tuple[bool, Remedy | None], width: int) -> Line:
    if found.state == P2P:
        return _row("Uses", ((clean(found.uses, 80), ""),), (), width)
    if found.state != NO_P2P:
        return ()
    known, change = remedy
    if not known:
        return _row("Change", (("working out which variable changes it …", "muted"),), (), width)
    if change is None:
        return _row("Change", (("no single variable gives this pair P2P", ""),), (), width)
    said: tuple[Span, ...] = ((change.in_words, "strong"), (f" → {change.effect}", ""))
    if change.value is not None:
        said = (*said, ("; may be slower: p measures", ""))
    return _row("Change", said, _button("f", "try", "screen.try"), width)


def _speed(report: Report, found: PairSummary, pair: Pair, width: int) -> tuple[Span, ...]:
    """The rate of the link, and what a copy reaches of what it should."""
    payload = " payload" if found.link_gbs is not None and width >= ROOMY else ""
    spans: list[Span] = [(f"link {gbs(found.link_gbs)}{payload}", ""), (" · ", "muted")]
    made = measured(report.snapshot, quantities.WRITE).get(pair)
    # What a P2P copy reaches says nothing about bytes that take another way.
    cost = costs_of(report.node).copy(*pair) if _gpus(report, pair) and not found.detour else None
    if made is None:
        reach = () if cost is None else ((f"copy {cost.pair}", ""), (" · ", "muted"))
        return (*spans, *reach, ("measured –", "muted"))
    if made.value is None or made.wrong:
        return (*spans, (f"{made.basis}: {clean(made.verdict or 'no figure', 40)}", "bad"))
    if found.detour:
        spans.append(("a P2P copy ", ""))
    if cost is not None and cost.healthy is not None:
        spans.append((f"copy healthy {figure(cost.healthy)} → ", ""))
    spans.append((f"{made.basis} {figure(made.value)}", "warn" if made.simulated else "strong"))
    judgement = judged(report).of(made)
    if judgement is not None and judgement.verdict is not FigureVerdict.NO_REFERENCE:
        sign, word, ink = verdict_of(judgement)
        spans.append((f" {sign} {word}", ink))
    return tuple(spans)


def _judgement(report: Report, pair: Pair) -> Judgement | None:
    made = measured(report.snapshot, quantities.WRITE).get(pair)
    return None if made is None else judged(report).of(made)


def _gpus(report: Report, pair: Pair) -> bool:
    machine = report.snapshot.machine
    return all(machine.gpu(address) is not None for address in pair)


def _button(key: str, word: str, action: str) -> Line:
    return ((key, f"key bold @{action}"), (f" {word}", f"muted @{action}"))


def _row(head: str, said: tuple[Span, ...], button: Line, width: int) -> Line:
    """A word, what it says, and a button at the right edge of what can be read at a glance.

    Where it is too long, whole parts at its end are left out.
    """
    room = max(min(width, GLANCE) - HEAD - 2 - (width_of(button) + GAP if button else 0), 10)
    if not button:
        room = max(width - HEAD - 2, 10)
    kept = list(said)
    while len(kept) > 1 and width_of(kept) > room:
        kept.pop()
        while len(kept) > 1 and not kept[-1][0].strip(" ·"):
            kept.pop()
    if width_of(kept) > room:
        text, ink = kept[-1]
        kept[-1] = (f"{text[: room - 1 - width_of(kept[:-1])]}…", ink)
    end: Line = ((" " * (room - width_of(kept) + GAP), ""), *button) if button else ()
    return ((f" {head:<{HEAD}}", "muted"), *kept, *end)
