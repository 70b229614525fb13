"""Times of every collective by size, alone or beside other communicators, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from ..expectation.calls.kinds import CollectiveKind
from ..expectation.calls.times import EAGER_US, CallTime, TimesOfCalls, at_sizes
from ..model.english import plural
from ..model.gathered import gathered
from ..model.page import Block, Column, Table, Text
from ..model.units import figure
from ..nccl.wording import message_size
from ..node import Node

SIZES = tuple(1 << power for power in (16, 20, 24, 26, 28, 30))
"""64 KiB to 1 GiB."""
SHOWN = (1 << 20, 1 << 24, 1 << 28, 1 << 30)
"""Of them, those that stand in the table; the document has all."""
COUNTED = (
    "The size is that of nccl-tests: the whole array; of an all-to-all what one rank sends, of a "
    "gather and a scatter what the root holds, of a send the message."
)
EAGER = (
    f"In eager PyTorch no call takes less than about {EAGER_US:.0f} us, which is the time of the "
    "host; CUDA graphs take it away."
)


def times_of(
    node: Node, gpus: Sequence[str], beside: Sequence[Sequence[str]]
) -> tuple[CallTime, ...]:
    """Every collective of these GPUs at every size; () where nothing is known of their links."""
    times = TimesOfCalls(node)
    if not beside:
        return tuple(one for rows in at_sizes(times, gpus, SIZES).values() for one in rows)
    found = (
        times.of(gpus, collective, size, beside) for collective in CollectiveKind for size in SIZES
    )
    return tuple(one for one in found if one is not None)


def blocks_of_times(rows: Sequence[CallTime]) -> Iterator[Block]:
    """The table, and what its figures count."""
    if not rows:
        yield Text("Collectives: what joins these GPUs is not known, so there are no times.")
        return
    first = rows[0]
    yield Text(f"Times of collectives over {plural(first.ranks, 'GPU')} of one host{_beside(rows)}")
    columns = (
        Column("collective"),
        *(Column(f"{message_size(size)}, us", right=True) for size in SHOWN),
        Column("busbw GB/s", right=True),
        Column("algbw GB/s", right=True),
        Column("range, us", right=True, least=12),
    )
    found = [_row(list(group)) for _, group in groupby(rows, key=lambda row: row.collective)]
    yield Table(columns, tuple(found))
    for source, named in _sources(rows).items():
        yield Text(f"{source}: {', '.join(named)}", indent=2)
    yield Text(f"Bandwidths and range are those of {message_size(SHOWN[-1])}. {COUNTED}")
    yield Text(
        f"Each call has a fixed part of {first.fixed_us:.0f} us, which is in these times. {EAGER}"
    )


def _beside(rows: Sequence[CallTime]) -> str:
    """What other communicators take, in words."""
    if rows[0].communicators == 1:
        return ""
    shared = {row.shared: row.slower for row in rows if row.shared}
    beside = (
        f", beside {plural(rows[0].communicators - 1, 'other communicator')} with the same call"
    )
    if not shared:
        return f"{beside}, which share no link with them whose rate is known"
    where, times = max(shared.items(), key=lambda item: item[1])
    return f"{beside}; on {where} there are {times:.2g} times as many bytes"


def _sources(rows: Sequence[CallTime]) -> dict[str, list[str]]:
    """Where the times are from -> the collectives that are."""
    return gathered(
        (f"{row.basis}, {row.source}", row.collective) for row in rows if row.bytes == SHOWN[-1]
    )


def _row(rows: Sequence[CallTime]) -> tuple[str, ...]:
    by_size = {row.bytes: row for row in rows}
    last = by_size[SHOWN[-1]]
    return (
        last.collective,
        *(figure(by_size[size].us) for size in SHOWN),
        figure(last.busbw_gbs),
        figure(last.algbw_gbs),
        f"{figure(last.low_us)}-{figure(last.high_us)}",
    )
