"""Ranks that want more CPUs than they were given: by their threads, or by a quota they share."""

from collections.abc import Sequence

from ....jobs.demand import QuotaDemand, ThreadDemand, quotas, threads_over_cpus
from ....jobs.grouping import GpuUser
from ....model.english import plural
from ....model.finding import Finding
from ....model.severity import NOTICE, SLOW
from ...case import Case
from ...rule import Found, Proof, Rule
from ...shared.rank_groups import MEETING, MOST_SHOWN, gpus_of, process_name, ranks_of, users_of

VARIABLE = "OMP_NUM_THREADS"


def _check_cpus(case: Case) -> Found:
    groups = ranks_of(case)
    ranks = [user for members in groups for user in members]
    if ranks and all(user.reading.omp_threads is None for user in ranks):
        return []  # not set: what a program then takes is its own choice
    found = [threads_over_cpus(members) for members in groups]
    return [_over_cpus(case, demand) for demand in found if demand is not None]


def _over_cpus(case: Case, demand: ThreadDemand) -> Finding:
    gpus = gpus_of(demand.users)
    return THREADS.finding(
        NOTICE,
        f"{len(demand.users)} ranks on {case.names(gpus)} may start {demand.threads} threads on "
        f"{plural(demand.cpus, 'CPU')}",
        devices=gpus,
        evidence=[
            *_threads(demand.users),
            (
                "CPUs that these ranks may use together",
                str(demand.cpus),
                "/proc/PID/status, Cpus_allowed_list",
            ),
        ],
        impact="Where ranks compute on CPUs at the same time, as in data loading and "
        "optimizers on the host, their threads take the CPUs from the threads that launch kernels.",
        fix=[
            "Give each rank the threads that fit, or more CPUs. "
            f"$ export {VARIABLE}={demand.fitting}"
        ],
    )


def _threads(users: Sequence[GpuUser]) -> list[Proof]:
    return [
        (
            f"{VARIABLE} of {process_name(user)}",
            str(user.reading.omp_threads),
            f"/proc/{user.pid}/environ",
        )
        for user in users[:MOST_SHOWN]
        if user.reading.omp_threads is not None
    ]


def _check_quota(case: Case) -> Found:
    users = users_of(case)
    known = any(
        user.reading.cpu_group is not None or user.reading.why("cpu_quota") == "unlimited"
        for user in users
    )
    if users and not known:
        return None
    return [_over_quota(case, demand) for demand in quotas(users)]


def _over_quota(case: Case, demand: QuotaDemand) -> Finding:
    gpus = gpus_of(demand.users)
    count = len(demand.users)
    who = plural(count, "process", "processes")
    wanted = "" if demand.threads == count else f" with {demand.threads} threads"
    share = "has" if count == 1 else "share"
    return QUOTA.finding(
        SLOW if demand.quota < count else NOTICE,
        f"{who}{wanted} on {case.names(gpus)} {share} {demand.quota:.3g} CPUs' worth of time",
        devices=gpus,
        evidence=[
            (
                "CPU time that their cgroup grants",
                f"{demand.quota:.3g} CPUs",
                "cpu.max of the cgroup in /proc/PID/cgroup",
            ),
            *_threads(demand.users),
        ],
        impact="Once the quota of a period is used up, all their threads stop until the next "
        "one, up to 0.1 s by default, and every collective waits for the rank that stopped.",
        fix=[
            (
                "Grant a CPU to each thread: in Kubernetes resources.limits.cpu, in Slurm "
                "--cpus-per-task, in Docker --cpus."
            ),
            (
                "See how often they were stopped: nr_throttled grows. "
                "$ cat /sys/fs/cgroup$(cut -d: -f3 /proc/{:pid}/cgroup)/cpu.stat",
                demand.users[0].pid,
            ),
        ],
    )


THREADS = Rule(
    id="threads-over-cpus",
    title="ranks whose OMP_NUM_THREADS together is more than their CPUs",
    evidence=f"{MEETING}, OMP_NUM_THREADS of each of them, and the CPUs that they may use",
    disproof=f"a sum of {VARIABLE} over the ranks that is not above the number of their CPUs",
    sources=("OpenMP 5.2, OMP_NUM_THREADS", "PyTorch documents, torchrun"),
    check=_check_cpus,
)
QUOTA = Rule(
    id="threads-over-quota",
    title="processes on the GPUs that share too little CPU time",
    evidence="cgroup of the processes on the GPUs that grants CPU time, and OMP_NUM_THREADS",
    disproof="an nr_throttled in cpu.stat of the cgroup that stays the same",
    sources=("Linux Documentation/admin-guide/cgroup-v2.rst, cpu.max and cpu.stat",),
    check=_check_quota,
    implied_by=("cpu-limit-low",),
)
RULES = (QUOTA, THREADS)
