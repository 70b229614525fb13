"""An Explanation as lines: claim, evidence, consequence, fix; and as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputop.terminal.clean import clean, clean_block
from gputop.widgets.spans import Line, text_of, wrapped

if TYPE_CHECKING:
    from gputop.topology.explain.why import Explanation, Fact

_BASIS = {"measured": "good", "read": "muted", "assumed": "warn"}


def explanation_lines(why: Explanation, width: int) -> tuple[Line, ...]:
    """Claim first, then each fact as question and answer with its reason and source."""
    lines: list[Line] = list(wrapped(((clean(why.claim, 1000), "strong"),), width))
    if why.facts:
        lines.append(())
    for fact in why.facts:
        lines += _fact(fact, width)
    if why.consequence:
        lines += [
            (),
            *wrapped((("So: ", "key bold"), (clean(why.consequence, 1000), "")), width, 4),
        ]
    if why.fix:
        lines.append(())
        for index, line in enumerate(clean_block(why.fix).split("\n")):
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


def explanation_text(why: Explanation) -> str:
    """The whole explanation as plain text of 100 columns."""
    lines = [
        clean(why.title),
        "",
        *(text_of(line).rstrip() for line in explanation_lines(why, 100)),
    ]
    return "\n".join(lines)
