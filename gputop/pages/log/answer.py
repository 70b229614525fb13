"""What a log says first: the worst that was found in it, and what to do about that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputop.pages.log.own_diagnostics import only_diagnostics
from gputop.terminal.clean import clean
from gputop.widgets.spans import Line, wrapped

if TYPE_CHECKING:
    from gputop.topology.diagnosis.symptoms.log import ReadLog

MOST_TITLE, MOST_STEP = 200, 150
"""Characters of the two sentences."""


def answer_lines(read: ReadLog, width: int) -> tuple[Line, ...]:
    """The worst finding and its first step; of failures in unknown words, what to fetch.

    () where neither is there: then the version and the comparison come first, or what the
    library's own diagnostics say.
    """
    if only_diagnostics(read.log):
        return ()
    if not read.findings:
        if not read.unexplained or not read.next:
            return ()
        count = len(read.unexplained)
        lines = "a line that speaks" if count == 1 else f"{count} lines that speak"
        told = f"?  no rule knows the cause; {lines} of a failure below"
        return (*_wrapped(told, width), *_wrapped(f"   Next: {read.next}", width))
    first, more = read.findings[0], len(read.findings) - 1
    sign = first.severity.sign
    below = "" if not more else f" · {more} more finding{'s' * (more > 1)} below"
    steps = [f"Fix: {fix.text} {fix.command or ''}".rstrip() for fix in first.fix[:1]]
    steps += [f"Look: {look}" for look in first.look[:1]]
    if len(steps) > 1 and sum(map(len, steps)) > MOST_STEP:
        steps.pop()
    return (
        *_wrapped(f"{sign}  {clean(first.title, MOST_TITLE)}", width),
        *_wrapped(f"   {clean(' · '.join(steps), MOST_STEP)}{below}", width),
    )


def _wrapped(text: str, width: int) -> tuple[Line, ...]:
    return wrapped(((text, ""),), width, 3)
