"""Ranks of a running job that hold up all others: stopped, idle, or on the same CPUs."""

from collections.abc import Iterator

from ....jobs.evidence import BUSY_PERCENT, bound_together, host_cpus, idle_among_busy
from ....model.finding import Finding
from ....model.readings import ProcessState
from ....model.severity import BROKEN, NOTICE, SLOW
from ....model.units import percent
from ...case import Case
from ...rule import Found, Rule, faulty
from ...shared.rank_groups import (
    MEETING,
    MOST_SHOWN,
    gpus_of,
    of_users,
    process_name,
    rank_name,
    ranks_of,
    users_of,
)

LETTERS = {ProcessState.STOPPED: "T", ProcessState.TRACED: "t"}
"""The letters of /proc/PID/status, by the words of a reading."""


def _check_stopped(case: Case) -> Found:
    stopped = faulty([user for user in users_of(case, "state") if user.reading.state in LETTERS])
    one = len(stopped) == 1
    letters = {user.pid: LETTERS[user.reading.state] for user in stopped if user.reading.state}
    return of_users(
        STOPPED,
        case,
        stopped,
        BROKEN,
        f"{'a process' if one else f'{len(stopped)} processes'} on {{gpus}} "
        f"{'is' if one else 'are'} stopped ({' and '.join(dict.fromkeys(letters.values()))})",
        lambda user: (
            f"{process_name(user)} on {case.names(user.gpus)}",
            f"stopped ({letters[user.pid]})",
            f"/proc/{user.pid}/status",
        ),
        impact="It does nothing until a signal lets it go on, and keeps its GPU memory. "
        "Every other rank of its job waits for it in the next collective.",
        fix=[
            (
                "A debugger or another tracer holds it: see which one, and let it go on there. "
                "$ grep TracerPid /proc/{:pid}/status"
                if stopped[0].reading.state is ProcessState.TRACED
                else "See who else waits; let it go on, unless a debugger or somebody stopped it "
                "on purpose. $ gputop jobs; kill -CONT {:pid}",
                stopped[0].pid,
            )
        ],
    )


def _check_cores(case: Case) -> Iterator[Finding]:
    for members in ranks_of(case):
        shared = bound_together(members, host_cpus(case.host))
        if shared:
            yield of_users(
                SHARED_CPUS,
                case,
                shared,
                SLOW,
                f"{len(shared)} ranks on {{gpus}} are bound to fewer CPUs than they are",
                lambda user: (
                    f"CPUs of {rank_name(user)}",
                    user.reading.cpu_affinity or "",
                    f"/proc/{user.pid}/status",
                ),
                impact="They run in turns: each rank starts its kernels late, and every "
                "collective waits for the slowest of them.",
                fix=[
                    "Give each rank CPUs of its own, near its GPU: a core at the least, "
                    "better one for each of its threads. "
                    "$ srun --cpu-bind=verbose,cores --cpus-per-task=8 ..."
                ],
            )


def _check_idle(case: Case) -> Iterator[Finding]:
    for members in ranks_of(case):
        gpus = gpus_of(idle_among_busy(members, case.readings))
        if gpus:
            yield IDLE.finding(
                NOTICE,
                f"{case.names(gpus)} of a running job {'do' if len(gpus) > 1 else 'does'} nothing "
                "while all its other GPUs are busy",
                devices=gpus,
                evidence=[
                    (
                        f"{rank_name(user)} on {case.name(address)}",
                        percent(reading.utilization_percent if reading is not None else None),
                        "utilisation, as the driver says",
                    )
                    for user in members[:MOST_SHOWN]
                    for address in user.gpus
                    for reading in (case.readings.gpu(address),)
                ],
                impact="A rank that waits in a collective keeps its GPU busy, at "
                f"{BUSY_PERCENT:.0f} % or more, so the others may wait for this one. One reading "
                "proves no hang.",
                fix=["Ask which collective each rank is in. $ gputop jobs"],
            )


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
