"""What is wrong with each rank of a job, from /proc, RAS and flight recorder dumps together."""

from collections.abc import Collection, Iterator, Sequence

import msgspec

from ..model.machine import Machine
from ..model.readings import Readings
from ..sources.files.tree import Tree
from ..sources.linux.process_facts import ZOMBIE_LETTERS
from ..sources.linux.process_files import state as process_state
from ..wiring.gpu_names import gpu_names
from .activity import FULL_CORE, Activity
from .collectives import spoken
from .flight.comparing import RecordedGroup, RecordedRank, own_frame
from .grouping import GpuUser, Job
from .ras.answer import ABORT, REMOTE, MissingRank, Process, RasAnswer, RasRank
from .ras.comparing import CommunicatorState
from .standing import (
    ASLEEP_SECONDS,
    JobEvidence,
    KnownBy,
    LastCollective,
    RankState,
    RankTrouble,
    TroubleKind,
)

MOST_MISSING = 4096
"""Ranks without a dump that are listed."""
GONE = RankTrouble("has ended: no such process", KnownBy.PROC, over=True)
ZOMBIE = RankTrouble("has ended and waits for its parent (Z)", KnownBy.PROC, over=True)
STOPPED = RankTrouble("is stopped (T)", KnownBy.PROC, step="kill -CONT {:pid}")
TRACED = RankTrouble(
    "is stopped by a debugger or another tracer (t)",
    KnownBy.PROC,
    step="grep TracerPid /proc/{:pid}/status",
)
HELD = {"stopped": STOPPED, "traced": TRACED}
"""State of a process that does nothing until a signal or a tracer lets it go on."""


def ended(
    jobs: Sequence[Job],
    ras: Sequence[CommunicatorState],
    answers: Sequence[RasAnswer],
    tree: Tree,
) -> dict[int, RankTrouble]:
    """PIDs of processes that were here and have ended, and how that shows."""
    lost = [missing for state in ras for missing in state.communicator.missing]
    lost += [missing for answer in answers for missing in answer.silent]
    named = [pid for missing in lost if (pid := missing.local_pid) is not None]
    # Processes that the operating system does not describe are of a namespace that we do not see.
    seen = [
        user.pid for job in jobs for user in job.processes if user.reading.started_at is not None
    ]
    gone: dict[int, RankTrouble] = {}
    for pid in dict.fromkeys([*named, *seen]):
        if not tree.exists(f"proc/{pid}/stat"):
            gone[pid] = GONE
        elif process_state(tree, pid) in ZOMBIE_LETTERS:
            gone[pid] = ZOMBIE
    return gone


def has_ended(job: Job, gone: Collection[int]) -> bool:
    """Whether all processes of a job here have ended."""
    return all(user.pid in gone for user in job.processes)


def ranks_of(
    job: Job, machine: Machine, readings: Readings, evidence: JobEvidence
) -> tuple[RankState, ...]:
    """The processes of the job by rank, then the ranks that only RAS knows."""
    own = [_rank(user, machine, readings, evidence) for user in job.processes]
    return (*own, *_other_ranks(own, machine, evidence))


def ranks_of_ras(machine: Machine, evidence: JobEvidence) -> tuple[RankState, ...]:
    """The ranks of communicators whose processes nobody else names."""
    return tuple(_other_ranks([], machine, evidence))


def ranks_of_dumps(groups: Sequence[RecordedGroup]) -> tuple[RankState, ...]:
    """The ranks that dumps alone tell of; the first of those without a dump included."""
    known = {place.rank for group in groups for place in group.places}
    evidence = JobEvidence(activities={}, groups=tuple(groups))
    told = [
        RankState(
            rank=rank,
            pid=None,
            label=f"rank {rank}",
            trouble=_by_dumps(rank, groups),
            last=_last_collective(-1, rank, evidence),
        )
        for rank in known
    ]
    told += [
        RankState(rank=rank, pid=None, label=f"rank {rank}")
        for rank in ranks_without_dump(groups)[:MOST_MISSING]
    ]
    return tuple(sorted(told, key=lambda state: state.rank or 0))


def ranks_without_dump(groups: Sequence[RecordedGroup]) -> list[int]:
    """The ranks of which no dump tells."""
    known = {place.rank for group in groups for place in group.places}
    return sorted({rank for group in groups for rank in group.without_dump} - known)


def _label(rank: int | None, pid: int | None, gpus: str) -> str:
    """Name a rank: "rank 2 (pid 4711, GPU2)"."""
    process = None if pid is None else f"pid {pid}"
    inside = ", ".join(filter(None, (process, gpus)))
    if rank is None:
        return f"{process or 'a process'}{f' ({gpus})' if gpus and process else ''}"
    return f"rank {rank}{f' ({inside})' if inside else ''}"


def _rank(user: GpuUser, machine: Machine, readings: Readings, evidence: JobEvidence) -> RankState:
    rank, activity = user.reading.rank, evidence.activities.get(user.pid)
    shares = [
        gpu.utilization_percent
        for address in user.gpus
        if (gpu := readings.gpu(address)) is not None and gpu.utilization_percent is not None
    ]
    trouble = (
        _by_proc(user, activity, evidence)
        or _by_ras(user.pid, rank, evidence)
        or _by_dumps(rank, evidence.groups)
    )
    return RankState(
        rank=rank,
        pid=user.pid,
        gpus=user.gpus,
        label=_label(rank, user.pid, gpu_names(user.gpus, machine)),
        trouble=_with_core(trouble, user.pid, evidence),
        last=_last_collective(user.pid, rank, evidence),
        activity=activity,
        busy_percent=sum(shares) / len(shares) if shares else None,
        busiest_percent=max(shares) if shares and len(shares) == len(user.gpus) else None,
    )


def _by_proc(user: GpuUser, activity: Activity | None, evidence: JobEvidence) -> RankTrouble | None:
    if user.pid in evidence.ended:
        return _by_its_end(user, evidence)
    once = None if evidence.twice else user.reading.state
    state = activity.stayed if activity is not None else once
    if state in HELD:
        return HELD[state]
    if "zombie" in (state, user.reading.state):
        return ZOMBIE
    trouble = sleep_trouble(user, activity)
    if trouble is None or (trouble.kind is TroubleKind.SHORT and evidence.moves):
        return None
    held_up = any(state.still and user.pid in state.late for state in evidence.ras)
    # A thread that writes a file for long is common, and holds up nobody by itself.
    return trouble if held_up or (activity is not None and activity.asleep) else None


def _by_its_end(user: GpuUser, evidence: JobEvidence) -> RankTrouble | None:
    """A process that has ended; None where nobody need have waited for it, and the job goes on.

    Workers without a rank, as of a server or of a search for parameters, end by themselves.
    """
    trouble = evidence.ended[user.pid]
    missed = any(lost.local_pid == user.pid for lost in evidence.silent)
    missed |= any(user.pid in state.pids for state in evidence.ras)
    if trouble is not GONE or user.reading.rank is not None or missed:
        return trouble
    return None if evidence.moves else msgspec.structs.replace(GONE, kind=TroubleKind.LEFT)


def sleep_trouble(user: GpuUser, activity: Activity | None) -> RankTrouble | None:
    """The uninterruptible sleep that both readings found a process or a thread of it in."""
    if activity is None or not (activity.asleep or activity.asleep_thread):
        return None
    # Every read of a file passes through such a sleep: only one that lasts says something.
    thread = activity.asleep_thread
    known = user.reading.asleep_seconds if user.reading.asleep_thread == thread else None
    longest = max(activity.seconds, known or 0.0)
    where = "" if activity.channel is None else f" in {activity.channel}"
    stays = "stays" if thread is None else f"has a thread, {thread}, that stays"
    return RankTrouble(
        f"{stays} in one uninterruptible sleep (D){where}, for {longest:.2g} s at least",
        KnownBy.PROC,
        TroubleKind.CAUSE if longest >= ASLEEP_SECONDS else TroubleKind.SHORT,
    )


def _by_ras(pid: int, rank: int | None, evidence: JobEvidence) -> RankTrouble | None:
    """What RAS says of a process here; `rank`: its rank in the job."""
    found = [
        trouble
        for state in evidence.ras
        for named in state.communicator.named
        if _is_rank(named, pid, rank, state, evidence)
        and (trouble := _named_trouble(named, state, evidence)) is not None
    ]
    found += [
        trouble
        for lost in evidence.silent
        if lost.local_pid == pid and (trouble := _lost_trouble(lost, evidence))
    ]
    # In one communicator it may be behind after it left another one.
    return min(found, key=lambda trouble: trouble.kind is TroubleKind.LEFT, default=None)


def _is_rank(
    named: MissingRank | RasRank,
    pid: int,
    rank: int | None,
    state: CommunicatorState,
    evidence: JobEvidence,
) -> bool:
    """Whether RAS names a process here: by its PID, else by its rank in the job."""
    by_number = _has_job_number(named, state, evidence) and named.rank == rank
    return named.local_pid == pid or by_number


def _has_job_number(
    named: MissingRank | RasRank, state: CommunicatorState, evidence: JobEvidence
) -> bool:
    """Whether its number in the communicator is that in the job, and no PID of ours is known.

    NCCL 2.24 names some ranks by number alone; PIDs of other namespaces are not ours.
    """
    return named.local_pid is None and state.communicator.size == evidence.world


def _named_trouble(
    named: MissingRank | RasRank, state: CommunicatorState | None, evidence: JobEvidence
) -> RankTrouble | None:
    """What RAS says of a rank of one communicator; None where nothing is wrong with it."""
    if isinstance(named, MissingRank):
        return _lost_trouble(named, evidence)
    if named.errors:
        follows = named.errors[0].startswith(REMOTE)
        kind = TroubleKind.FOLLOWS if follows else TroubleKind.CAUSE
        return RankTrouble(f"reports {named.errors[0]}", KnownBy.RAS, kind)
    if named.state == ABORT:
        return _left("has aborted its communicator", evidence)
    return None if state is None else _lag(named, state, evidence)


def _lag(rank: RasRank, state: CommunicatorState, evidence: JobEvidence) -> RankTrouble | None:
    """A rank that is behind in a communicator while others wait there.

    While counts grow, ranks may be a few apart; one that launches elsewhere may still come, and
    others that do need not wait for it.
    """
    late = state.still and rank in state.slow and rank.process_key not in evidence.moving
    if not late or state.function is None or state.waiting(evidence.moving) <= 0:
        return None
    count = dict(rank.counts)[state.function]
    what = spoken(state.function)
    last = f"its last {what} was {count}" if count else f"it launched no {what}"
    return RankTrouble(f"has not launched it ({last})", KnownBy.RAS, TroubleKind.BEHIND)


def _lost_trouble(lost: MissingRank, evidence: JobEvidence) -> RankTrouble | None:
    """Why there is no data of a rank; None where it only left, and the job goes on."""
    if lost.local_pid is not None and lost.local_pid in evidence.ended:
        return evidence.ended[lost.local_pid]
    if lost.dead:
        return RankTrouble("is given up by RAS, which cannot reach its process", KnownBy.RAS)
    if not lost.unresponsive:
        return _left("has left the communicator", evidence)
    if lost.local_pid in evidence.activities:
        return RankTrouble("does not answer RAS, though its process is there", KnownBy.RAS)
    if lost.pid is None and lost.host is None:
        return RankTrouble("does not answer RAS", KnownBy.RAS)
    why = "its process is stopped, ended, cut off or starved of CPU time"
    return RankTrouble(f"does not answer RAS: {why}", KnownBy.RAS)


def _left(text: str, evidence: JobEvidence) -> RankTrouble | None:
    return None if evidence.moves else RankTrouble(text, KnownBy.RAS, TroubleKind.LEFT)


def _by_dumps(rank: int | None, groups: Sequence[RecordedGroup]) -> RankTrouble | None:
    for group in groups:
        for place in group.behind:
            if place.rank == rank and group.waiting:
                text = f"had not entered it{_last_entered(place)}"
                return RankTrouble(text, KnownBy.RECORDER, TroubleKind.BEHIND)
    return None


def _last_entered(place: RecordedRank) -> str:
    if place.last is None:
        return ""
    frame = own_frame(place.last.frames)
    where = f" at {frame.file.rpartition('/')[2]}:{frame.line}" if frame is not None else ""
    return f" (its last was {spoken(place.last.name)} {place.last.number}{where})"


def _with_core(trouble: RankTrouble | None, pid: int, evidence: JobEvidence) -> RankTrouble | None:
    """The same trouble; of a rank that is behind with the core that it alone uses meanwhile.

    Ranks that wait for their GPU keep a core busy too.
    """
    cores = {one: activity.user_cores or 0.0 for one, activity in evidence.activities.items()}
    own = cores.pop(pid, 0.0)
    alike = max(cores.values(), default=0.0) >= FULL_CORE
    if trouble is None or trouble.kind is not TroubleKind.BEHIND or own < FULL_CORE or alike:
        return trouble
    text = f"{trouble.text} and uses {own * 100:.0f} % of a core in user mode"
    return msgspec.structs.replace(trouble, text=text)


def _last_collective(pid: int, rank: int | None, evidence: JobEvidence) -> LastCollective | None:
    """The last collective of a rank, from RAS, which is of this moment, else from its dump."""
    for state in evidence.ras:
        for known in state.communicator.ranks if state.function is not None else ():
            if _is_rank(known, pid, rank, state, evidence):
                return _launched(known, state)
    for group in evidence.groups:
        for place in group.places:
            if place.rank == rank and place.last is not None:
                name = f"{spoken(place.last.name)} {place.last.number}"
                return LastCollective(name, KnownBy.RECORDER)
    return None


def _launched(rank: RasRank, state: CommunicatorState) -> LastCollective | None:
    """What a rank launched last; None where the answer does not count it."""
    function = state.function or ""
    count = dict(rank.counts).get(function)
    return None if count is None else LastCollective(f"{spoken(function)} {count}", KnownBy.RAS)


def _last_by_process(evidence: JobEvidence) -> dict[Process, LastCollective]:
    """Each process's last collective, in the first communicator that counts it."""
    found: dict[Process, LastCollective] = {}
    for state in evidence.ras:
        for known in state.communicator.ranks if state.function is not None else ():
            last = _launched(known, state)
            if last is not None and known.process_key is not None:
                found.setdefault(known.process_key, last)
    return found


def _other_ranks(
    own: Sequence[RankState], machine: Machine, evidence: JobEvidence
) -> Iterator[RankState]:
    """Ranks that have no process on the GPUs here: ended ones, and those of other hosts."""
    # Only in the communicator of all ranks are its numbers those of the job.
    largest = evidence.ras[0] if evidence.ras else None
    lasts = _last_by_process(evidence)
    for named in _unseen(own, largest, evidence):
        trouble = _named_trouble(named, largest, evidence)
        if trouble is None and own:
            continue  # a healthy rank of another host
        rank = named.rank if named.rank >= 0 else None
        gpu = next((gpu for gpu in machine.gpus if gpu.index == named.nvml_device), None)
        yield RankState(
            rank=rank,
            pid=named.local_pid,
            elsewhere=(named.host, named.pid or 0) if named.outside and named.pid else None,
            apart=named.apart,
            gpus=() if gpu is None or named.outside else (gpu.address,),
            label=_label(rank, named.pid, _gpu_text(named, evidence)),
            trouble=trouble,
            last=_last_in(largest, named) or lasts.get(named.process_key or (None, -1)),
        )


def _last_in(
    state: CommunicatorState | None, named: MissingRank | RasRank
) -> LastCollective | None:
    """What a rank launched last in a communicator; None where it is not counted."""
    if state is None or not isinstance(named, RasRank):
        return None
    return _launched(named, state)


def _gpu_text(named: MissingRank | RasRank, evidence: JobEvidence) -> str:
    """The GPU of a rank, and its host where that is another one."""
    name = f"GPU{named.nvml_device}" if named.nvml_device is not None else ""
    if (evidence.saved or named.outside) and named.host is not None:
        return f"{name} of {named.host}" if name else named.host
    return name


def _unseen(
    own: Sequence[RankState], largest: CommunicatorState | None, evidence: JobEvidence
) -> Iterator[MissingRank | RasRank]:
    """All that RAS names besides the ranks here, once each."""
    ours = {rank.process_key for rank in own}
    seen: set[object] = set(ours)
    places = set[tuple[str | None, int | None]]()
    here = {rank.rank for rank in own}
    listed: list[MissingRank | RasRank] = []
    if largest is not None:
        listed += [*largest.communicator.missing, *largest.communicator.ranks]
    for named in (*listed, *evidence.silent):
        # One process may have several ranks, and ranks in containers on one machine may have one
        # PID: each number of the communicator is a rank.
        process = named.process_key
        key = process if named.rank < 0 else (process, named.rank)
        if process is not None and (key in seen or process in ours):
            continue
        if named.rank < 0 and named.nvml_device is None and (named.host, named.pid) in places:
            continue
        known = largest is not None and _has_job_number(named, largest, evidence)
        if known and named.rank in here:
            continue
        seen |= {named.process_key, key}
        places.add((named.host, named.pid))
        yield named
