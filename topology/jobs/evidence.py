"""What is known about a job, as findings: from /proc, the driver, RAS and dumps."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..model.cpulist import members
from ..model.english import listing, plural
from ..model.finding import Finding
from ..model.readings import ProcessState, Readings
from ..model.severity import BROKEN, NOTICE, SLOW
from ..model.snapshot import NodeSnapshot
from ..model.surroundings import Host
from ..model.units import seconds, size
from ..nccl.versions import preferred
from .activity import FULL_CORE, Activity
from .binding import crowded
from .collectives import last_of, spoken
from .demand import quotas, threads_over_cpus
from .flight.comparing import RecordedGroup, own_frame, ranks_text
from .grouping import GpuUser, Job
from .ras.answer import RUNNING, AnswerForm
from .ras.comparing import CommunicatorState
from .standing import JobEvidence, KnownBy, RankState, TroubleKind, job_finding
from .troubles import sleep_trouble

PROC, RAS, RECORDER, DRIVER = KnownBy.PROC, KnownBy.RAS, KnownBy.RECORDER, KnownBy.DRIVER
IDLE_PERCENT, BUSY_PERCENT = 0.0, 95.0
GROWS_BYTES = 32 * 2**20
"""Growth of one process between two readings that is worth a line."""
MOST_NAMED = 4
MOST_TOLD = 12
TOLD_SECONDS = 2.0
"""From here on it is said for how long nothing was launched."""
MARKS = {
    "INCOMPLETE": "data of some ranks is missing",
    "ERROR": "ranks report errors",
    "MISMATCH": "ranks differ in state or counts",
}
"""What stands in the column Errors of a text."""
LOCAL_WORLD, _THREADS = "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS"
MOST_RANKS = 4096


def given_findings(
    job: Job,
    readings: Readings,
    activities: Mapping[int, Activity],
    labels: Mapping[int, str],
    cpus: int | None,
    followed: str | None = None,
) -> Iterator[Finding]:
    """What two readings of /proc and one of the driver prove.

    `cpus`: how many the host has. `followed`: the version whose rules predict, "2.28.9".
    """
    yield from _cores(job, labels, cpus)
    yield from _quota(job, activities)
    yield from _threads(job)
    yield from _idle(job, readings, labels)
    yield from _spinning(job, activities, labels)
    yield from _growing(job, activities, labels)
    yield from _libraries(job, labels, followed)


def findings_here(
    job: Job, node: NodeSnapshot, activities: Mapping[int, Activity], ranks: Sequence[RankState]
) -> Iterator[Finding]:
    """The same of a node, whose library is the one that predicts."""
    labels = {rank.pid: rank.label for rank in ranks if rank.pid is not None}
    cpus, followed = host_cpus(node.machine.host), preferred(node.machine)[0].partition("-")[2]
    return given_findings(job, node.readings, activities, labels, cpus, followed)


def host_cpus(host: Host | None) -> int | None:
    """CPUs of all NUMA nodes of the host; None where they are not known."""
    if host is None:
        return None
    return sum(len(members(node.cpus) or ()) for node in host.numa) or None


def _cores(job: Job, labels: Mapping[int, str], cpus: int | None) -> Iterator[Finding]:
    shared = bound_together(job.processes, cpus)
    if shared:
        where = listing(sorted({user.reading.cpu_affinity or "" for user in shared}), 3)
        who = "all" if len(shared) == len(job.processes) else f"{len(shared)} of them"
        yield job_finding(
            "ranks-share-cpus",
            f"{_names(shared, labels)} are bound to CPU {where}: fewer CPUs than ranks, so they "
            "run in turns",
            PROC,
            SLOW,
            ranks=_ranks(shared),
            brief=f"{who} are bound to CPU {where}, fewer CPUs than ranks",
        )


def bound_together(users: Sequence[GpuUser], cpus: int | None) -> tuple[GpuUser, ...]:
    """Processes that are bound to fewer CPUs than they are.

    Not where each of them may use all CPUs of the host: that is no binding.
    """
    found = crowded(user.reading for user in users)
    sets = {members(user.reading.cpu_affinity) for user in users if user.pid in found}
    whole = cpus is not None and all(len(own or ()) >= cpus for own in sets)
    return () if whole else tuple(user for user in users if user.pid in found)


def _quota(job: Job, activities: Mapping[int, Activity]) -> Iterator[Finding]:
    """CPU time that cgroups grant: too little for the threads, or used up between two readings."""
    wanted = {demand.users[0].reading.cpu_group: demand for demand in quotas(job.processes)}
    for group in dict.fromkeys(user.reading.cpu_group for user in job.processes):
        users = [user for user in job.processes if user.reading.cpu_group == group]
        quota = users[0].reading.cpu_quota
        if group is None or quota is None:
            continue
        count = plural(len(users), "process", "processes")
        text = f"its cgroup grants {quota:.3g} CPUs' worth of time to {count} (cpu.max)"
        periods, stopped = _stopped_periods(group, activities)
        demand = wanted.get(group)
        if stopped > 0:
            text += f", used up in {stopped} of {periods} periods: then all its threads stop"
        elif demand is not None and quota >= len(users):
            text += f"; {_THREADS} of all together is {demand.threads}"
        elif demand is None:
            continue
        few = stopped > 0 or quota < len(users)
        yield job_finding(
            "threads-over-quota",
            text,
            PROC,
            SLOW if few else NOTICE,
            ranks=_ranks(users),
            brief=f"{count} share {quota:.3g} CPUs' worth of time" if few else "",
        )


def _stopped_periods(group: str, activities: Mapping[int, Activity]) -> tuple[int, int]:
    """Periods between two readings, and in how many the CPU time of a cgroup was used up."""
    counted = [dict(activity.stopped_periods).get(group) for activity in activities.values()]
    return max((periods for periods in counted if periods), default=(0, 0))


def _threads(job: Job) -> Iterator[Finding]:
    """OMP_NUM_THREADS of all ranks together against the CPUs that they may use together."""
    demand = threads_over_cpus(job.processes)
    if demand is not None:
        count = len(demand.users)
        whose = f"all {count} ranks together" if count > 1 else "the process"
        where = f"{plural(demand.cpus, 'CPU')} that {'they' if count > 1 else 'it'} may use"
        text = f"{_THREADS} of {whose} is {demand.threads}, on {where}"
        yield job_finding("threads-over-cpus", text, PROC)


def _idle(job: Job, readings: Readings, labels: Mapping[int, str]) -> Iterator[Finding]:
    # Workers of a server or of Ray that somebody started together need not wait for each other.
    numbered = all(user.reading.rank is not None for user in job.processes)
    idle = idle_among_busy(job.processes, readings) if numbered else ()
    if idle:
        yield job_finding(
            "rank-gpu-idle",
            f"{_names(idle, labels)}: 0 % of the GPU while all others of the job stand at "
            f"{BUSY_PERCENT:.0f} % or more, as ranks that wait do",
            DRIVER,
            ranks=_ranks(idle),
        )


def idle_among_busy(users: Sequence[GpuUser], readings: Readings) -> tuple[GpuUser, ...]:
    """Ranks with a GPU of their own at 0 % while those of all other ranks are fully busy.

    () unless these are fewer than the busy ones, and every GPU is known.
    """
    idle: list[GpuUser] = []
    busy = 0
    for user in users:
        found = [*map(readings.gpu, user.gpus)]
        shares = [gpu.utilization_percent for gpu in found if gpu is not None]
        known = [share for share in shares if share is not None]
        if not known or len(known) < len(user.gpus):
            return ()
        if max(known) <= IDLE_PERCENT:
            idle.append(user)
        elif min(known) >= BUSY_PERCENT:
            busy += 1
    apart = not {gpu for user in idle for gpu in user.gpus} & {
        gpu for user in users if user not in idle for gpu in user.gpus
    }
    return tuple(idle) if apart and len(idle) + busy == len(users) and len(idle) < busy else ()


def _spinning(
    job: Job, activities: Mapping[int, Activity], labels: Mapping[int, str]
) -> Iterator[Finding]:
    spinning = [
        user
        for user in job.processes
        if (activity := activities.get(user.pid)) is not None
        and (activity.user_cores or 0.0) >= FULL_CORE
    ]
    if spinning:
        every = len(spinning) == len(job.processes) > 1
        yield job_finding(
            "rank-spins",
            f"{'all ranks' if every else _names(spinning, labels)} used a whole core or more in "
            f"user mode over {activities[spinning[0].pid].seconds:.2g} s: computing, looping, or "
            "polling for the GPU",
            PROC,
            ranks=_ranks(spinning),
        )


def _growing(
    job: Job, activities: Mapping[int, Activity], labels: Mapping[int, str]
) -> Iterator[Finding]:
    for user in job.processes:
        activity = activities.get(user.pid)
        if activity is None or activity.seconds <= 0:
            continue
        grown = activity.grown_bytes or 0
        if grown >= GROWS_BYTES:
            yield job_finding(
                "rank-memory-grows",
                f"the host memory of {labels[user.pid]} grew by {size(grown)} in "
                f"{activity.seconds:.2g} s ({size(round(grown / activity.seconds))} a second), to "
                f"{size(activity.memory_bytes)}; whether it goes on, two looks do not show",
                PROC,
                ranks=_ranks([user]),
            )


def _libraries(job: Job, labels: Mapping[int, str], followed: str | None) -> Iterator[Finding]:
    """The NCCL that each rank has loaded, where ranks differ and beside the one that predicts."""
    by: dict[tuple[str, str], list[GpuUser]] = {}
    for user in job.processes:
        library = user.reading.library
        if library is not None:
            version = "one replaced since it was loaded" if library.replaced else library.version
            by.setdefault((version or "of unknown version", library.path), []).append(user)
    if len({version for version, _ in by}) > 1:
        text = "; ".join(
            f"{_names(users, labels)}: {version} ({path})" for (version, path), users in by.items()
        )
        text = f"ranks have loaded different NCCLs: {text}"
        yield job_finding("rank-libraries", text, PROC, BROKEN)
    elif by:
        (version, path), *others = by
        who = "it has" if len(job.processes) == 1 else "its ranks have"
        more = f" and {len(others)} more files" if others else ""
        known = version[0].isdigit() and followed is not None
        beside = ""
        if known and version != followed:
            beside = f"; what is predicted of it follows that, of the node {followed}"
        yield job_finding(
            "rank-libraries", f"{who} loaded NCCL {version} ({path}{more}){beside}", PROC
        )


def _names(users: Sequence[GpuUser], labels: Mapping[int, str]) -> str:
    return listing([labels[user.pid] for user in users], MOST_NAMED)


def _ranks(users: Iterable[GpuUser]) -> tuple[int | None, ...]:
    return tuple(user.reading.rank for user in users)


def rank_findings(ranks: Iterable[RankState]) -> Iterator[Finding]:
    """What is wrong with each rank."""
    for rank in ranks:
        if rank.trouble is not None:
            alone = rank.kind in (TroubleKind.FOLLOWS, TroubleKind.LEFT)
            yield job_finding(
                "rank-trouble",
                f"{rank.label} {rank.trouble.text}",
                rank.trouble.source,
                NOTICE if alone else BROKEN,
                ranks=(rank.rank,),
            )


def started_here(job: Job, activities: Mapping[int, Activity]) -> int | None:
    """Ranks that were started on this node, by LOCAL_WORLD_SIZE; None where they do not agree."""
    values = {
        dict((activity.variables if activity is not None else None) or ()).get(LOCAL_WORLD, "")
        for user in job.processes
        for activity in (activities.get(user.pid),)
    }
    text = values.pop() if len(values) == 1 else ""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 5 else 0
    return number if 0 < number <= MOST_RANKS else None


def missing_here(job: Job, evidence: JobEvidence) -> Iterator[Finding]:
    """Ranks that were started on this node and hold no GPU, where RAS does not name them."""
    local = started_here(job, evidence.activities)
    own = {user.reading.local_rank for user in job.processes}
    if evidence.ras or local is None or None in own or len(own) < len(job.processes):
        return
    gone = sorted(set(range(local)) - own)
    if gone:
        one = len(gone) == 1
        yield job_finding(
            "rank-missing",
            f"local rank{'s' * (not one)} {listing(list(map(str, gone)), 8)} of the {local} that "
            f"were started here hold{'s' * one} no GPU: ended, or not yet begun",
            PROC,
        )


def short_sleeps(
    job: Job, activities: Mapping[int, Activity], ranks: Sequence[RankState]
) -> Iterator[Finding]:
    """Processes and threads in uninterruptible sleeps that are nobody's trouble."""
    labels = {rank.pid: rank.label for rank in ranks}
    fine = {rank.pid for rank in ranks if rank.trouble is None}
    ran = [
        labels[user.pid]
        for user in job.processes
        if (activity := activities.get(user.pid)) is not None
        and activity.stayed == ProcessState.DISK_SLEEP
        and not activity.asleep
    ]
    if ran:
        yield job_finding(
            "rank-asleep",
            f"{listing(ran, MOST_NAMED)} {'was' if len(ran) == 1 else 'were'} in uninterruptible "
            "sleep (D) in both readings and ran in between, as with files that are read or written",
            PROC,
        )
    for user in job.processes:
        trouble = sleep_trouble(user, activities.get(user.pid)) if user.pid in fine else None
        if trouble is not None:
            text = f"{labels[user.pid]} {trouble.text}; nothing shows that others wait for it"
            yield job_finding("rank-asleep", text, PROC)


def ras_findings(ras: Iterable[CommunicatorState]) -> Iterator[Finding]:
    """How far the ranks of each communicator are, and whether anything moved; equal ones once."""
    counts = Counter(f"{_reached(state)}{_moved(state)}{_gone(state)}" for state in ras)
    for text, count in list(counts.items())[:MOST_TOLD]:
        many = f"{count} communicators" if count > 1 else "communicator"
        yield job_finding("communicator", f"{many}{text}", RAS)
    if len(counts) > MOST_TOLD:
        text = f"communicators of {len(counts) - MOST_TOLD} more kinds"
        yield job_finding("communicator", text, RAS)


def _reached(state: CommunicatorState) -> str:
    """How far the ranks of a communicator are."""
    of = f" of {plural(state.communicator.size, 'rank')}"
    what = spoken(state.function or "")
    if not state.counts:
        return f"{of}{_uncounted(state)}"
    if state.crossed:
        parts = [f"{spoken(name)} {count} by rank {rank}" for rank, name, count in state.crossed]
        return f"{of}: {' and '.join(parts)}, and the other one less of it"
    if state.function is None:
        return f"{of}: {_others(state)} launched {last_of(state.launched) or 'nothing'}"
    if state.still is False and state.before != state.top:
        return f"{of}: {what} {state.before} to {state.top} between two answers"
    if not state.behind_count:
        return f"{of}: {_others(state)} launched {what} {state.top}"
    text = f"{of}: {state.ahead_count:,} launched {what} {state.reach}"
    unnamed = state.behind_count - len(state.behind)
    if not state.behind:
        return f"{text}, {unnamed} that are not named launched less"
    slow = [f"{dict(r.counts)[state.function]} by rank {r.rank}" for r in state.behind[:4]]
    text += f"; {', '.join(slow)}{', ...' * (len(state.behind) > 4)}"
    return text + (f", less by {unnamed} that are not named" if unnamed else "")


def _others(state: CommunicatorState) -> str:
    """The ranks of a communicator of which anything is known, where all of them stand equal."""
    if any(not lost.left for lost in state.communicator.missing):
        return "all that answered"
    return "all others" if state.communicator.missing else state.who_counts


def _moved(state: CommunicatorState) -> str:
    if not state.still:
        return ""
    if (state.quiet_seconds or 0.0) >= TOLD_SECONDS:
        return f"; none launched anything for {seconds(state.quiet_seconds)}"
    return "; none launched anything between two answers"


def _gone(state: CommunicatorState) -> str:
    left = [lost.rank for lost in state.communicator.missing if lost.left]
    return f"; {ranks_text(left)} {'has' if len(left) == 1 else 'have'} left it" if left else ""


def _uncounted(state: CommunicatorState) -> str:
    """What a text says of a communicator in which no count differs."""
    if state.answer is not None and state.answer.form is AnswerForm.JSON:
        return ": this answer of RAS counts no collectives"
    told = state.communicator
    marks = [MARKS.get(mark, mark) for mark in told.marks]
    word = "" if told.state is None else f" ({told.state})"
    if told.state in (None, RUNNING) and "MISMATCH" not in told.marks:
        same = "those that answer" if "INCOMPLETE" in told.marks else "all"
        return f"{word}: {'; '.join([*marks, f'{same} launched equally many collectives'])}"
    return f"{word}: {'; '.join(marks) or 'nothing differs between its ranks'}"


def dump_findings(groups: Iterable[RecordedGroup]) -> Iterator[Finding]:
    """What does not fit between dumps, who waits in them, and whose dump says nothing."""
    for group in groups:
        for text in group.differences:
            yield job_finding("dumps-differ", f"{group.name}: {text}", RECORDER, BROKEN)
        for text in _dump_texts(group):
            yield job_finding("dumps", f"{group.name}: {text}", RECORDER)


def _dump_texts(group: RecordedGroup) -> Iterator[str]:
    if group.waiting and group.furthest is not None:
        last = group.waiting[0].last
        frame = own_frame(last.frames) if last else None
        where = "" if frame is None else f", called at {frame.file}:{frame.line} in {frame.name}"
        who = ranks_text([place.rank for place in group.waiting])
        yield f"{who} in {spoken(group.furthest.name)} {group.furthest.number}{where}"
    if group.older:
        who = ranks_text(group.older)
        yield (f"the dump of {who} is older than that collective, so how far it came is not known")
    if group.without_dump:
        yield f"no dump of {ranks_text(group.without_dump)}"
