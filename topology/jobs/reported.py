"""What answers of RAS and dumps of the flight recorder say, as facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ..model.units import seconds
from .flight.comparing import RecordedGroup, own_frame, ranks_text
from .ras.answer import RUNNING
from .ras.comparing import RasStanding
from .standing import BAD, RAS, RECORDER, JobFact
from .words import counted, last_of, spoken

MOST_TOLD = 12
TOLD_SECONDS = 2.0
"""From here on it is said for how long nothing was launched."""
MARKS = {
    "INCOMPLETE": "data of some ranks is missing",
    "ERROR": "ranks report errors",
    "MISMATCH": "ranks differ in state or counts",
}
"""What stands in the column Errors of a text."""


def ras_facts(ras: Iterable[RasStanding]) -> Iterator[JobFact]:
    """How far the ranks of each communicator are, and whether anything moved; equal ones once."""
    counts = Counter(_told(ras))
    for text, count in list(counts.items())[:MOST_TOLD]:
        many = f"{count} communicators" if count > 1 else "communicator"
        yield JobFact(text=f"{many}{text}", origin=RAS)
    if len(counts) > MOST_TOLD:
        yield JobFact(text=f"communicators of {len(counts) - MOST_TOLD} more kinds", origin=RAS)


def _told(ras: Iterable[RasStanding]) -> Iterator[str]:
    for each in ras:
        size = counted(each.communicator.size, "rank")
        what, top = spoken(each.function or ""), each.top
        left = [lost.rank for lost in each.communicator.missing if lost.left]
        silent = len(left) < len(each.communicator.missing)
        same = "all that answered" if silent else "all others" if left else "all"
        if not each.counts:
            text = f" of {size}{_state(each)}"
        elif each.crossed:
            parts = [f"{spoken(name)} {count} by rank {rank}" for rank, name, count in each.crossed]
            text = f" of {size}: {' and '.join(parts)}, and the other one less of it"
        elif each.function is None:
            text = f" of {size}: {same} launched {last_of(each.launched) or 'nothing'}"
        elif each.still is False and each.before != top:
            text = f" of {size}: {what} {each.before} to {top} between two answers"
        elif each.behind:
            text = f" of {size}: {each.ahead_count} launched {what} {each.reach}"
            counts = [dict(rank.counts)[each.function] for rank in each.behind[:4]]
            slow = ", ".join(
                f"{count} by rank {rank.rank}"
                for count, rank in zip(counts, each.behind, strict=False)
            )
            text += f"; {slow}{', ...' * (len(each.behind) > 4)}"
            unnamed = each.behind_count - len(each.behind)
            text += f", less by {unnamed} that are not named" if unnamed else ""
        elif each.behind_count:
            text = (
                f" of {size}: {each.ahead_count} launched {what} {each.reach}, "
                f"{each.behind_count} that are not named launched less"
            )
        else:
            text = f" of {size}: {same} launched {what} {top}"
        still = "; none launched anything between two answers" if each.still else ""
        if each.still and (each.quiet_seconds or 0.0) >= TOLD_SECONDS:
            still = f"; none launched anything for {seconds(each.quiet_seconds)}"
        gone = f"; {ranks_text(left)} {'has' if len(left) == 1 else 'have'} left it" if left else ""
        yield f"{text}{still}{gone}"


def _state(each: RasStanding) -> str:
    """What a text says of a communicator in which no count differs."""
    if each.answer is not None and each.answer.form != "text":
        return ": this answer of RAS counts no collectives"
    told = each.communicator
    marks = [MARKS.get(mark, mark) for mark in told.marks]
    state = "" if told.state is None else f" ({told.state})"
    if told.state in (None, RUNNING) and "MISMATCH" not in told.marks:
        same = "those that answer" if "INCOMPLETE" in told.marks else "all"
        return f"{state}: {'; '.join([*marks, f'{same} launched equally many collectives'])}"
    return f"{state}: {'; '.join(marks) or 'nothing differs between its ranks'}"


def dump_facts(groups: Iterable[RecordedGroup]) -> Iterator[JobFact]:
    """What does not fit between dumps, who waits in them, and whose dump says nothing."""
    for group in groups:
        for text in group.differences:
            yield JobFact(text=f"{group.name}: {text}", origin=RECORDER, weight=BAD)
        if group.waiting and group.furthest is not None:
            frame = own_frame(group.waiting[0].last.frames) if group.waiting[0].last else None
            where = (
                "" if frame is None else f", called at {frame.file}:{frame.line} in {frame.name}"
            )
            who = ranks_text([place.rank for place in group.waiting])
            what = f"{spoken(group.furthest.name)} {group.furthest.number}"
            yield JobFact(text=f"{group.name}: {who} in {what}{where}", origin=RECORDER)
        if group.older:
            who = ranks_text(group.older)
            yield JobFact(
                text=f"{group.name}: the dump of {who} is older than that collective, so how far "
                "it came is not known",
                origin=RECORDER,
            )
        if group.without_dump:
            yield JobFact(
                text=f"{group.name}: no dump of {ranks_text(group.without_dump)}", origin=RECORDER
            )
