"""Facts with dots between them, as lines that break at the dots."""

from __future__ import annotations

from itertools import groupby

from gputop.widgets.spans import Line, Span, width_of, wrapped

DOT: Span = (" · ", "rule")
INDENT = 2


def fact_lines(line: Line, width: int) -> tuple[Line, ...]:
    """Break between facts, so that none ends on a dot; a fact that is too long breaks at blanks."""
    facts = [tuple(spans) for dots, spans in groupby(line, lambda span: span == DOT) if not dots]
    lines: list[Line] = []
    for fact in facts:
        if lines and width_of((*lines[-1], DOT, *fact)) <= width:
            lines[-1] = (*lines[-1], DOT, *fact)
            continue
        lead: Line = ((" " * INDENT, ""),) if lines else ()
        lines += wrapped((*lead, *fact), width, INDENT)
    return tuple(lines)
