"""Ranks of a running job that hold up all others: stopped, idle, or on the same CPUs."""

from ....jobs.evidence import BUSY_PERCENT, bound_together, host_cpus, idle_among_busy
from ....model.severity import BROKEN, NOTICE, SLOW
from ....model.units import percent
from ...case import Case
from ...rule import Found, Rule, Step
from ...shared.rank_groups import (
    MEETING,
    MOST_SHOWN,
    gpus_of,
    process_name,
    rank_name,
    ranks_of,
    users_of,
)

TRACED = "traced"
LETTERS = {"stopped": "T", TRACED: "t"}
"""The letters of /proc/PID/status, by the words of a reading."""


def _check_stopped(case: Case) -> Found:
    users = users_of(case)
    if users is None or (users and all(user.reading.state is None for user in users)):
        return None
    stopped = [user for user in users if user.reading.state in LETTERS]
    if not stopped:
        return []
    gpus = gpus_of(stopped)
    one = len(stopped) == 1
    letters = " and ".join(dict.fromkeys(LETTERS[user.reading.state or ""] for user in stopped))
    return STOPPED.finding(
        BROKEN,
        f"{'a process' if one else f'{len(stopped)} processes'} on {case.names(gpus)} "
        f"{'is' if one else 'are'} stopped ({letters})",
        devices=gpus,
        evidence=[
            (
                f"{process_name(user)} on {case.names(user.gpus)}",
                f"stopped ({LETTERS[user.reading.state or '']})",
                f"/proc/{user.pid}/status",
            )
            for user in stopped[:MOST_SHOWN]
        ],
        impact="It does nothing until a signal lets it go on, and keeps its GPU memory. "
        "Every other rank of its job waits for it in the next collective.",
        fix=[_traced(stopped[0].pid)]
        if stopped[0].reading.state == TRACED
        else [
            "See who else waits; let it go on, unless a debugger or somebody stopped it "
            f"on purpose. $ gputop jobs --ras; kill -CONT {stopped[0].pid}"
        ],
    )


def _traced(pid: int) -> Step:
    return (
        "A debugger or another tracer holds it: see which one, and let it go on there. "
        f"$ grep TracerPid /proc/{pid}/status"
    )


def _check_cores(case: Case) -> Found:
    groups = ranks_of(case)
    if groups is None:
        return None
    found = []
    for members in groups:
        if all(user.reading.cpu_affinity is None for user in members):
            continue
        shared = bound_together(members, host_cpus(case.host))
        if not shared:
            continue
        gpus = gpus_of(shared)
        found.append(
            SHARED_CPUS.finding(
                SLOW,
                f"{len(shared)} ranks on {case.names(gpus)} are bound to fewer CPUs than they are",
                devices=gpus,
                evidence=[
                    (
                        f"CPUs of {rank_name(user)}",
                        user.reading.cpu_affinity or "",
                        f"/proc/{user.pid}/status",
                    )
                    for user in shared[:MOST_SHOWN]
                ],
                impact="They run in turns: each rank starts its kernels late, and every "
                "collective waits for the slowest of them.",
                fix=[
                    "Give each rank CPUs of its own, near its GPU: a core at the least, "
                    "better one for each of its threads. "
                    "$ srun --cpu-bind=verbose,cores --cpus-per-task=8 ..."
                ],
            )
        )
    return found


def _check_idle(case: Case) -> Found:
    groups = ranks_of(case)
    if groups is None:
        return None
    found = []
    for members in groups:
        idle = idle_among_busy(members, case.readings)
        if not idle:
            continue
        gpus = gpus_of(idle)
        found.append(
            IDLE.finding(
                NOTICE,
                f"{case.names(gpus)} of a running job {'do' if len(gpus) > 1 else 'does'} nothing "
                "while all its other GPUs are busy",
                devices=gpus,
                evidence=[
                    (
                        f"{rank_name(user)} on {case.name(address)}",
                        percent(
                            None
                            if (reading := case.readings.gpu(address)) is None
                            else reading.utilization_percent
                        ),
                        "utilisation, as the driver says",
                    )
                    for user in members[:MOST_SHOWN]
                    for address in user.gpus
                ],
                impact="A rank that waits in a collective keeps its GPU busy, at "
                f"{BUSY_PERCENT:.0f} % or more, so the others may wait for this one. One reading "
                "proves no hang.",
                fix=["Ask which collective each rank is in. $ gputop jobs --ras"],
            )
        )
    return found


STOPPED = Rule(
    id="rank-stopped",
    title="processes on the GPUs that are stopped",
    evidence="state of the processes on the GPUs",
    disproof="another letter than T or t in `ps -o stat= -p PID`",
    sources=("proc_pid_status(5), State", "signal(7), SIGSTOP"),
    check=_check_stopped,
)
SHARED_CPUS = Rule(
    id="ranks-share-cpus",
    title="ranks of one job that are bound to the same few CPUs",
    evidence=f"{MEETING}, and the CPUs that each of them may use",
    disproof="as many CPUs as ranks in `taskset -cp PID` of all ranks together",
    sources=("sched_setaffinity(2)", "Slurm srun, --cpu-bind"),
    check=_check_cores,
)
IDLE = Rule(
    id="rank-gpu-idle",
    title="a GPU of a running job that idles while all others of the job are busy",
    evidence=f"{MEETING}, and the utilisation of their GPUs",
    disproof="a GPU above 0 % in the next reading, or a job without collectives",
    sources=("NVML nvmlDeviceGetUtilizationRates", "NCCL user guide, RAS"),
    check=_check_idle,
)
RULES = (STOPPED, SHARED_CPUS, IDLE)
