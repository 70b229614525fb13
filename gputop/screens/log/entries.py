"""What can be selected on the Log screen: findings, warnings, differences, the comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gputop.pages.log import agreed, compared
from gputop.terminal.clean import clean
from gputop.topology.explain.nccl import fact_of
from gputop.topology.logs.comparing.agreement import ComparedItem, PairAgreement
from gputop.topology.logs.report.report import OTHER, LogNote
from gputop.topology.model.finding import Finding
from gputop.topology.model.page import Basis, Fact, Page
from gputop.topology.model.severity import CANNOT_TELL, Accord, Mark
from gputop.widgets.spans import Line, left

if TYPE_CHECKING:
    from gputop.topology.diagnosis.symptoms.log import ReadLog

MOST = 200


class LogEntry(NamedTuple):
    """One line of the list; `what` is the thing it stands for, None for the whole comparison."""

    mark: Mark
    title: str
    what: Finding | LogNote | ComparedItem | PairAgreement | None = None


def entries(read: ReadLog) -> list[LogEntry]:
    """Findings, worst first, what the table does not know, differences, at last the comparison."""
    found = [LogEntry(one.severity, one.title, one) for one in read.findings]
    found += [
        LogEntry(CANNOT_TELL, f"line {note.line}: {note.text}", note) for note in read.unexplained
    ]
    agreement = read.overlay.agreement
    for different in agreement.differing:
        if isinstance(different, PairAgreement):
            labels = " and ".join(different.logged)
            title = f"{different.src} to {different.dst}: {labels}, not as predicted"
        else:
            title = f"{different.subject}: {different.logged}, not as predicted"
        found.append(LogEntry(Accord.DIFFERS, title, different))
    return [*found[: MOST - 1], LogEntry(agreed(read), compared(read))]


def entry_lines(found: list[LogEntry], selected: int, width: int) -> tuple[Line, ...]:
    """One line each, the selected one marked."""
    return tuple(
        (
            ("›" if index == selected else " ", "strong"),
            (left(entry.mark.sign, 3), entry.mark.ink),
            (
                left(clean(entry.title, 300), max(width - 4, 8)),
                "strong" if index == selected else "",
            ),
        )
        for index, entry in enumerate(found)
    )


def explained(entry: LogEntry, read: ReadLog) -> Page:
    """What Enter shows about an entry."""
    what = entry.what
    if what is None:
        return _whole(read)
    if isinstance(what, Finding):
        facts = [Fact(what=proof.what, value=proof.value, source="") for proof in what.evidence]
        if not what.candidates:
            facts += [_plain("check:", text) for text in what.look]
        for one in what.candidates:
            facts += [_plain("possible cause:", one.cause)]
            facts += [_plain(f"{label}:", text) for label, text in one.told]
        return Page.why(
            title=what.title,
            claim=what.said_cause or "Nothing in this text proves which of these causes it is.",
            facts=tuple(facts),
            fix=() if what.candidates else what.fix,
        )
    if isinstance(what, LogNote):
        who = [f"rank {rank}" for rank in what.ranks] or list(what.hosts)
        times = f"{what.count} times" if what.count > 1 else "once"
        fact = _line(what.line, what.text)
        said = Fact(what="said", value=times, because=", ".join(who), source=what.where or "")
        return Page.why(
            title="A line about a failure" if what.level is OTHER else "A warning of the library",
            claim="The table of known symptoms has nothing about this line.",
            facts=(fact, said),
        )
    return _difference(what, read)


def _plain(what: str, text: str) -> Fact:
    return Fact(what=what, value=text, basis=Basis.UNSAID, source="")


def _line(number: int, text: str) -> Fact:
    return Fact(what=f"line {number}", value=text, source="")


def _whole(read: ReadLog) -> Page:
    overlay = read.overlay
    agreement = overlay.agreement
    facts = [_plain("why", text) for text in agreement.reasons]
    facts += [_plain("left out", text) for text in agreement.skipped]
    facts += [
        Fact(what="taken for granted", value=text, basis=Basis.ASSUMED, source="")
        for text in overlay.assumptions
    ]
    rules = f", rules of {agreement.library}" if agreement.library else ""
    node = f" for {overlay.node}{rules}" if overlay.node else ""
    return Page.why(title="Log and prediction", claim=agreement.sentence + node, facts=tuple(facts))


def _difference(what: ComparedItem | PairAgreement, read: ReadLog) -> Page:
    agreement, prediction = read.overlay.agreement, read.overlay.prediction
    steps: tuple[Fact, ...] = ()
    if isinstance(what, PairAgreement):
        title = f"Rank {what.src} to rank {what.dst}"
        logged, predicted = " and ".join(what.logged), " and ".join(what.predicted)
        ranks = agreement.ranks
        src, dst = ranks.get(str(what.src)), ranks.get(str(what.dst))
        pair = None
        if prediction is not None and src is not None and dst is not None:
            pair = prediction.pair(src, dst)
        steps = tuple(map(fact_of, pair.steps)) if pair is not None else ()
    else:
        title, logged, predicted = what.subject, what.logged, what.predicted
    facts = [_line(what.line, logged)] if what.line else []
    facts += [_plain("why that can be", text) for text in agreement.reasons]
    return Page.why(
        title=title,
        claim=f"The log shows {logged}; predicted was {predicted}.",
        facts=(*facts, *steps),
    )
