"""What a log says went wrong: the headline, the findings, the lines that nobody understands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gputop.pages.own_diagnostics import only_diagnostics
from gputop.terminal.clean import clean
from gputop.topology.model.english import plural
from gputop.topology.model.page import Blank, Block, Text
from gputop.topology.model.severity import BROKEN, CANNOT_TELL, Mark, RunState
from gputop.widgets.spans import unbroken

if TYPE_CHECKING:
    from gputop.topology.diagnosis.symptoms.log import ReadLog
    from gputop.topology.model.finding import Finding

SURVIVED = "nothing in this text stopped the run"
NO_FINDINGS = "nothing in the table of symptoms applies to this log"
NOTHING_SHOWN = "no rule finds a fault in what these outputs show; what they leave out is not known"
NO_DIAGNOSED = "no rule finds a fault in these diagnostics; the log has no other lines of NCCL"
MOST_TITLE, MOST_STEP = 200, 400
"""Characters of the two sentences of the answer."""
MOST_BESIDE, MOST_CAUSES, MOST_FIXES = 2, 2, 3
"""Further findings that the answer names; possible causes and steps of the first one."""
MOST_NOTES = 20


def nothing_found(read: ReadLog) -> str:
    """What a log without findings proves, and what it does not."""
    if only_diagnostics(read.log):
        return NO_DIAGNOSED
    if read.outcome.state in (RunState.FINISHED, RunState.RUNS):
        return SURVIVED
    outputs_alone = read.log.pasted is not None and not read.log.library_lines
    return NOTHING_SHOWN if outputs_alone else NO_FINDINGS


class Headline(NamedTuple):
    """What happened in one line, and the first step."""

    mark: Mark
    said: str
    step: str
    """What to do, to look at or to fetch first; may be empty."""
    more: int = 0
    """Findings besides the one that it names."""
    became: str = ""
    """What became of the run, where `said` is about something else."""
    first: Finding | None = None
    """The finding that `said` is the title of."""

    def within(self, width: int) -> str:
        """What happened, and what became of the run where there is room for all of it."""
        both = " · ".join(filter(None, (self.said, self.became)))
        return both if len(both) <= width else self.said


def headline(read: ReadLog) -> Headline | None:
    """The worst finding and what became of the run; None where neither is known."""
    outcome, found = read.outcome, read.findings
    # Ready ranks and nothing behind them: most programs print nothing of what they then do.
    told = outcome.sentence and outcome.state is not RunState.SILENT
    if found and (found[0].severity.counts or not told):
        first = found[0]
        became = outcome.sentence if told else ""
        return Headline(first.severity, first.title, _step(first), len(found) - 1, became, first)
    if read.unexplained and read.next:
        count = len(read.unexplained)
        lines = "a line that speaks" if count == 1 else f"{count} lines that speak"
        said = f"no rule knows the cause; {lines} of a failure below"
        said = " · ".join(filter(None, (outcome.sentence, said)))
        return Headline(CANNOT_TELL, said, f"Next: {read.next}", len(found))
    if told:
        step = f"Next: {read.next}" if read.next else ""
        step = f"Note: {found[0].title}" if found else step
        return Headline(outcome.state, outcome.sentence, step, max(len(found) - 1, 0))
    return None


def _step(finding: Finding) -> str:
    if finding.candidates:
        return " ".join(f"{label}: {text}" for label, text in [*finding.possible(1)][:2])
    steps = [f"Fix: {fix.text} {fix.command or ''}".rstrip() for fix in finding.fix[:1]]
    steps += [f"Look: {look}" for look in finding.look[:1]]
    if len(steps) > 1 and sum(map(len, steps)) > MOST_STEP:
        steps.pop()
    return " · ".join(steps)


_BLAMED = re.compile(r"\b(?:transport|misc)/(shm|p2p|net|ib|socket)")
_KIND_OF = {"shm": "SHM", "p2p": "P2P"}


def failed_transports(read: ReadLog) -> frozenset[str]:
    """The kinds of transport whose own source files report a failure: "SHM", "P2P", "NET"."""
    said = (
        proof.value for one in read.findings if one.severity is BROKEN for proof in one.evidence
    )
    files = (found[1] for text in said if (found := _BLAMED.search(text)))
    return frozenset(_KIND_OF.get(file, "NET") for file in files)


def answer_lines(read: ReadLog) -> Iterator[Text]:
    """The headline; nothing where the library's own diagnostics speak for themselves."""
    head = None if only_diagnostics(read.log) else headline(read)
    if head is None:
        return
    yield Text(f"{head.mark.sign}  {clean(head.within(MOST_TITLE), MOST_TITLE)}", hanging=3)
    if head.first is None:
        below = f"{plural(head.more, 'more finding')} below" if head.more else ""
        step = " · ".join(filter(None, (unbroken(clean(head.step, MOST_STEP)), below)))
        yield from [Text(step, indent=3, hanging=0)] if step else []
        return
    yield from _steps(head.first, MOST_CAUSES)
    beside = [one for one in read.findings[1:] if one.severity.counts or one.candidates][
        :MOST_BESIDE
    ]
    for one in beside:
        yield Text(f"{one.severity.sign}  {clean(one.title, MOST_TITLE)}", hanging=3)
        yield from list(_steps(one))[:1]
    if more := head.more - len(beside):
        yield Text(f"{plural(more, 'more finding')} below", indent=3, hanging=0)


def _steps(finding: Finding, causes: int = 1) -> Iterator[Text]:
    """What to do and why; of so many possible causes what decides, and then the step."""
    if finding.candidates:
        told = [*finding.possible(causes)]
    else:
        steps = "; ".join(" ".join(fix.lines) for fix in finding.fix[:MOST_FIXES])
        look = finding.look[0] if finding.look else ""
        told = [("Fix", steps), ("Cause", finding.said_cause), ("Look", look)]
    for label, text in told:
        if text:
            title = f"{label}: " if label else ""
            yield Text(f"{title}{unbroken(clean(text, MOST_STEP))}", indent=3, hanging=len(title))


def findings(read: ReadLog) -> Iterator[Block]:
    """All findings, then the lines that nobody understands, then what to fetch."""
    for number, finding in enumerate(read.findings):
        if number:
            yield Blank()
        yield from _finding(finding)
    for note in read.unexplained[:MOST_NOTES]:
        where = f"{note.where}: " if note.where else ""
        times = f" ({note.count} times)" if note.count > 1 else ""
        text = clean(f"{where}{note.text}{times}", 400)
        yield Text(f"{CANNOT_TELL.sign} line {note.line}: {text}", hanging=3)
    if len(read.unexplained) > MOST_NOTES:
        yield Text(f"and {len(read.unexplained) - MOST_NOTES} more")
    if not (read.findings or read.unexplained):
        yield Text(nothing_found(read))
    if read.next:
        yield Blank()
        yield Text(f"Next: {read.next}", hanging=6)


def _finding(finding: Finding) -> Iterator[Text]:
    """A finding: title, the lines that prove it, the cause, where to look, the fix."""
    yield Text(f"{finding.severity.sign}  {clean(finding.title, 200)}", hanging=3)
    for proof in finding.evidence:
        yield Text(f"{proof.what}: {clean(proof.value, 300)}", indent=3, hanging=3)
    if finding.cause:
        yield Text(clean(finding.said_cause, 600), indent=3, hanging=0)
    if finding.candidates:
        yield from _candidates(finding)
        return
    fixes = tuple(f"{fix.text} {fix.command or ''}".rstrip() for fix in finding.fix)
    for title, texts in (("Look: ", finding.look), ("Fix: ", fixes)):
        for index, text in enumerate(texts):
            lead = title if index == 0 else " " * len(title)
            yield Text(f"{lead}{unbroken(clean(text, 300))}", indent=3, hanging=len(title))
    yield Text(f"Source: {'; '.join(finding.sources)}", indent=3, hanging=3)


def _candidates(finding: Finding) -> Iterator[Text]:
    """Possible causes in their order, each with what speaks for it, what decides and what helps."""
    alone = len(finding.candidates) == 1
    yield Text("A possible cause:" if alone else "Possible causes:", indent=3, hanging=0)
    for number, one in enumerate(finding.candidates, 1):
        yield Text(f"{number}. {clean(one.cause, 600)}", indent=3, hanging=3)
        for label, text in one.told:
            yield Text(f"{label}: {clean(text, 300)}", indent=6, hanging=len(label) + 2)
    yield Text(f"Source: {'; '.join(finding.sources)}", indent=3, hanging=3)
