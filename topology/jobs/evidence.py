"""Facts about the ranks of a job from /proc and from the driver, each proven by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..model.cpulist import members
from ..model.readings import Readings
from ..model.surroundings import Host
from ..model.units import size
from .activity import Activity
from .binding import crowded
from .demand import quotas, threads_over_cpus
from .grouping import GpuUser, Job
from .ras.comparing import RasStanding
from .standing import BAD, DRIVER, NOTE, PROC, JobFact, RankStanding
from .words import joined

FULL_CORE = 0.9
"""From this share of a core on, a process is said to use a whole one."""
IDLE_PERCENT, BUSY_PERCENT = 0.0, 95.0
GROWS_BYTES = 32 * 2**20
"""Growth of one process between two readings that is worth a line."""

_THREADS = "OMP_NUM_THREADS"


def facts(
    job: Job,
    readings: Readings,
    activities: Mapping[int, Activity],
    labels: Mapping[int, str],
    cpus: int | None,
    followed: str | None = None,
) -> Iterator[JobFact]:
    """What two readings of /proc and one of the driver prove.

    `cpus`: how many the host has. `followed`: the version whose rules predict, "2.28.9".
    """
    yield from _cores(job, labels, cpus)
    yield from _quota(job, activities)
    yield from _threads(job)
    yield from _idle(job, readings, labels)
    yield from _spinning(job, activities, labels)
    yield from _growing(job, activities, labels)
    yield from _libraries(job, activities, labels, followed)


def host_cpus(host: Host | None) -> int | None:
    """CPUs of all NUMA nodes of the host; None where they are not known."""
    if host is None:
        return None
    return sum(len(members(node.cpus) or ()) for node in host.numa) or None


def _cores(job: Job, labels: Mapping[int, str], cpus: int | None) -> Iterator[JobFact]:
    shared = bound_together(job.processes, cpus)
    if shared:
        where = sorted({user.reading.cpu_affinity or "" for user in shared})
        who = "all" if len(shared) == len(job.processes) else f"{len(shared)} of them"
        yield JobFact(
            text=f"{joined([labels[user.pid] for user in shared], 4)} are bound to CPU "
            f"{joined(where)}: fewer CPUs than ranks, so they run in turns",
            origin=PROC,
            weight=BAD,
            ranks=_ranks(shared),
            brief=f"{who} are bound to CPU {joined(where)}, fewer CPUs than ranks",
        )


def bound_together(users: Sequence[GpuUser], cpus: int | None) -> tuple[GpuUser, ...]:
    """Processes that are bound to fewer CPUs than they are.

    Not where each of them may use all CPUs of the host: that is no binding.
    """
    found = crowded(user.reading for user in users)
    sets = {members(user.reading.cpu_affinity) for user in users if user.pid in found}
    whole = cpus is not None and all(len(each or ()) >= cpus for each in sets)
    return () if whole else tuple(user for user in users if user.pid in found)


def _quota(job: Job, activities: Mapping[int, Activity]) -> Iterator[JobFact]:
    """CPU time that cgroups grant: too little for the threads, or used up between two readings."""
    small = {demand.users[0].reading.cpu_group: demand for demand in quotas(job.processes)}
    groups = dict.fromkeys(user.reading.cpu_group for user in job.processes)
    for group in groups:
        users = [user for user in job.processes if user.reading.cpu_group == group]
        quota = users[0].reading.cpu_quota
        if group is None or quota is None:
            continue
        count = "1 process" if len(users) == 1 else f"{len(users)} processes"
        text = f"its cgroup grants {quota:.3g} CPUs' worth of time to {count} (cpu.max)"
        counted = [dict(found.stopped_periods).get(group) for found in activities.values()]
        periods, stopped = max((each for each in counted if each), default=(0, 0))
        demand = small.get(group)
        if stopped > 0:
            text += f", used up in {stopped} of {periods} periods: then all its threads stop"
        elif demand is not None and quota >= len(users):
            text += f"; {_THREADS} of all together is {demand.threads}"
        elif demand is None:
            continue
        few = stopped > 0 or quota < len(users)
        ranks = _ranks(users)
        brief = f"{count} share {quota:.3g} CPUs' worth of time" if few else ""
        weight = BAD if few else NOTE
        yield JobFact(text=text, origin=PROC, weight=weight, ranks=ranks, brief=brief)


def _threads(job: Job) -> Iterator[JobFact]:
    """OMP_NUM_THREADS of all ranks together against the CPUs that they may use together."""
    demand = threads_over_cpus(job.processes)
    if demand is not None:
        count = len(demand.users)
        whose = f"all {count} ranks together" if count > 1 else "the process"
        cpus = "1 CPU" if demand.cpus == 1 else f"{demand.cpus} CPUs"
        where = f"{cpus} that {'they' if count > 1 else 'it'} may use"
        yield JobFact(text=f"{_THREADS} of {whose} is {demand.threads}, on {where}", origin=PROC)


def _idle(job: Job, readings: Readings, labels: Mapping[int, str]) -> Iterator[JobFact]:
    # Workers of a server or of Ray that somebody started together need not wait for each other.
    ranks = all(user.reading.rank is not None for user in job.processes)
    idle = idle_among_busy(job.processes, readings) if ranks else ()
    if idle:
        yield JobFact(
            text=f"{joined([labels[user.pid] for user in idle], 4)}: 0 % of the GPU while all "
            f"others of the job stand at {BUSY_PERCENT:.0f} % or more, as ranks that wait do",
            origin=DRIVER,
            ranks=_ranks(idle),
        )


def need_not_wait(each: RasStanding, ranks: Sequence[RankStanding]) -> str:
    """Why ranks here that launched the last collective need not wait in it; "" where they may.

    A GPU that waits in a kernel of NCCL is busy all the time: on two H100 always 100 %, and 58 %
    where the other rank had ended and this one computed on.
    """
    ahead = {rank.who for rank in each.ahead}
    shares = [
        rank.busiest_percent
        for rank in ranks
        if rank.who in ahead and rank.pid is not None and (not rank.trouble or rank.follows)
    ]
    known = [share for share in shares if share is not None]
    if not known or len(known) < len(shares) or max(known) >= BUSY_PERCENT:
        return ""
    most = max(known)
    state = "idle" if most <= IDLE_PERCENT else f"are busy at most {most:.0f} % of the time"
    return f"the GPUs of the others {state}, so they need not wait in a collective"


def idle_among_busy(users: Sequence[GpuUser], readings: Readings) -> tuple[GpuUser, ...]:
    """Ranks with a GPU of their own at 0 % while those of all other ranks are fully busy.

    () unless these are fewer than the busy ones, and every GPU is known.
    """
    idle: list[GpuUser] = []
    busy = 0
    for user in users:
        found = [readings.gpu(address) for address in user.gpus]
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
) -> Iterator[JobFact]:
    spinning = [
        user
        for user in job.processes
        if (found := activities.get(user.pid)) is not None
        and found.user_cores is not None
        and found.user_cores >= FULL_CORE
    ]
    if spinning:
        seconds = activities[spinning[0].pid].seconds
        every = len(spinning) == len(job.processes) > 1
        who = "all ranks" if every else joined([labels[user.pid] for user in spinning], 4)
        yield JobFact(
            text=f"{who} used a whole core or more in user mode over {seconds:.2g} s: computing, "
            "looping, or polling for the GPU",
            origin=PROC,
            weight=NOTE,
            ranks=_ranks(spinning),
        )


def _growing(
    job: Job, activities: Mapping[int, Activity], labels: Mapping[int, str]
) -> Iterator[JobFact]:
    for user in job.processes:
        found = activities.get(user.pid)
        if found is None or found.seconds <= 0:
            continue
        if (found.grown_bytes or 0) >= GROWS_BYTES:
            pace = (found.grown_bytes or 0) / found.seconds
            yield JobFact(
                text=f"the host memory of {labels[user.pid]} grew by {size(found.grown_bytes)} in "
                f"{found.seconds:.2g} s ({size(round(pace))} a second), to "
                f"{size(found.memory_bytes)}; whether it goes on, two looks do not show",
                origin=PROC,
                ranks=_ranks([user]),
            )


def _libraries(
    job: Job, activities: Mapping[int, Activity], labels: Mapping[int, str], followed: str | None
) -> Iterator[JobFact]:
    """The NCCL that each rank has loaded, where ranks differ and beside the one that predicts."""
    by: dict[tuple[str, str], list[GpuUser]] = {}
    for user in job.processes:
        found = activities.get(user.pid)
        library = found.library if found is not None else None
        if library is not None:
            version = "one replaced since it was loaded" if library.replaced else library.version
            by.setdefault((version or "of unknown version", library.path), []).append(user)
    versions = {version for version, _ in by}
    if len(versions) > 1:
        text = "; ".join(
            f"{joined([labels[user.pid] for user in users], 4)}: {version} ({path})"
            for (version, path), users in by.items()
        )
        yield JobFact(text=f"ranks have loaded different NCCLs: {text}", origin=PROC, weight=BAD)
    elif by:
        (version, path), *others = by
        who = "it has" if len(job.processes) == 1 else "its ranks have"
        more = f" and {len(others)} more files" if others else ""
        known = version[0].isdigit() and followed is not None
        beside = f"; predictions here follow {followed}" if known and version != followed else ""
        yield JobFact(
            text=f"{who} loaded NCCL {version} ({path}{more}){beside}", origin=PROC, weight=NOTE
        )


def _ranks(users: Sequence[GpuUser]) -> tuple[int, ...]:
    return tuple(user.reading.rank for user in users if user.reading.rank is not None)
