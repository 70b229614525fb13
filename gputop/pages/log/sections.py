"""A whole log in sections of a title and lines, for the screen and for plain text."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from gputop.pages.log.answer import answer_lines
from gputop.pages.log.lines import (
    MOST_ROWS,
    choice_lines,
    compared,
    environment_lines,
    gap_lines,
    graph_lines,
    item_lines,
    mark,
    measured_lines,
    output_lines,
    rank_lines,
    version_spans,
)
from gputop.pages.log.own_diagnostics import (
    only_diagnostics,
    own_diagnostics_lines,
    verdict_lines,
)
from gputop.terminal.clean import clean
from gputop.widgets.spans import EMPTY, Line, Span, left, right, text_of, wrapped

if TYPE_CHECKING:
    from gputop.topology.diagnosis.symptoms.log import ReadLog
    from gputop.topology.logs.comparing.agreement import PairAgreement
    from gputop.topology.logs.report.communicator import Communicator
    from gputop.topology.model.finding import Finding

MOST_NOTES = 20
NO_FINDINGS = "nothing in the table of symptoms applies to this log"
NOTHING_SHOWN = "no rule finds a fault in what these outputs show; what they leave out is not known"
NO_DIAGNOSED = "no rule finds a fault in these diagnostics; the log has no other lines of NCCL"
MOST_RANKS = 16
INKS = {"P2P": "link-nvlink", "SHM": "link-socket", "NET": "link-pcie", "COLLNET": "link-pcie"}
CELL = 6


class LogSection(NamedTuple):
    """A title and the lines below it."""

    title: str
    lines: tuple[Line, ...]


def plain_text(read: ReadLog, width: int) -> str:
    """Print the whole log as plain text: the answer, what it is, all findings, then the rest."""
    out = [f"  {text_of(line).rstrip()}" for line in answer_lines(read, width)]
    head = LogSection("Log", _head_lines(read, width))
    for section in (head, LogSection("Findings", _findings(read, width)), *sections(read, width)):
        out += [*([""] if out else []), section.title]
        out += [f"  {text_of(line).rstrip()}".rstrip() for line in section.lines]
    return "\n".join(out)


def sections(read: ReadLog, width: int) -> list[LogSection]:
    """What the log shows: communicator, variables, transports, rings, algorithms, prediction."""
    found: list[LogSection] = []
    comm = read.log.main
    if comm is not None:
        others = len(read.log.communicators) - 1
        more = f", the largest of {others + 1}" if others else ""
        found = [
            LogSection(
                f"Communicator {clean(comm.ident, 40)}{more}",
                rank_lines(comm, width, read.log.versions.library),
            ),
            LogSection("Environment", environment_lines(read.log, width)),
            LogSection(
                "Transports, rows send, columns receive", _transport_lines(read, comm, width)
            ),
            LogSection("Rings and trees", graph_lines(read, comm, width)),
            LogSection("Algorithms", choice_lines(read, comm, width)),
        ]
    elif read.log.environment or not read.log.diagnostics:
        found.append(LogSection("Environment", environment_lines(read.log, width)))
    if read.log.diagnostics:
        lines = own_diagnostics_lines(read.log.diagnostics, width)
        found.insert(0, LogSection("The library's own diagnostics", lines))
    if read.measured:
        found.append(LogSection("Measured, as pasted", measured_lines(read.measured, width)))
    found.append(LogSection("Prediction", _prediction(read, width)))
    return found


def _head_lines(read: ReadLog, width: int) -> tuple[Line, ...]:
    """Version, size and the result of the comparison; before them, of diagnostics alone, theirs."""
    lines = list(verdict_lines(read.log.diagnostics, width) if only_diagnostics(read.log) else ())
    lines += wrapped(version_spans(read.log), width, 2)
    agreement = read.overlay.agreement
    sign: Span = ("· ", "muted")
    if agreement.comparable and agreement.agree + len(agreement.differing):
        sign = (mark(not agreement.differing)[0] + " ", mark(not agreement.differing)[1])
    lines += wrapped((sign, (clean(compared(read), 400), "")), width, 2)
    return (*lines, *output_lines(read.log, width), *gap_lines(read.log, width))


def _findings(read: ReadLog, width: int) -> tuple[Line, ...]:
    lines: list[Line] = []
    for number, finding in enumerate(read.findings):
        lines += [*([EMPTY] if number else []), *_finding_lines(finding, width)]
    for note in read.unexplained[:MOST_NOTES]:
        where = f"{note.where}: " if note.where else ""
        times = f" ({note.count} times)" if note.count > 1 else ""
        text = clean(f"{where}{note.text}{times}", 400)
        lines += _plain(f"? line {note.line}: {text}", width, 3)
    if len(read.unexplained) > MOST_NOTES:
        lines += [((f"and {len(read.unexplained) - MOST_NOTES} more", ""),)]
    lines = lines or [((nothing_found(read), ""),)]
    if read.next:
        lines += [EMPTY, *_plain(f"Next: {read.next}", width, 6)]
    return tuple(lines)


def nothing_found(read: ReadLog) -> str:
    """What a log without findings proves, and what it does not."""
    if only_diagnostics(read.log):
        return NO_DIAGNOSED
    outputs_alone = read.log.pasted is not None and not read.log.library_lines
    return NOTHING_SHOWN if outputs_alone else NO_FINDINGS


def _finding_lines(finding: Finding, width: int) -> list[Line]:
    """A finding: title, the lines that prove it, the cause, where to look, the fix."""
    sign = finding.severity.sign
    lines = [*_plain(f"{sign}  {clean(finding.title, 200)}", width, 3)]
    for proof in finding.evidence:
        lines += _plain(f"   {proof.what}: {clean(proof.value, 300)}", width, 6)
    lines += _plain(f"   {clean(finding.cause, 600)}", width, 3)
    fixes = tuple(f"{fix.text} {fix.command or ''}".rstrip() for fix in finding.fix)
    for title, texts in (("Look: ", finding.look), ("Fix: ", fixes)):
        for index, text in enumerate(texts):
            lead = title if index == 0 else " " * len(title)
            lines += _plain(f"   {lead}{clean(text, 300)}", width, 3 + len(title))
    return [*lines, *_plain(f"   Source: {'; '.join(finding.sources)}", width, 6)]


def _plain(text: str, width: int, hanging: int) -> tuple[Line, ...]:
    return wrapped(((text, ""),), width, hanging)


def _transport_lines(read: ReadLog, comm: Communicator, width: int) -> tuple[Line, ...]:
    """Rows send, columns receive; below, each label with the number of pairs."""
    pairs = {(pair.src, pair.dst): pair for pair in read.overlay.agreement.pairs}
    ranks = sorted({end for shown in comm.transports for end in (shown.src, shown.dst)})
    if not ranks:
        return ((("none in the log: they are set up at the first collective", "muted"),),)
    lines: list[Line] = []
    if len(ranks) <= MOST_RANKS and 6 + CELL * len(ranks) <= width:
        lines += _matrix(comm, ranks, pairs)
    counts: Counter[tuple[str, ...]] = Counter()
    seen = sorted({(transport.src, transport.dst) for transport in comm.transports})
    for pair in seen:
        counts[comm.labels(*pair)] += 1
    for labels, count in counts.most_common(MOST_ROWS):
        kind = labels[0].split("/")[0]
        spans: list[Span] = [
            (right(str(count), 4), "strong"),
            (f" {'pair' if count == 1 else 'pairs'}  ", "muted"),
            (clean(" and ".join(labels), 160), INKS.get(kind, "")),
        ]
        lines += wrapped(spans, width, 12)
    silent = sum(pair.agrees is None for pair in pairs.values())
    if silent:
        which = "1 pair is" if silent == 1 else f"{silent} pairs are"
        text = f"{which} not in the log: nothing was sent, or other ranks' lines are elsewhere"
        lines += wrapped(((f"   · {text}", "muted"),), width, 5)
    for different in [pair for pair in pairs.values() if pair.agrees is False][:MOST_ROWS]:
        lines += _difference_lines(different, width)
    return tuple(lines)


def _matrix(
    comm: Communicator, ranks: list[int], pairs: dict[tuple[int, int], PairAgreement]
) -> list[Line]:
    lines: list[Line] = [
        (("      ", ""), *((left(f"{rank:>3}", CELL), "muted") for rank in ranks)),
    ]
    for src in ranks:
        row: list[Span] = [(right(str(src), 4) + "  ", "muted")]
        for dst in ranks:
            labels = comm.labels(src, dst)
            if src == dst:
                row.append((left("  X", CELL), "muted"))
            elif not labels:
                row.append((left("  ·", CELL), "muted"))
            else:
                kind = labels[0].split("/")[0][:3]
                known = pairs.get((src, dst))
                sign, ink = mark(known.agrees) if known is not None else (" ", "")
                row += [(kind, INKS.get(kind, "")), (left(sign, CELL - 3), ink)]
        lines.append(tuple(row))
    return lines


def _difference_lines(pair: PairAgreement, width: int) -> tuple[Line, ...]:
    """One pair that is not as predicted."""
    spans: list[Span] = [
        mark(pair.agrees),
        (f" {pair.src} to {pair.dst}: ", "muted"),
        (clean(" and ".join(pair.logged), 120), "strong"),
        (f"  predicted {clean(' and '.join(pair.predicted), 120)}", "bad"),
    ]
    if pair.line:
        spans.append((f"  line {pair.line}", "muted"))
    return wrapped(spans, width, 4)


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
