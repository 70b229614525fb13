"""The lines above a log: what it is, what is read, what failed; without one, how to get it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputop.pages.log.lines import gap_lines, output_lines, version_spans
from gputop.terminal.clean import clean
from gputop.widgets.spans import Line, wrapped

if TYPE_CHECKING:
    from gputop.topology.diagnosis.symptoms.log import ReadLog

PASTED = "pasted text"
HOW_TO = (
    "No log is open: press o and name a file, compressed or not; or paste the text itself, with",
    "outputs of the GPU tools, lspci -vvv, ibstat, nccl-tests or env around it.",
    "",
    "A job writes one when it is started with",
    "  NCCL_DEBUG=INFO",
    "  NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH,P2P,SHM,NET,TUNING",
    "  NCCL_DEBUG_FILE=nccl.%h.%p.log",
    "Without NCCL_DEBUG_FILE the lines are in the job's own output, which will do as well.",
    "",
    "Or press n: {libraries} runs on all GPUs of this machine, and its log is compared.",
)


def head_lines(read: ReadLog | None, progress: str, failure: str, width: int) -> tuple[Line, ...]:
    """Name and version of the log, other outputs in it, gaps, progress and failure."""
    lines: list[Line] = []
    if read is not None:
        log = read.log
        name = (f" {clean(log.name, 60)}  ", "key bold")
        lines += wrapped((name, *version_spans(log)), width, 1)
        told = (*output_lines(log, width - 2), *gap_lines(log, width - 2))
        lines += [((" ", ""), *line) for line in told]
    if progress:
        lines += wrapped(((f" {progress}", "warn"),), width, 1)
    if failure:
        lines += wrapped(((f" ! {clean(failure, 300)}", "bad"),), width, 3)
    return tuple(lines)
