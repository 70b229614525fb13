"""Puts out the answer of a check: printed, as a file of JSON, as reports; what it leads with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from gputop.printing.finding_blocks import first_blocks
from gputop.terminal.clean import clean
from gputop.terminal.lines import print_json, warn
from gputop.topology.model.severity import BROKEN, SLOW, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from gputop.answers.check import CheckAnswer, CheckRequest
    from gputop.checking.deadline import Relay
    from gputop.topology.model.finding import Finding
    from gputop.topology.model.page import Block


MOST_LEADING = 3
"""Findings whose first step is shown unasked: they fit on a terminal of 25 lines."""


def leading(found: CheckAnswer) -> tuple[Finding, ...]:
    """The findings whose first step everybody should read: the first that count.

    Of a text that proves no fault the others too, for they are all that it says. Findings whose
    steps are those of an earlier one are not told twice.
    """
    faulty = any(finding.severity in (BROKEN, SLOW) for finding in found.findings)
    all_ = found.verdict is Verdict.CANNOT_TELL and not (faulty or found.snapshot.is_live)
    by_step: dict[tuple[Block, ...], Finding] = {}
    for finding in found.findings:
        if all_ or finding.severity.counts:
            by_step.setdefault(tuple(first_blocks(finding)), finding)
    by_step.pop((), None)
    return tuple(by_step.values())[:MOST_LEADING]


def put_out(
    asked: CheckRequest,
    found: CheckAnswer,
    line: Relay | None,
    show: Callable[[CheckAnswer], None],
) -> None:
    """Write the reports; print the answer by `show`, or write its file and print one line."""
    if asked.html is not None or asked.markdown is not None:
        _report(asked, found)
    if asked.output is None and not asked.redact:
        show(found)
        if found.exit_code and not asked.verbose and not asked.as_json:
            warn("--verbose shows the evidence, the impact and all steps")
        return
    for sentence_ in found.remarks:
        warn(sentence_)
    document = found.document()
    host = found.fleet.host if found.fleet is not None else ""
    if asked.redact:
        from gputop.checking.redacting import redacted_document

        document, host = redacted_document(document, found.snapshot, host)
    if asked.output is None:
        if asked.as_json:
            print_json(document)
        else:
            click.echo(clean(found.verdict_line, 4000))
        return
    from gputop.checking.file import packed, write

    path, host = _file_of(asked, found, host)
    text = packed(document, path)
    if line is not None:
        line.hand_over(f"{path}\n{text}")
    else:
        write(path, text)
    if not asked.as_json:
        click.echo(clean(f"{host}: {found.verdict_line}", 4000))


def _report(asked: CheckRequest, found: CheckAnswer) -> None:
    from gputop.answers.check_report import write_reports

    redactor = None
    if asked.redact:
        from gputop.checking.redacting import redactor_of

        redactor = redactor_of(found.snapshot)
    write_reports(found, asked, redactor)


def _file_of(asked: CheckRequest, found: CheckAnswer, host: str) -> tuple[Path, str]:
    """The path of -o and the name of the node in it."""
    from gputop.checking.file import origin, target

    here = origin()
    of = msgspec.structs.replace(here, host=host or here.host)
    boot_id = found.fleet.boot_id if found.fleet is not None and not asked.recorded else None
    return target(str(asked.output), of, boot_id), of.host
