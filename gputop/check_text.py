"""A diagnosis for people: one line a finding, the verdict last."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from gputop.clean import clean
from gputop.topology.rules.engine import Diagnosis
from gputop.topology.rules.finding import (
    BROKEN,
    BY_DESIGN,
    CANNOT_TELL,
    NOTICE,
    SLOW,
    Finding,
)

SIGNS = {BROKEN: "✗", SLOW: "▼", CANNOT_TELL: "?", NOTICE: "•", BY_DESIGN: "·"}
_WELL = "✓"
_SILENCED = "-"
_LOUD = (BROKEN, SLOW, CANNOT_TELL)
_INDENT = "    "
_WORD = max(len(word) for word in SIGNS)


def lines(
    diagnosis: Diagnosis, width: int, *, verbose: bool = False, measured: Sequence[str] = ()
) -> Iterator[str]:
    """Each at most `width` columns. `measured`: names of probes that gave figures."""
    for finding in diagnosis.findings:
        sign, word = SIGNS[finding.severity], finding.severity.replace("-", " ")
        if verbose:
            yield from _whole(sign, word, finding, width)
            yield from _told(finding, width)
        else:
            yield _line(sign, word, finding, "", width)
    for silenced in diagnosis.silenced:
        why = f" ({silenced.reason})" if silenced.reason else ""
        yield _line(_SILENCED, "silenced", silenced.finding, why, width)
    yield clean(_verdict(diagnosis, measured, width), width)


def _line(sign: str, word: str, finding: Finding, why: str, width: int) -> str:
    """The id stays whole whatever the title: it is what --ignore takes."""
    head, tail = f"{sign} {word:<{_WORD}} ", f" [{finding.id}]{why}"
    title = clean(finding.title)
    if len(head) + len(title) + len(tail) > width:
        tail = clean(tail, max(len(finding.id) + 3, width // 2))
        title = _cut(title, width - len(head) - len(tail))
    return clean(f"{head}{title}{tail}", width)


def _whole(sign: str, word: str, finding: Finding, width: int) -> list[str]:
    """The same, over several lines where the title needs them."""
    head = f"{sign} {word:<{_WORD}} "
    text = clean(f"{finding.title} [{finding.id}]", 2000)
    return textwrap.wrap(
        text, width, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False
    )


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)].rstrip() + "…"


def _told(finding: Finding, width: int) -> Iterator[str]:
    """Evidence, consequence, disproof and what to do; commands whole, to be copied."""
    for evidence in finding.evidence:
        yield from _wrapped(f"{evidence.what}: {evidence.value} ({evidence.source})", width)
    for head, text in (("So", finding.consequence), ("Not if", finding.disproof)):
        if text:
            yield from _wrapped(f"{head}: {text}", width)
    for fix in finding.fix:
        root = " (needs root)" if fix.needs_root else ""
        yield from _wrapped(f"Do: {fix.text}{root}", width)
        if fix.command:
            yield f"{_INDENT}    {clean(fix.command)}"


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(
        clean(text, 2000), width, initial_indent=_INDENT, subsequent_indent=_INDENT + "  "
    )


def _verdict(diagnosis: Diagnosis, measured: Sequence[str], width: int) -> str:
    loud = list(dict.fromkeys(one.id for one in diagnosis.findings if one.severity in _LOUD))
    sign = _WELL
    for severity in _LOUD:
        if diagnosis.verdict.replace(" ", "-") == severity:
            sign = SIGNS[severity]
    count = len(diagnosis.examined) + len(diagnosis.unexamined)
    what = f"{len(diagnosis.examined)} of {count} rules examined"
    what += f", measured {', '.join(measured)}" if measured else ", nothing measured"
    head = f"{sign} {diagnosis.verdict}"
    for shown in range(len(loud), 0, -1):
        more = f", {len(loud) - shown} more" if shown < len(loud) else ""
        line = f"{head}: {', '.join(loud[:shown])}{more}; {what}"
        if len(line) <= width:
            return line
    if loud:
        return f"{head}: {', '.join(loud)}"
    line = f"{head}; {what}"
    return line if len(line) <= width else f"{head}; {what.split(',')[0]}"
