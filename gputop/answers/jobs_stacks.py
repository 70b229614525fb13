"""`gputop jobs --stacks`: where each rank is in its program, the odd one first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gputop.terminal.clean import clean
from gputop.topology.jobs.asking import JobsReport
from gputop.topology.jobs.stacks import StackGroup, grouped, in_words, stacks
from gputop.topology.model.page import Block, Text

HEAD = "Stacks, by py-spy, which was asked for (--stacks):"


def stacks_of(report: JobsReport) -> tuple[tuple[StackGroup, ...], ...]:
    """Of each job the ranks here, grouped by their innermost call."""
    return tuple(
        grouped(stacks((rank.rank, rank.pid) for rank in job.ranks if rank.pid is not None))
        for job in report.jobs
    )


def stack_blocks(groups: Sequence[StackGroup]) -> Iterator[Block]:
    """One line a group."""
    if groups:
        yield Text(HEAD, indent=2)
    for group in groups:
        yield Text(clean(in_words(group), 600), indent=4)
