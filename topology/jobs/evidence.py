"""Facts about the ranks of a job from /proc and from the driver, each proven by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..model.cpulist import members
from ..model.machine import Host
from ..model.readings import Readings
from ..model.units import size
from .activity import Activity
from .binding import crowded
from .grouping import GpuUser, Job
from .standing import BAD, DRIVER, NOTE, PROC, JobFact
from .words import joined

FULL_CORE = 0.9
"""From this share of a core on, a process is said to use a whole one."""
IDLE_PERCENT, BUSY_PERCENT = 0.0, 95.0
GROWS_BYTES = 256 * 2**20
"""Growth of one process between two readings that is worth a line."""

_THREADS = "OMP_NUM_THREADS"


def facts(
    job: Job,
    readings: Readings,
    activities: Mapping[int, Activity],
    labels: Mapping[int, str],
    cpus: int | None,
) -> Iterator[JobFact]:
    """What two readings of /proc and one of the driver prove; `cpus`: how many the host has."""
    yield from _cores(job, labels, cpus)
    yield from _quota(job)
    yield from _threads(job, activities)
    yield from _idle(job, readings, labels)
    yield from _spinning(job, activities, labels)
    yield from _growing(job, activities, labels)


def host_cpus(host: Host | None) -> int | None:
    """CPUs of all NUMA nodes of the host; None where they are not known."""
    if host is None:
        return None
    return sum(len(members(node.cpus) or ()) for node in host.numa) or None


def _cores(job: Job, labels: Mapping[int, str], cpus: int | None) -> Iterator[JobFact]:
    shared = bound_together(job.processes, cpus)
    if shared:
        where = sorted({user.reading.cpu_affinity or "" for user in shared})
        yield JobFact(
            text=f"{joined([labels[user.pid] for user in shared], 4)} are bound to CPU "
            f"{joined(where)}: fewer CPUs than ranks, so they run in turns",
            origin=PROC,
            weight=BAD,
            ranks=_ranks(shared),
        )


def bound_together(users: Sequence[GpuUser], cpus: int | None) -> tuple[GpuUser, ...]:
    """Processes that are bound to fewer CPUs than they are.

    Not where each of them may use all CPUs of the host: that is no binding.
    """
    found = crowded(user.reading for user in users)
    sets = {members(user.reading.cpu_affinity) for user in users if user.pid in found}
    whole = cpus is not None and all(len(each or ()) >= cpus for each in sets)
    return () if whole else tuple(user for user in users if user.pid in found)


def _quota(job: Job) -> Iterator[JobFact]:
    quotas = {user.reading.cpu_quota for user in job.processes}
    if len(quotas) == 1 and (quota := quotas.pop()) is not None and quota < len(job.processes):
        yield JobFact(
            text=f"its cgroup grants {quota:.3g} CPUs' worth of time to {len(job.processes)} "
            "processes (cpu.max)",
            origin=PROC,
            weight=BAD,
        )


def _threads(job: Job, activities: Mapping[int, Activity]) -> Iterator[JobFact]:
    """OMP_NUM_THREADS of all ranks together against the CPUs that they may use together."""
    allowed: set[int] = set()
    wanted = 0
    for user in job.processes:
        found = activities.get(user.pid)
        value = dict((found.variables if found is not None else None) or ()).get(_THREADS, "")
        own = members(user.reading.cpu_affinity)
        if not (value.isascii() and value.isdecimal() and len(value) < 6) or not own:
            return
        wanted += int(value)
        allowed |= own
    if wanted > len(allowed):
        yield JobFact(
            text=f"{_THREADS} of all {len(job.processes)} ranks together is {wanted}, on "
            f"{len(allowed)} CPUs that they may use",
            origin=PROC,
        )


def _idle(job: Job, readings: Readings, labels: Mapping[int, str]) -> Iterator[JobFact]:
    idle = idle_among_busy(job.processes, readings)
    if idle:
        yield JobFact(
            text=f"{joined([labels[user.pid] for user in idle], 4)}: 0 % of the GPU while all "
            f"others of the job stand at {BUSY_PERCENT:.0f} % or more, as ranks that wait do",
            origin=DRIVER,
            ranks=_ranks(idle),
        )


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
        if found is not None and (found.grown_bytes or 0) >= GROWS_BYTES:
            yield JobFact(
                text=f"the host memory of {labels[user.pid]} grew by {size(found.grown_bytes)} in "
                f"{found.seconds:.2g} s, to {size(found.memory_bytes)}",
                origin=PROC,
                ranks=_ranks([user]),
            )


def _ranks(users: Sequence[GpuUser]) -> tuple[int, ...]:
    return tuple(user.reading.rank for user in users if user.reading.rank is not None)
