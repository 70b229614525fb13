"""The lines above a log: what went wrong and what to do, then what it is; or how to get one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputop.pages.log.lines import (
    compared,
    gap_lines,
    mark,
    output_lines,
    version_spans,
)
from gputop.pages.log.own_diagnostics import only_diagnostics, verdict_lines
from gputop.pages.log.sections import nothing_found
from gputop.terminal.clean import clean
from gputop.widgets.spans import Line, left, wrapped

if TYPE_CHECKING:
    from gputop.topology.diagnosis.symptoms.log import ReadLog

PASTED = "pasted text"
NO_LOG: tuple[Line, ...] = (
    (
        (" – No log is open: ", "strong"),
        ("o", "key bold @screen.open"),
        (" names a file, ", ""),
        ("n", "key bold @app.probe_nccl(False)"),
        (" runs one here, or paste a text", ""),
    ),
)
HOW_TO = (
    "Files may be compressed. The output of driver tools, lspci, ibstat, {tests} and env is "
    "read as well.",
    "",
    "Start the job with these variables to get one:",
    "  NCCL_DEBUG=INFO",
    "  NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH,P2P,SHM,NET,TUNING",
    "  NCCL_DEBUG_FILE=nccl.%h.%p.log",
    "Without NCCL_DEBUG_FILE the lines are in the job's output, which works too.",
    "",
    "n runs {libraries} on all GPUs here and compares its log with the prediction.",
)


def head_lines(read: ReadLog | None, progress: str, failure: str, width: int) -> tuple[Line, ...]:
    """What the log says, then its name and version, gaps, progress and failure."""
    lines: list[Line] = [] if read is not None or progress else list(NO_LOG)
    if read is not None:
        log = read.log
        lines += _answer(read, width)
        name = (f" {clean(log.name, 60)}  ", "key bold")
        lines += wrapped((name, *version_spans(log)), width, 1)
        told = (*output_lines(log, width - 2), *gap_lines(log, width - 2))
        lines += [((" ", ""), *line) for line in told]
    if progress:
        lines += wrapped(((f" {progress}", "warn"),), width, 1)
    if failure:
        lines += wrapped(((f" ! {clean(failure, 300)}", "bad"),), width, 3)
    return tuple(lines)


def _answer(read: ReadLog, width: int) -> list[Line]:
    """The worst finding and its cure in two lines; without one, how the prediction fares."""
    if not read.findings and only_diagnostics(read.log):
        return [
            *(((" ", ""), *line) for line in verdict_lines(read.log.diagnostics, width - 1)),
            ((left(f"   {nothing_found(read)}", width), "muted"),),
        ]
    if not read.findings:
        agreement = read.overlay.agreement
        sign, ink = mark(None if not agreement.comparable else not agreement.differing)
        nothing = nothing_found(read)
        return [
            ((f" {sign} ", ink), (left(clean(compared(read), 300), width - 3), "strong")),
            ((left(f"   {nothing}", width), "muted"),),
        ]
    worst = read.findings[0]
    sign, ink, _ = worst.severity.shown
    more = f" · {len(read.findings) - 1} more" if len(read.findings) > 1 else ""
    room = width - len(more) - 3
    lines: list[Line] = [
        (
            (f" {sign} ", ink),
            (left(clean(worst.title, 300), room).rstrip(), f"{ink} bold"),
            (more, "muted"),
        )
    ]
    cure = " ".join(f"{fix.text} {fix.command or ''}".rstrip() for fix in worst.fix[:1])
    if cure:
        lines.append((("   Do  ", "key bold"), (left(clean(cure, 400), width - 7), "")))
    else:
        lines.append(((left(f"   {clean(worst.cause, 400)}", width), ""),))
    return lines
