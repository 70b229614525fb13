"""Writes a diagnosis as text: the verdict first, then one line for each finding."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from gputop.printing.render import finding_blocks, texts
from gputop.printing.verdicts import checks_done
from gputop.terminal.clean import clean
from gputop.topology.diagnosis.engine import Diagnosis
from gputop.topology.model.finding import Finding
from gputop.topology.model.page import SIMULATED
from gputop.topology.model.severity import Severity

_SILENCED = "–"
_FILE_WIDTH = 80
"""Width of what --verbose adds where the output is not a terminal."""
_WORD = max(len(severity.word) for severity in Severity)


def lines(
    diagnosis: Diagnosis,
    width: int | None,
    *,
    verbose: bool = False,
    measured: Sequence[str] = (),
    simulated: bool = False,
) -> Iterator[str]:
    """The lines of a diagnosis, wrapped at `width` columns; None: one line for each finding.

    `measured`: names of the probes that returned figures. `simulated`: the node holds figures of a
    demo that nobody measured.
    """
    verdict = clean(_verdict(diagnosis, measured, simulated), 4000)
    yield from (
        [verdict]
        if width is None
        else textwrap.wrap(verdict, width, subsequent_indent="  ", break_on_hyphens=False)
    )
    for finding in diagnosis.findings:
        sign, _, word = finding.severity.shown
        yield from _whole(sign, word, finding, "", width)
        if verbose:
            yield from texts(finding_blocks(finding), width or _FILE_WIDTH, 4)
    for silenced in diagnosis.silenced:
        why = f" ({silenced.reason})" if silenced.reason else ""
        yield from _whole(_SILENCED, "silenced", silenced.finding, why, width)


def _whole(sign: str, word: str, finding: Finding, why: str, width: int | None) -> list[str]:
    """Title and id of a finding; --ignore takes the id."""
    head = f"{sign} {word:<{_WORD}} "
    text = clean(f"{finding.title} [{finding.id}]{why}", 2000)
    if width is None:
        return [head + text]
    return textwrap.wrap(
        text, width, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False
    )


def _verdict(diagnosis: Diagnosis, measured: Sequence[str], simulated: bool) -> str:
    loud = list(
        dict.fromkeys(finding.id for finding in diagnosis.findings if finding.severity.counts)
    )
    sign, _ = diagnosis.verdict.shown[:2]
    what = checks_done(diagnosis, " (data unavailable)")
    what += f", measured {', '.join(measured)}" if measured else ", nothing measured"
    what += f", figures {SIMULATED}" if simulated else ""
    return f"{sign} {diagnosis.verdict}{': ' if loud else ''}{', '.join(loud)}; {what}"
