"""Jobs as lines: a sentence for each job, its ranks, and where each fact is from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gputop.printing.render import wrapped_text
from gputop.terminal.clean import clean
from gputop.topology.jobs.asking import JobsAnswer
from gputop.topology.jobs.standing import JobState, RankState
from gputop.topology.model.page import SIMULATED
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.units import UNKNOWN, percent, size, whole
from gputop.topology.wiring.gpu_names import gpu_names

HEADS = ("rank", "pid", "GPU", "busy", "state", "core", "memory", "last collective", "what is odd")
NUMBERS = ("rank", "pid", "busy", "core", "memory")
WIDEST = 160
MOST_RANKS = 128
"""Rows of a table; those that something is wrong with come before others."""
NEXT = "Next steps, which gputop never takes itself"


def lines(
    snapshot: NodeSnapshot | None, answer: JobsAnswer, width: int, *, simulated: bool = False
) -> Iterator[str]:
    """All jobs; the sentence of each comes first."""
    width = min(max(width, 40), WIDEST)
    if simulated:
        yield f"{SIMULATED}: a demo; no process of it runs here"
    if not answer.jobs:
        yield f"? {nothing(snapshot)}"
    for at, job in enumerate(answer.jobs):
        if at:
            yield ""
        yield from _job(job, snapshot, width)
    if answer.ras_asked and not answer.jobs:
        for reply in answer.ras:
            if reply.trouble is not None:
                yield from wrapped_text(f"  RAS: {clean(reply.trouble, 400)}", width, 4)


def nothing(snapshot: NodeSnapshot | None) -> str:
    """Why there is no job, as far as that is known."""
    readings = () if snapshot is None else snapshot.readings.gpus
    lists = [gpu.processes for gpu in readings]
    if not lists or None in lists:
        return "no job is seen: the driver does not say which processes use the GPUs"
    host = None if snapshot is None else snapshot.machine.host
    if host is not None and host.container is not None:
        return "no job is seen; from inside a container the host's are not listed"
    return "no process uses a GPU"


def _job(job: JobState, snapshot: NodeSnapshot | None, width: int) -> Iterator[str]:
    yield from wrapped_text(f"{job.verdict.sign} {clean(job.sentence, 2000)}", width, 2)
    yield from _table(job, snapshot, width)
    for finding in job.findings:
        sign = "✗" if finding.severity.counts else "•"
        text = f"  {sign} {clean(finding.title, 600)} [{finding.sources[0]}]"
        yield from wrapped_text(text, width, 4)
    for text in job.unknown:
        yield from wrapped_text(f"  ? {clean(text, 600)}", width, 4)
    if job.steps:
        yield f"  {NEXT}:"
        for step in job.steps:
            yield f"    {clean(step, 200)}"


def _table(job: JobState, snapshot: NodeSnapshot | None, width: int) -> list[str]:
    ranks = _most_telling(job.ranks)
    rows = [_cells(rank, snapshot) for rank in ranks]
    shown = [at for at in range(len(HEADS)) if any(row[at] not in ("", UNKNOWN) for row in rows)]
    # The last column says again what the sentence says: it goes first where there is no room.
    while shown:
        widths = {at: max(len(HEADS[at]), *(len(row[at]) for row in rows)) for at in shown}
        if sum(widths.values()) + 2 * len(shown) + 2 <= width:
            break
        shown.pop()
    left = len(job.ranks) - len(ranks)
    more = [f"  and {left} more rank{'s' * (left > 1)}; --json has all"] if left else []
    return [
        "  " + "  ".join(_cell(row[at], widths[at], HEADS[at]) for at in shown).rstrip()
        for row in (HEADS, *rows)
        if shown
    ] + more


def _most_telling(ranks: Sequence[RankState]) -> Sequence[RankState]:
    """The ranks that are shown, in their order."""
    if len(ranks) <= MOST_RANKS:
        return ranks
    order = sorted(range(len(ranks)), key=lambda at: (ranks[at].trouble is None, at))
    return [ranks[at] for at in sorted(order[:MOST_RANKS])]


def _cell(text: str, width: int, head: str) -> str:
    return text.rjust(width) if head in NUMBERS else text.ljust(width)


def _cells(rank: RankState, snapshot: NodeSnapshot | None) -> tuple[str, ...]:
    found = rank.activity
    cores = None if found is None or found.user_cores is None else found.user_cores
    system = None if found is None else found.system_cores
    machine = None if snapshot is None else snapshot.machine
    state = UNKNOWN if found is None else (found.stayed or found.states[1] or UNKNOWN)
    return (
        whole(rank.rank),
        whole(rank.pid),
        gpu_names(rank.gpus, machine) if machine is not None and rank.gpus else UNKNOWN,
        percent(rank.busy_percent),
        state,
        UNKNOWN if cores is None else percent(100 * (cores + (system or 0.0))),
        UNKNOWN if found is None else size(found.memory_bytes),
        clean(UNKNOWN if rank.last is None else rank.last.name, 40),
        clean("" if rank.trouble is None else rank.trouble.text, 60),
    )
