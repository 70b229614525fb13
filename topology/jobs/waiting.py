"""Which ranks of a job wait, in what, and what says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..model.english import plural
from .collectives import last_of, spoken
from .evidence import BUSY_PERCENT, IDLE_PERCENT
from .flight.comparing import RecordedGroup
from .ras.comparing import CommunicatorState, moving
from .standing import KnownBy, RankState, TroubleKind

if TYPE_CHECKING:
    from .judge import JobFacts

DEFAULT = "default group"


class Waiting(NamedTuple):
    """How many ranks wait, in what, and what says so."""

    number: int
    what: str
    source: KnownBy

    @property
    def text(self) -> str:
        """The text "5 wait in all-reduce 1042"."""
        return f"{self.number:,} {'waits' if self.number == 1 else 'wait'} in {self.what}"


def waiting_by_ras(job: JobFacts) -> Waiting | None:
    """By RAS ranks wait where none launched anything between two answers, and one is missing.

    It is behind in their communicator, or does not answer. A rank that launches in another
    communicator does not wait. A communicator of all ranks needs no name. Where ranks are gone,
    the last collective of the others may have ended before: then none of their GPUs is busy all
    the time, as one is that waits in a kernel.
    """
    goes_on = moving(job.ras)
    # Who only is behind is so in one communicator, and stands in others as all do.
    causes = {r.pid for r in job.guilty if not r.weak or r.kind is TroubleKind.FOLLOWS} - {None}
    # Who reports that another rank failed waits too, where that one is known.
    known = [rank for rank in job.guilty if rank.kind is not TroubleKind.FOLLOWS]
    busy_elsewhere = {rank.process_key for rank in known or job.guilty} | goes_on
    for state in sorted(job.ras, key=lambda state: not _lacks(state)):
        if not state.still or not _blocked(state, causes, job.ranks):
            continue
        number = state.waiting(busy_elsewhere)
        kinds = state.launched
        if state.function is not None:
            kinds = ((state.function, state.blocked or 0),)
        if number > 0 and kinds:
            return Waiting(number, f"{last_of(kinds)}{_whose(state, job)}", KnownBy.RAS)
    return None


def _blocked(state: CommunicatorState, causes: set[int | None], ranks: Sequence[RankState]) -> bool:
    """Whether a collective of this communicator ends nowhere, as far as is known."""
    if state.behind_count:
        return True
    return bool(_lacks(state) or state.pids & causes) and not need_not_wait(state, ranks)


def _whose(state: CommunicatorState, job: JobFacts) -> str:
    size = state.communicator.size
    named = any(group.name == DEFAULT and group.size == size for group in job.groups)
    if named or size == job.world:
        return f" of the {DEFAULT}" if named else ""
    return f" of the communicator of {plural(size, 'rank')}"


def waiting_by_dumps(groups: Sequence[RecordedGroup]) -> Waiting | None:
    """By a dump ranks wait where a collective that they entered has not ended."""
    for group in groups:
        if group.waiting and group.furthest is not None:
            what = f"{spoken(group.furthest.name)} {group.furthest.number}"
            whose = f"{'the ' * (group.name == DEFAULT)}{group.name}"
            return Waiting(len(group.waiting), f"{what} of {whose}", KnownBy.RECORDER)
    return None


def _lacks(state: CommunicatorState) -> bool:
    """Whether ranks of a communicator are behind in it, or do not answer."""
    return state.behind_count > 0 or any(not lost.left for lost in state.communicator.missing)


def need_not_wait(state: CommunicatorState, ranks: Sequence[RankState]) -> str:
    """Why ranks here that launched the last collective need not wait in it; "" where they may.

    A GPU that waits in a kernel of NCCL is busy all the time: on two H100 always 100 %, and 58 %
    where the other rank had ended and this one computed on.
    """
    ahead = {rank.process_key for rank in state.ahead}
    shares = [
        rank.busiest_percent
        for rank in ranks
        if rank.process_key in ahead
        and rank.pid is not None
        and rank.kind in (None, TroubleKind.FOLLOWS)
    ]
    known = [share for share in shares if share is not None]
    if not known or len(known) < len(shares) or max(known) >= BUSY_PERCENT:
        return ""
    most = max(known)
    does = "idle" if most <= IDLE_PERCENT else f"are busy at most {most:.0f} % of the time"
    return f"the GPUs of the others {does}, so they need not wait in a collective"


def quiet_seconds(ras: Sequence[CommunicatorState]) -> float | None:
    """For how long nothing was launched in any communicator of a job; None where not known."""
    known = [state.quiet_seconds for state in ras if state.still]
    told = [quiet for quiet in known if quiet is not None]
    return min(told) if told and all(state.still for state in ras if state.counts) else None
