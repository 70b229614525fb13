"""A whole log in sections of a title and lines, for the screen and for plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gputop.pages.log.lines import (
    choice_lines,
    environment_lines,
    finding_lines,
    graph_lines,
    head_lines,
    item_lines,
    mark,
    rank_lines,
)
from gputop.pages.log.matrix import transport_lines
from gputop.terminal.clean import clean
from gputop.widgets.spans import EMPTY, Line, text_of, wrapped

if TYPE_CHECKING:
    from gputop.topology.diagnosis.symptoms.log import ReadLog

MOST_NOTES = 20


class LogSection(NamedTuple):
    """A title and the lines below it."""

    title: str
    lines: tuple[Line, ...]


def sections(read: ReadLog, width: int) -> list[LogSection]:
    """Everything, in the order in which it is asked for."""
    found = [LogSection("Log", head_lines(read, width))]
    findings: list[Line] = []
    for number, finding in enumerate(read.findings):
        findings += [*([EMPTY] if number else []), *finding_lines(finding, width)]
    for note in read.unexplained[:MOST_NOTES]:
        where = f"{note.where}: " if note.where else ""
        times = f" ({note.count} times)" if note.count > 1 else ""
        text = clean(f"{where}{note.text}{times}", 400)
        findings += wrapped(
            (("? ", "warn"), (f"line {note.line}: ", "muted"), (text, "")), width, 3
        )
    if len(read.unexplained) > MOST_NOTES:
        findings.append(((f"and {len(read.unexplained) - MOST_NOTES} more", "muted"),))
    nothing: Line = (("nothing in the table of symptoms applies to this log", "muted"),)
    found.append(LogSection("Findings", tuple(findings) or (nothing,)))
    comm = read.log.main
    if comm is not None:
        others = len(read.log.communicators) - 1
        more = f", the largest of {others + 1}" if others else ""
        found += [
            LogSection(
                f"Communicator {clean(comm.ident, 40)}{more}",
                rank_lines(comm, width, read.log.versions.library),
            ),
            LogSection("Environment", environment_lines(read.log, width)),
            LogSection(
                "Transports, rows send, columns receive", transport_lines(read, comm, width)
            ),
            LogSection("Rings and trees", graph_lines(read, comm, width)),
            LogSection("Algorithms", choice_lines(read, comm, width)),
        ]
    else:
        found.append(LogSection("Environment", environment_lines(read.log, width)))
    found.append(LogSection("Prediction", _prediction(read, width)))
    return found


def _prediction(read: ReadLog, width: int) -> tuple[Line, ...]:
    agreement = read.overlay.agreement
    lines = [*wrapped(((clean(agreement.sentence, 400), "strong"),), width)]
    for topic, what in (("path", "paths between GPUs"), ("net", "paths to NICs")):
        of = [item for item in agreement.items if item.topic == topic]
        if of:
            same = sum(item.agrees for item in of)
            lines.append((mark(same == len(of)), (f" {what}: {same} of {len(of)}", "")))
    listed = {"graph", "rings", "trees", "channels", "nodes", "choice", "tuning"}
    for item in agreement.items:
        if not item.agrees and item.topic not in listed:
            lines += item_lines(item, width)
    for reason in agreement.reasons:
        lines += wrapped((("  why: ", "key"), (clean(reason, 300), "")), width, 7)
    for text in agreement.skipped:
        lines += wrapped((("  · ", "muted"), (clean(text, 300), "muted")), width, 4)
    if agreement.outside:
        ranks = ", ".join(map(str, agreement.outside[:32]))
        more = " …" if len(agreement.outside) > 32 else ""
        text = f"ranks {ranks}{more} are on other hosts or GPUs: outside the prediction"
        lines += wrapped((("  · ", "muted"), (text, "muted")), width, 4)
    for text in read.overlay.assumptions:
        lines += wrapped((("  assumed: ", "warn"), (clean(text, 300), "")), width, 11)
    return tuple(lines)


def plain_text(read: ReadLog, width: int) -> str:
    """All sections as text."""
    out: list[str] = []
    for section in sections(read, width):
        out += [*([""] if out else []), section.title]
        out += [f"  {text_of(line).rstrip()}".rstrip() for line in section.lines]
    return "\n".join(out)
