"""The printer for the screen: lines of spans, each a text with its ink."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from typing import TYPE_CHECKING

from gputop.pages.severity import SIGNS
from gputop.pages.terminal import body_lines, heading_lines
from gputop.terminal.clean import clean, clean_block
from gputop.widgets.spans import Line, text_of, wrapped

if TYPE_CHECKING:
    from gputop.topology.diagnosis.finding import Finding
    from gputop.topology.model.page import Fact, Page, Section

_BASIS = {"measured": "good", "read": "muted", "assumed": "warn", "simulated": "warn"}


def section_lines(sections: Iterable[Section], width: int) -> tuple[Line, ...]:
    """Print sections with strong headings and muted heads of tables."""
    lines: list[Line] = []
    for section in sections:
        if lines:
            lines.append(())
        lines += [((clean(text, 400), "key bold"),) for text in heading_lines(section, width)]
        for number, text in enumerate(body_lines(section, width)):
            ink = "muted" if section.table and number == 0 else ""
            lines.append(((clean(text, 400), ink),))
    return tuple(lines)


def page_lines(page: Page, width: int) -> tuple[Line, ...]:
    """Print the claim, then each fact as question and answer with its reason and source."""
    lines: list[Line] = list(wrapped(((clean(page.claim, 1000), "strong"),), width))
    if page.facts:
        lines.append(())
    for fact in page.facts:
        lines += _fact(fact, width)
    if page.consequence:
        lines += [
            (),
            *wrapped((("Impact: ", "key bold"), (clean(page.consequence, 1000), "")), width, 4),
        ]
    if page.fix:
        lines.append(())
        for index, line in enumerate(clean_block(page.fix_text).split("\n")):
            lead = ("Fix: ", "good bold") if index == 0 else ("     ", "")
            lines += wrapped((lead, (line, "")), width, 5)
    return tuple(lines)


def _fact(fact: Fact, width: int) -> list[Line]:
    because = clean(fact.because, 1000) if fact.because else ""
    origin = clean(fact.source) if fact.source else ""
    flag = f"changed by {clean(fact.flag, 80)}" if fact.flag else ""
    tail = " · ".join(part for part in (because, flag, origin) if part)
    basis = (f" [{clean(fact.basis)}]" if fact.basis else "", _BASIS.get(fact.basis, "muted"))
    said = (
        ("▸ " if fact.decides else "• ", "key bold" if fact.decides else "muted"),
        (f"{clean(fact.question)} ", "muted"),
        (clean(fact.answer, 1000), "strong"),
    )
    if not tail:
        return list(wrapped((*said, basis), width, 2))
    return [*wrapped(said, width, 2), *wrapped(((f"  {tail}", "muted"), basis), width, 2)]


def page_text(page: Page) -> str:
    """Print the whole page as plain text of 100 columns."""
    lines = [
        clean(page.title),
        "",
        *(text_of(line).rstrip() for line in page_lines(page, 100)),
    ]
    return "\n".join(lines)


def finding_lines(finding: Finding, width: int, silenced: str | None = None) -> tuple[Line, ...]:
    """Print a finding: what to do, its evidence, what follows, and what would disprove it.

    What to do stands first, so that a small terminal shows it without scrolling.
    `silenced`: why the finding is silenced, "" without a reason; None where it counts.
    """
    sign, ink, word = SIGNS[finding.severity]
    lines: list[Line] = [
        *wrapped(((clean(finding.title, 600), "strong"),), width),
        ((f"{sign} {word}", ink), (f" · {clean(finding.id)}", "muted")),
    ]
    if silenced is not None:
        why = f": {clean(silenced, 200)}" if silenced else ""
        lines += wrapped(((f"– silenced{why}", "warn"),), width, 2)
    lines += _fix_lines(finding, width)
    lines.append(())
    for proof, following in zip_longest(finding.evidence, finding.evidence[1:]):
        spans = (("• ", "muted"), (f"{clean(proof.what, 300)}: ", ""))
        lines += wrapped((*spans, (clean(proof.value, 600), "strong")), width, 2)
        if following is None or proof.source != following.source:
            # What comes in a row from one source names it once, below the last.
            lines += wrapped(((f"  {clean(proof.source, 200)}", "muted"),), width, 2)
    for lead, text in (("Impact: ", finding.consequence), ("Ruled out if: ", finding.disproof)):
        if text:
            lines += [(), *wrapped(((lead, "key bold"), *_marked(clean(text, 1000))), width, 4)]
    return (*lines, *_source_lines(finding, width))


def _marked(text: str) -> Line:
    """A text whose commands stand between backticks, which are ink here."""
    return tuple((part, "key" if place % 2 else "") for place, part in enumerate(text.split("`")))


def _fix_lines(finding: Finding, width: int) -> list[Line]:
    lines: list[Line] = []
    for index, fix in enumerate(finding.fix):
        lead = ("Fix: ", "good bold") if index == 0 else ("     ", "")
        root = ((" (needs root)", "warn"),) if fix.needs_root else ()
        lines += [*([()] if index == 0 else [])]
        lines += wrapped((lead, *_marked(clean(fix.text, 1000)), *root), width, 5)
        for command in clean_block(fix.command).split("\n") if fix.command else ():
            lines += _command_lines(command, width)
    return lines


def _command_lines(command: str, width: int) -> list[Line]:
    """A command, broken between its words only: half a word of it would be another command."""
    lines: list[tuple[int, str]] = []
    for word in command.split(" "):
        if lines and lines[-1][0] + len(lines[-1][1]) + 1 + len(word) <= width:
            lines[-1] = (lines[-1][0], f"{lines[-1][1]} {word}")
        else:
            lines.append((7 if lines else 5, word))
    return [((" " * indent, ""), (text, "key")) for indent, text in lines]


def _source_lines(finding: Finding, width: int) -> tuple[Line, ...]:
    if not finding.sources:
        return ()
    sources = clean(", ".join(finding.sources), 600)
    return ((), *wrapped((("Sources: ", "muted"), (sources, "muted")), width, 4))
