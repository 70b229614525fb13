"""What was asked about one job, and what RAS says of each of its ranks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec

from .activity import Activity
from .flight.comparing import RecordedGroup
from .ras.answer import ABORT, REMOTE, MissingRank, Process, RasRank
from .ras.comparing import RasStanding, moving
from .silence import TrafficPast
from .standing import PROC, RAS
from .traffic import CarriedTraffic
from .words import spoken

CAUSE, SHORT, BEHIND, FOLLOWS, LEFT = "cause", "short", "behind", "follows", "left"
"""What a trouble tells: why others wait; that it may be over soon; only that the rank is behind;
that another one failed; that it gave up a communicator, as programs do when they need it no more,
or ended without a rank."""
Told = tuple[str, str, str]
"""What is wrong, where that is from, and what it tells."""


class Heard(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Everything that was asked about one job."""

    activities: Mapping[int, Activity]
    ended: Mapping[int, str] = {}
    """PIDs whose processes were here and have ended, and how that shows."""
    ras: tuple[RasStanding, ...] = ()
    """Its communicators, the largest first."""
    silent: tuple[MissingRank, ...] = ()
    """Processes of the job that do not answer RAS, without their ranks, as a text names them."""
    world: int | None = None
    """Ranks of the job on all nodes."""
    saved: bool = False
    """Whether the answers are saved ones, of machines that are not known."""
    assumed: str | None = None
    """What is taken for granted about the answer of RAS."""
    groups: tuple[RecordedGroup, ...] = ()
    """Its process groups in dumps."""
    twice: bool = False
    """Whether /proc was read twice."""
    traffic: CarriedTraffic | None = None
    """What NVLink carried meanwhile."""
    past: TrafficPast | None = None
    """What links and PCIe carried lately; None where nobody has looked."""
    shared: tuple[str, ...] = ()
    """Its GPUs that other jobs use too, whose traffic may be theirs."""

    @property
    def moves(self) -> bool:
        """Whether a collective was launched between two answers of RAS."""
        return any(each.still is False for each in self.ras)

    @cached_property
    def moving(self) -> frozenset[Process]:
        """The processes of communicators in which one was."""
        return moving(self.ras)


def by_ras(pid: int, rank_here: int | None, heard: Heard) -> Told | None:
    """What RAS says of a process here; `rank_here`: its rank in the job."""
    found = [
        told
        for each in heard.ras
        for named in each.communicator.named
        if is_rank(named, pid, rank_here, each, heard)
        and (told := ras_told(named, each, heard)) is not None
    ]
    found += [
        told for lost in heard.silent if lost.here == pid and (told := lost_told(lost, heard))
    ]
    # In one communicator it may be behind after it left another one.
    return min(found, key=lambda told: told[2] == LEFT, default=None)


def ras_told(named: MissingRank | RasRank, each: RasStanding, heard: Heard) -> Told | None:
    """What RAS says of a rank of one communicator; None where nothing is wrong with it."""
    if isinstance(named, MissingRank):
        return lost_told(named, heard)
    return rank_told(named, each, heard)


def is_rank(
    named: MissingRank | RasRank, pid: int, rank: int | None, each: RasStanding, heard: Heard
) -> bool:
    """Whether RAS names a process here: by its PID, else by its rank in the job."""
    return named.here == pid or (numbered(named, each, heard) and named.rank == rank)


def numbered(named: MissingRank | RasRank, each: RasStanding, heard: Heard) -> bool:
    """Whether its number in the communicator is that in the job, and no PID of ours is known.

    NCCL 2.24 names some ranks by number alone; PIDs of other namespaces are not ours.
    """
    return named.here is None and each.communicator.size == heard.world


def rank_told(rank: RasRank, each: RasStanding, heard: Heard) -> Told | None:
    """What RAS says of a rank that answered; None where nothing is wrong with it."""
    if rank.errors:
        follows = rank.errors[0].startswith(REMOTE)
        return f"reports {rank.errors[0]}", RAS, FOLLOWS if follows else CAUSE
    if rank.state == ABORT:
        return None if heard.moves else ("has aborted its communicator", RAS, LEFT)
    # While counts grow, ranks may be a few apart; one that launches elsewhere may still come, and
    # others that do need not wait for it.
    late = each.still and rank in each.slow and rank.who not in heard.moving
    if late and each.function is not None and each.waiting(heard.moving) > 0:
        count = dict(rank.counts)[each.function]
        what = spoken(each.function)
        last = f"its last {what} was {count}" if count else f"it launched no {what}"
        return f"has not launched it ({last})", RAS, BEHIND
    return None


def lost_told(lost: MissingRank, heard: Heard) -> Told | None:
    """Why there is no data of a rank; None where it only left, and the job goes on."""
    if lost.here is not None and lost.here in heard.ended:
        return heard.ended[lost.here], PROC, CAUSE
    if lost.dead:
        return "is given up by RAS, which cannot reach its process", RAS, CAUSE
    if lost.unresponsive and lost.here in heard.activities:
        return "does not answer RAS, though its process is there", RAS, CAUSE
    if lost.unresponsive and lost.pid is None and lost.host is None:
        return "does not answer RAS", RAS, CAUSE
    if lost.unresponsive:
        return (
            "does not answer RAS: its process is stopped, ended, cut off or starved of CPU time",
            RAS,
            CAUSE,
        )
    return None if heard.moves else ("has left the communicator", RAS, LEFT)
