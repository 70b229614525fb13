"""The list of findings: the most harmful first, then silenced ones, then what was not examined."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gputop.live.findings import Shown
from gputop.terminal.clean import clean
from gputop.topology.diagnosis.engine import Diagnosis, load
from gputop.topology.hardware.terms import VendorTerms
from gputop.topology.model.finding import Finding
from gputop.topology.model.page import Fact, Page
from gputop.widgets.named_list import NamedList
from gputop.widgets.spans import Line, left, right

UNEXAMINED = "unexamined"
"""Name of the line for the rules without evidence; no name of a finding is one word."""
WORD_WIDTH = 11
WIDE = 70
"""Width from which a row has the word of its sign; the verdict above counts them in words."""
COST_WIDTH = 10


class FindingRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the list."""

    name: str
    sign: str
    ink: str
    word: str
    title: str
    finding: Finding | None = None
    """None for the line about rules without evidence."""
    silenced: str | None = None
    """Why it is silenced, "" where nobody said; None for one that counts."""


def rows_of(shown: Shown) -> tuple[FindingRow, ...]:
    """A line for each finding, loud and silenced, and one for what could not be examined."""
    rows = [_row(finding, None) for finding in shown.findings]
    rows += [_row(silenced.finding, silenced.reason) for silenced in shown.silenced]
    missing = shown.diagnosis.skipped
    if missing:
        title = f"{missing} check{'s' if missing > 1 else ''} skipped (data unavailable)"
        rows.append(FindingRow(name=UNEXAMINED, sign="–", ink="muted", word="", title=title))
    return _named_apart(rows)


def _row(finding: Finding, silenced: str | None) -> FindingRow:
    sign, ink, word = finding.severity.shown
    if silenced is not None:
        sign, ink, word = "–", "muted", "silenced"
    name = " ".join((finding.id, ",".join(finding.devices), finding.title))
    return FindingRow(
        name=name,
        sign=sign,
        ink=ink,
        word=word,
        title=finding.title,
        finding=finding,
        silenced=silenced,
    )


def _named_apart(rows: list[FindingRow]) -> tuple[FindingRow, ...]:
    """The rows with unique names, in case a rule says the same twice."""
    seen: dict[str, int] = {}
    apart = []
    for row in rows:
        count = seen[row.name] = seen.get(row.name, 0) + 1
        apart.append(
            row if count == 1 else msgspec.structs.replace(row, name=f"{row.name} {count}")
        )
    return tuple(apart)


class FindingList(NamedList):
    """The rows; a double click says why."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, classes=classes)
        self._rows: tuple[FindingRow, ...] = ()
        self._nothing: Line = ()

    @property
    def row(self) -> FindingRow | None:
        """The selected row; None in an empty list."""
        return self._rows[self.place] if self._rows else None

    def select_rule(self, rule: str) -> None:
        """Put the cursor on the first finding of a rule."""
        found = (row.name for row in self._rows if row.finding and row.finding.id == rule)
        self.go_to(next(found, self.selected))

    def show_rows(self, rows: Sequence[FindingRow], nothing: Line = ()) -> None:
        """Put these rows on screen; `nothing` where there are none."""
        self._rows, self._nothing = tuple(rows), nothing
        if self.take_names(row.name for row in rows) and rows:
            self.call_after_refresh(self.reveal_cursor)
        self.draw()

    def draw(self) -> None:
        """Draw the rows."""
        width = self.scrollable_content_region.width or 78
        lines = [self._line(row, width) for row in self._rows]
        self.show(lines or (self._nothing,), self.marks_at(width))

    def _line(self, row: FindingRow, width: int) -> Line:
        here = row.name == self.selected
        title = "strong" if here else "muted" if row.ink == "muted" else ""
        cost = "" if row.finding is None else row.finding.cost
        word = left(row.word, WORD_WIDTH) + " " if width >= WIDE else ""
        room = max(width - len(word) - 3 - (COST_WIDTH if cost else 0), 8)
        if cost and len(row.title) + len(cost) + 2 > width - len(word) - 3:
            cost = cost.rpartition(" ")[2]
        elif cost:
            room = width - len(word) - 3 - max(len(cost), COST_WIDTH)
        return (
            ("›" if here else " ", "strong"),
            (f"{row.sign} ", row.ink),
            (word, row.ink),
            (left(clean(row.title, 300), room), title),
            (right(cost, width - room - len(word) - 3) if cost else "", row.ink),
        )


def explained(row: FindingRow, shown: Shown, words: VendorTerms) -> Page:
    """What `w` shows about a row."""
    if row.finding is None:
        return _unexamined(shown.diagnosis, words)
    return explanation(row.finding, words)


def explanation(finding: Finding, words: VendorTerms) -> Page:
    """Explain a finding: its evidence, rule, consequence and fix."""
    _, _, word = finding.severity.shown
    facts = [
        Fact(what=f"{proof.what}:", value=proof.value, source=proof.source)
        for proof in finding.evidence
    ]
    rule = next((rule for rule in load() if rule.id == finding.id), None)
    if rule is not None:
        facts.append(
            Fact(
                what="Which rule says so?",
                value=words.fill(f"{rule.title}, from {rule.evidence}"),
                source=", ".join(finding.sources),
                basis="",
                decides=True,
            )
        )
    if finding.disproof:
        facts.append(
            Fact(what="What would disprove it?", value=finding.disproof, basis="", source="")
        )
    number = f" · {finding.family}" if finding.family else ""
    return Page.why(
        title=f"{finding.id}{number} · {word}",
        claim=finding.title,
        facts=tuple(facts),
        impact=finding.impact,
        fix=finding.fix,
    )


def _unexamined(diagnosis: Diagnosis, words: VendorTerms) -> Page:
    """List the rules without evidence on this node, and what each needs."""
    missing = [rule for rule in load() if rule.id in diagnosis.unexamined and not rule.over_time]
    return Page.why(
        title="Checks that were skipped",
        claim=(
            f"{len(missing)} of {len(missing) + diagnosis.checks} checks were skipped: what they "
            "need was not read or not measured. They say nothing, neither good nor bad."
        ),
        facts=tuple(
            Fact(
                what=f"{clean(rule.id)}:",
                value=words.fill(f"needs {rule.evidence}"),
                basis="",
                source="",
            )
            for rule in missing
        ),
    )
