"""What is wrong with each rank of a job, from /proc, RAS and flight recorder dumps together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..model.machine import Machine
from ..model.readings import Readings
from ..wiring.gpu_names import gpu_names
from .activity import Activity
from .evidence import FULL_CORE
from .flight.comparing import RecordedGroup, RecordedRank, own_frame
from .grouping import GpuUser, Job
from .heard import (
    BEHIND,
    CAUSE,
    FOLLOWS,
    LEFT,
    SHORT,
    Heard,
    Told,
    by_ras,
    is_rank,
    lost_told,
    numbered,
    ras_told,
)
from .ras.answer import MissingRank, Process, RasRank
from .standing import ASLEEP_SECONDS, GONE, PROC, RAS, RECORDER, ZOMBIE, RankStanding
from .words import spoken

STOPPED = "is stopped (T)"
TRACED = "is stopped by a debugger or another tracer (t)"


def ranks_of(
    job: Job, machine: Machine, readings: Readings, heard: Heard
) -> tuple[RankStanding, ...]:
    """The processes of the job by rank, then the ranks that only RAS knows."""
    own = [_rank(user, machine, readings, heard) for user in job.processes]
    return (*own, *_others(own, machine, heard))


def ranks_of_ras(machine: Machine, heard: Heard) -> tuple[RankStanding, ...]:
    """The ranks of communicators whose processes nobody else names."""
    return tuple(_others([], machine, heard))


def ranks_of_dumps(groups: Sequence[RecordedGroup]) -> tuple[RankStanding, ...]:
    """The ranks that dumps alone tell of, those without a dump included."""
    known = {place.rank for group in groups for place in group.places}
    without = {rank for group in groups for rank in group.without_dump} - known
    found = []
    for rank in sorted(known | without):
        told = _by_dumps(rank, groups)
        place, origin = _place(-1, rank, Heard(activities={}, groups=tuple(groups)))
        found.append(
            RankStanding(
                rank=rank,
                pid=None,
                label=f"rank {rank}",
                trouble=None if told is None else told[0],
                origin=None if told is None else told[1],
                weak=told is not None,
                place=place,
                place_origin=origin,
            )
        )
    return tuple(found)


def label(rank: int | None, pid: int | None, gpus: str) -> str:
    """Name a rank: "rank 2 (pid 4711, GPU2)"."""
    process = None if pid is None else f"pid {pid}"
    inside = ", ".join(filter(None, (process, gpus)))
    if rank is None:
        return f"{process or 'a process'}{f' ({gpus})' if gpus and process else ''}"
    return f"rank {rank}{f' ({inside})' if inside else ''}"


def _rank(user: GpuUser, machine: Machine, readings: Readings, heard: Heard) -> RankStanding:
    rank, found = user.reading.rank, heard.activities.get(user.pid)
    shares = [
        gpu.utilization_percent
        for address in user.gpus
        if (gpu := readings.gpu(address)) is not None and gpu.utilization_percent is not None
    ]
    told = (
        _state(user, found, heard) or by_ras(user.pid, rank, heard) or _by_dumps(rank, heard.groups)
    )
    place, origin = _place(user.pid, rank, heard)
    return RankStanding(
        rank=rank,
        pid=user.pid,
        gpus=user.gpus,
        label=label(rank, user.pid, gpu_names(user.gpus, machine)),
        trouble=_with_core(told, found),
        origin=None if told is None else told[1],
        weak=told is not None and told[2] not in (CAUSE, SHORT),
        short=told is not None and told[2] == SHORT,
        follows=told is not None and told[2] == FOLLOWS,
        left=told is not None and told[2] == LEFT,
        place=place,
        place_origin=origin,
        activity=found,
        busy_percent=sum(shares) / len(shares) if shares else None,
        busiest_percent=max(shares) if shares and len(shares) == len(user.gpus) else None,
    )


def _state(user: GpuUser, found: Activity | None, heard: Heard) -> Told | None:
    if user.pid in heard.ended:
        return _ended(user, heard)
    state = found.stayed if found is not None else None if heard.twice else user.reading.state
    if state == "stopped":
        return STOPPED, PROC, CAUSE
    if state == "traced":
        return TRACED, PROC, CAUSE
    if "zombie" in (state, user.reading.state):
        return ZOMBIE, PROC, CAUSE
    told = sleep_told(user, found)
    if told is None or (told[2] == SHORT and heard.moves):
        return None
    held_up = any(each.still and user.pid in each.late for each in heard.ras)
    # A thread that writes a file for long is common, and holds up nobody by itself.
    return told if held_up or (found is not None and found.asleep) else None


def _ended(user: GpuUser, heard: Heard) -> Told | None:
    """A process that has ended; None where nobody need have waited for it, and the job goes on.

    Workers without a rank, as of a server or of a search for parameters, end by themselves.
    """
    how = heard.ended[user.pid]
    missed = any(lost.here == user.pid for lost in heard.silent)
    missed |= any(user.pid in each.pids for each in heard.ras)
    if how != GONE or user.reading.rank is not None or missed:
        return how, PROC, CAUSE
    return None if heard.moves else (how, PROC, LEFT)


def sleep_told(user: GpuUser, found: Activity | None) -> Told | None:
    """The uninterruptible sleep that both readings found a process or a thread of it in."""
    if found is None or not (found.asleep or found.asleep_thread):
        return None
    # Every read of a file passes through such a sleep: only one that lasts says something.
    thread = found.asleep_thread
    known = user.reading.asleep_seconds if user.reading.asleep_thread == thread else None
    longest = max(found.seconds, known or 0.0)
    where = "" if found.channel is None else f" in {found.channel}"
    stays = "stays" if thread is None else f"has a thread, {thread}, that stays"
    text = f"{stays} in one uninterruptible sleep (D){where}, for {longest:.2g} s at least"
    return text, PROC, CAUSE if longest >= ASLEEP_SECONDS else SHORT


def _by_dumps(rank: int | None, groups: Sequence[RecordedGroup]) -> Told | None:
    for group in groups:
        for place in group.behind:
            if place.rank == rank and group.waiting:
                return f"had not entered it{_last(place)}", RECORDER, BEHIND
    return None


def _last(place: RecordedRank) -> str:
    if place.last is None:
        return ""
    frame = own_frame(place.last.frames)
    where = f" at {frame.file.rpartition('/')[2]}:{frame.line}" if frame is not None else ""
    return f" (its last was {spoken(place.last.name)} {place.last.number}{where})"


def _with_core(told: Told | None, found: Activity | None) -> str | None:
    if told is None:
        return None
    if told[2] == BEHIND and found is not None and _spins(found):
        return f"{told[0]} and uses {(found.user_cores or 0) * 100:.0f} % of a core in user mode"
    return told[0]


def _spins(found: Activity | None) -> bool:
    cores = None if found is None else found.user_cores
    return cores is not None and cores >= FULL_CORE


def _place(pid: int, rank: int | None, heard: Heard) -> tuple[str | None, str | None]:
    """The last collective of a rank, from RAS, which is of this moment, else from its dump."""
    for each in heard.ras:
        for known in each.communicator.ranks:
            if each.function is not None and is_rank(known, pid, rank, each, heard):
                return f"{spoken(each.function)} {dict(known.counts).get(each.function, 0)}", RAS
    for group in heard.groups:
        for place in group.places:
            if place.rank == rank and place.last is not None:
                return f"{spoken(place.last.name)} {place.last.number}", RECORDER
    return None, None


def _places(heard: Heard) -> dict[Process, tuple[str, int]]:
    """Each process's last collective and its count, in the first communicator that counts it."""
    found: dict[Process, tuple[str, int]] = {}
    for each in heard.ras:
        for known in each.communicator.ranks if each.function is not None else ():
            if known.who is not None and known.who not in found:
                count = dict(known.counts).get(each.function or "", 0)
                found[known.who] = each.function or "", count
    return found


def _others(own: Sequence[RankStanding], machine: Machine, heard: Heard) -> Iterable[RankStanding]:
    """Ranks that have no process on the GPUs here: ended ones, and those of other hosts."""
    seen: set[object] = {rank.who for rank in own}
    places = _places(heard)
    here = {rank.rank for rank in own}
    # Only in the communicator of all ranks are its numbers those of the job.
    each = heard.ras[0] if heard.ras else None
    listed: list[MissingRank | RasRank] = list(heard.silent)
    if each is not None:
        listed = [*each.communicator.missing, *each.communicator.ranks, *heard.silent]
    for lost in listed:
        # Ranks in containers of their own on one machine may have one PID.
        same = lost.who if lost.here is not None or lost.rank < 0 else (lost.who, lost.rank)
        if same in seen and lost.who is not None:
            continue
        if each is not None and numbered(lost, each, heard) and lost.rank in here:
            continue
        seen |= {lost.who, same}
        if each is not None:
            told = ras_told(lost, each, heard)
        else:
            told = lost_told(lost, heard) if isinstance(lost, MissingRank) else None
        if told is None and own:
            continue  # a healthy rank of another host
        gpu = next((gpu for gpu in machine.gpus if gpu.index == lost.nvml_device), None)
        name = f"GPU{lost.nvml_device}" if lost.nvml_device is not None else ""
        if (heard.saved or lost.outside) and lost.host is not None:
            name = f"{name} of {lost.host}" if name else lost.host
        rank = lost.rank if lost.rank >= 0 else None
        place = None if lost.who is None else places.get(lost.who)
        yield RankStanding(
            rank=rank,
            pid=lost.here,
            elsewhere=lost.who if lost.outside else None,
            gpus=() if gpu is None or lost.outside else (gpu.address,),
            label=label(rank, lost.pid, name),
            trouble=None if told is None else told[0],
            origin=None if told is None else told[1],
            weak=told is not None and told[2] != CAUSE,
            follows=told is not None and told[2] == FOLLOWS,
            left=told is not None and told[2] == LEFT,
            place=None if place is None else f"{spoken(place[0])} {place[1]}",
            place_origin=RAS if isinstance(lost, RasRank) else None,
        )
