"""Processes on the GPUs that no signal reaches: they are in one uninterruptible sleep."""

import re
from collections.abc import Iterator

from ....jobs.grouping import GpuUser
from ....model.readings import ProcessState
from ....model.severity import BROKEN, NOTICE
from ...case import Case
from ...rule import Found, Proof, Rule, faulty
from ...shared.rank_groups import MOST_SHOWN, gpus_of, process_name, users_of


def _check(case: Case) -> Found:
    least = case.threshold(ASLEEP, "minimum_seconds")
    found = faulty(
        [
            (user, user.reading.asleep_seconds or 0.0)
            for user in users_of(case, "state")
            if (user.reading.state == ProcessState.DISK_SLEEP or user.reading.asleep_thread)
            and (user.reading.asleep_seconds or 0.0) >= least
        ]
    )
    gpus = gpus_of(user for user, _ in found)
    # A thread beside the first one may write a file for long without holding up anybody.
    limits = ("broken_seconds", "thread_broken_seconds")
    stuck = any(
        seconds >= case.threshold(ASLEEP, limits[user.reading.asleep_thread is not None])
        for user, seconds in found
    )
    count = "a process" if len(found) == 1 else f"{len(found)} processes"
    threads = all(user.reading.asleep_thread is not None for user, _ in found)
    who = f"a thread of {count}" if threads else count
    sleep = "sleeps" if len(found) == 1 or threads else "sleep"
    longest = max(seconds for _, seconds in found)
    waits = " if it waits for that thread" if threads else ""
    again = "" if stuck else " A slow file system looks the same: look again."
    return ASLEEP.finding(
        BROKEN if stuck else NOTICE,
        f"{who} on {case.names(gpus)} {sleep} uninterruptibly (D), for {longest:.2g} s at least",
        devices=gpus,
        evidence=[
            proof for user, seconds in found[:MOST_SHOWN] for proof in _proofs(case, user, seconds)
        ],
        impact="No signal reaches it until the kernel is done, SIGKILL neither; the "
        "process keeps its GPU memory, and every other rank of its job waits for it in the "
        f"next collective{waits}.{again}",
        fix=[
            (
                "See what the kernel waits for: a file system that hangs, or the driver of the "
                "GPU. # sudo cat {:path}/stack",
                _folder(found[0][0]),
            ),
            "See whether the kernel complains, after two minutes by default. "
            "# sudo dmesg | grep 'blocked for more than'",
        ],
    )


def _proofs(case: Case, user: GpuUser, seconds: float) -> Iterator[Proof]:
    name, folder = process_name(user), f"/proc/{user.pid}"
    if user.reading.asleep_thread is not None:
        name, folder = f"thread {user.reading.asleep_thread} of {name}", _folder(user)
    yield (
        f"{name} on {case.names(user.gpus)}",
        f"uninterruptible (D), and it never ran in {seconds:.2g} s",
        f"{folder}/status, State and its counts of context switches",
    )
    if user.reading.wait_channel is not None:
        yield f"where {name} sleeps", user.reading.wait_channel, f"{folder}/wchan"


def _folder(user: GpuUser) -> str:
    """Where the kernel tells of the thread that sleeps."""
    number = re.search(r"(\d+)\)?$", user.reading.asleep_thread or "")
    return f"/proc/{user.pid}" + (f"/task/{number[1]}" if number else "")


ASLEEP = Rule(
    id="rank-asleep",
    title="processes on the GPUs that stay in one uninterruptible sleep",
    evidence="state and context switches of the processes on the GPUs and of their threads, in two "
    "looks",
    disproof="another letter than D in `ps -L -o tid,stat,comm -p PID`, or a line ctxt_switches of "
    "/proc/PID/task/TID/status that grows",
    sources=(
        "proc_pid_status(5), State and voluntary_ctxt_switches",
        "Linux Documentation/admin-guide/sysctl/kernel.rst, hung_task_timeout_secs",
    ),
    check=_check,
    thresholds=(
        ("minimum_seconds", 0.4),
        ("broken_seconds", 30.0),
        ("thread_broken_seconds", 120.0),
    ),
)
RULES = (ASLEEP,)
