"""Findings: what is wrong here, the most harmful first, with proof and fix; and the events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec
from textual.containers import Container
from textual.widget import Widget

from gputop.live.findings import Shown
from gputop.printing.finding_blocks import finding_blocks
from gputop.printing.render import finding_lines, page_text, render
from gputop.screens.listing import Listing, ListingRows, MasterDetail
from gputop.terminal.clean import clean
from gputop.topology.diagnosis.engine import Diagnosis, load
from gputop.topology.hardware.terms import VendorTerms
from gputop.topology.model.finding import Finding
from gputop.topology.model.page import SIMULATED, Basis, Blank, Block, Fact, Facts, Page, Role, Text
from gputop.widgets.board import Board
from gputop.widgets.finding_text import event_lines, verdict_lines
from gputop.widgets.key import Key, note, scroll_keys, select_keys
from gputop.widgets.spans import Line, left, right

if TYPE_CHECKING:
    from gputop.live.selection import PickedDevices
    from gputop.topology.report import Report

ASKING: Line = ((" asking the rules…", "muted"),)
PLAIN, COSTED = "Findings, the most harmful first", "Findings · GB/s healthy→here"
NOTHING: Line = ((" nothing found", "good"),)
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


class FindingsListing(Listing):
    """The findings of a report; None before the rules were asked."""

    def __init__(self, shown: Shown | None, words: VendorTerms, *, simulated: bool = False) -> None:
        self._shown, self._words = shown, words
        self._rows = {} if shown is None else {row.name: row for row in rows_of(shown)}
        self.nothing = ASKING if shown is None else NOTHING
        made_up = f", {SIMULATED}" if simulated else ""
        lost = shown is not None and any(found.cost for found in shown.findings)
        self._caption = f"{COSTED}{made_up}" if lost else PLAIN

    @property
    def names(self) -> Sequence[str]:
        """The findings."""
        return tuple(self._rows)

    def found(self, name: str) -> FindingRow | None:
        """The row of a name; None for another."""
        return self._rows.get(name)

    def of_rule(self, rule: str) -> str:
        """The name of the first finding of a rule; "" where there is none."""
        found = (row.name for row in self._rows.values() if row.finding and row.finding.id == rule)
        return next(found, "")

    def caption(self) -> str:
        """What the rows are, and what the figures mean."""
        return self._caption

    def row(self, name: str, width: int, selected: bool = False) -> Line:
        """Sign, word, title and what the finding costs."""
        row = self._rows[name]
        title = "strong" if selected else "muted" if row.ink == "muted" else ""
        cost = "" if row.finding is None else row.finding.cost
        word = left(row.word, WORD_WIDTH) + " " if width >= WIDE else ""
        room = max(width - len(word) - 3 - (COST_WIDTH if cost else 0), 8)
        if cost and len(row.title) + len(cost) + 2 > width - len(word) - 3:
            cost = cost.rpartition(" ")[2]
        elif cost:
            room = width - len(word) - 3 - max(len(cost), COST_WIDTH)
        return (
            ("›" if selected else " ", "strong"),
            (f"{row.sign} ", row.ink),
            (word, row.ink),
            (left(clean(row.title, 300), room), title),
            (right(cost, width - room - len(word) - 3) if cost else "", row.ink),
        )

    def why(self, name: str) -> Page | None:
        """What `w` shows about a row."""
        row, shown = self._rows.get(name), self._shown
        if row is None or shown is None:
            return None
        if row.finding is None:
            return _unexamined(shown.diagnosis, self._words)
        return explanation(row.finding, self._words)

    def title(self, name: str) -> str:
        """The rule, or that checks were skipped."""
        finding, why = self._rows[name].finding, self.why(name)
        return clean(finding.id) if finding is not None else "" if why is None else why.title

    def detail(self, name: str, width: int, height: int) -> Sequence[Line]:
        """The finding with what silenced it, or the rules without evidence."""
        row, why = self._rows[name], self.why(name)
        if row.finding is not None:
            return finding_lines(row.finding, width, row.silenced)
        return () if why is None else render(why.blocks, width)

    def copied(self, name: str) -> tuple[str, ...]:
        """The whole finding."""
        why = self.why(name)
        return () if why is None else (page_text(why),)


def explanation(finding: Finding, words: VendorTerms) -> Page:
    """Explain a finding: all that it says, and the rule behind it."""
    number = f" · {finding.family}" if finding.family else ""
    blocks: list[Block] = [Text(finding.title, role=Role.STRONG)]
    rule = next((rule for rule in load() if rule.id == finding.id), None)
    if rule is not None:
        says = words.fill(f"{rule.title}, from {rule.evidence}")
        fact = Fact(
            what="Which rule says so?", value=says, source="", basis=Basis.UNSAID, decides=True
        )
        blocks += [Blank(), Facts((fact,))]
    for block in finding_blocks(finding):
        blocks += [Blank(), block]
    return Page(
        title=f"{finding.id}{number} · {finding.severity.word}",
        blocks=tuple(blocks),
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
                basis=Basis.UNSAID,
                source="",
            )
            for rule in missing
        ),
    )


class FindingsScreen(MasterDetail):
    """The list and the events beside the selected finding."""

    TITLE = "Findings"
    LIST = "#finding-list"
    DETAILS = "#finding"
    KEYS = (
        *select_keys(
            "select a finding: ✗ broken, ▼ slow, ? cannot tell, • notice, ○ by design",
        ),
        Key(
            "i",
            "silence",
            "silence",
            "silence it for this session; again: let it speak",
            command="Silence the finding",
            about="For this session; press again to show it",
        ),
        Key(
            "y",
            "copy_command",
            "copy command",
            "copy the command that mends it; again: the next one",
        ),
        note("Y", "copy a ticket in Markdown on this finding alone"),
        note("p", "probe the GPUs that it is about"),
        *scroll_keys("scroll_details", 5, "scroll the finding"),
    )
    LINE = ("w", "y", "i")

    def body(self) -> Iterable[Widget]:
        """The verdict, the list over the events, the selected finding."""
        yield Board(id="findings-head")
        with Container(id="findings"):
            with Container(id="findings-left"):
                yield ListingRows(id="finding-list", classes="titled")
                yield Board(id="events", classes="titled")
            yield Board(id="finding", classes="titled")

    def state_of(self, report: Report) -> tuple[object, ...]:
        """What the rules found, and what is silenced here."""
        return report.diagnosis, self.gputop.findings.quiet, report.snapshot.simulated

    def listing_of(self, report: Report) -> Listing:
        """The findings."""
        simulated = report.snapshot.simulated
        return FindingsListing(self.shown, self.gputop.words, simulated=simulated)

    def draw(self, report: Report) -> None:
        """Update every part; on most ticks nothing has changed."""
        super().draw(report)
        events, head = self.query_one("#events", Board), self.query_one("#findings-head", Board)
        width = self.app.size.width
        shown, told = self.shown, id(self.gputop.jobs.answer)
        head.draw_once(
            lambda: head.show(verdict_lines(shown, width)), *self.state_of(report), told, width
        )
        events.display = bool(report.events)
        events.caption("Happened while this ran")
        room = (events.scrollable_content_region.width or min(width, 74)) - 1
        events.draw_once(lambda: events.show(event_lines(report.events, room)), report.events, room)

    @property
    def _listing(self) -> FindingsListing | None:
        listing = self.rows.listing
        return listing if isinstance(listing, FindingsListing) else None

    @property
    def _row(self) -> FindingRow | None:
        return None if self._listing is None else self._listing.found(self.selected_name)

    @property
    def _finding(self) -> Finding | None:
        row = self._row
        return None if row is None else row.finding

    def take_selection(self, selected: PickedDevices) -> None:
        """Select the finding that a search chose."""
        rule = selected.take_name()
        if rule and self._listing is not None:
            self.rows.go_to(self._listing.of_rule(rule) or self.rows.selected)

    def share_selection(self) -> None:
        """Carry the device of the finding along."""
        finding = self._finding
        if finding is not None and finding.devices:
            self.gputop.selected.pick(*finding.devices[: 2 if len(finding.devices) == 2 else 1])

    def action_silence(self) -> None:
        """Silence the selected finding for this session, or undo that."""
        row, finding = self._row, self._finding
        if row is None or finding is None:
            self.gputop.say("no finding is selected", severity="warning")
            return
        if row.silenced is not None and finding.key not in self.gputop.findings.quiet:
            self.gputop.say("silenced by this site's policy, not here", severity="warning")
            return
        silent = self.gputop.findings.silence(finding.key)
        self.gputop.say(
            f"{'silenced for this session' if silent else 'speaks again'}: {finding.id}"
        )
        self.redraw()

    def action_copy_command(self) -> None:
        """Copy the commands of its fix one by one; without any, the whole finding."""
        finding = self._finding
        found = () if finding is None else finding.commands
        if found:
            self.gputop.copy_command(found)
        else:
            self.gputop.action_copy()

    def ticketed(self) -> tuple[Finding, ...]:
        """The selected finding alone."""
        return () if self._finding is None else (self._finding,)

    def why(self) -> Page | None:
        """Evidence, rule, consequence and fix of the selected finding."""
        return None if self._listing is None else self._listing.why(self.selected_name)

    def probe_targets(self) -> tuple[str, ...]:
        """The GPUs that the finding is about if there are two or more; else () for all."""
        finding = self._finding
        if finding is None or self.report is None:
            return ()
        gpus = {gpu.address for gpu in self.report.snapshot.machine.gpus}
        found = tuple(address for address in finding.devices if address in gpus)
        return found if len(found) > 1 else ()


SCREEN = FindingsScreen
